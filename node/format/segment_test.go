package format

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/node/op"
	"pgregory.net/rapid"
)

var updateSegments = flag.Bool("update-segments", false, "write the golden files of segment, index, record and envelope")

// pinned compares b with the golden file name: hex, 16 bytes a line.
func pinned(t *testing.T, name string, b []byte) {
	t.Helper()
	var text strings.Builder
	for i := 0; i < len(b); i += 16 {
		text.WriteString(hex.EncodeToString(b[i:min(i+16, len(b))]) + "\n")
	}
	path := filepath.Join("testdata", name)
	if *updateSegments {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Errorf("%s: the bytes have changed:\n%s\nwant\n%s", name, text.String(), want)
	}
}

var (
	goldenHeader   = SegmentHeader{Topic: 513, Partition: 7, Base: 0x0102030405060708, ClusterID: [16]byte{0: 0xC1, 15: 0xC2}, Created: 1700000000123}
	goldenEntry    = IndexEntry{Sequence: 9, Timestamp: 1700000000456, Offset: 4096, Length: 77}
	goldenEnvelope = Envelope{Reason: op.CauseAttempts, Topic: 513, Partition: 7, Attempts: 5, Sequence: 42, Time: 1700000000789, Group: 3, GroupName: []byte("billing")}
	goldenRecord   = Record{
		Flags: RecordFlagKey, Sequence: 42, ProducerID: 0xA1A2A3A4A5A6A7A8, ProducerSeq: 99, Timestamp: 1700000000456,
		LeaderEpoch: 6, Kind: RecordQuorum, Key: []byte("key"), Value: []byte("hello, mortar"),
	}
)

// Goal: the bytes on disk never change by accident.
func TestGoldenSegments(t *testing.T) {
	header := make([]byte, SegmentHeaderSize)
	goldenHeader.PutSegment(header)
	pinned(t, "segment_header.hex", header)
	goldenHeader.PutIndex(header)
	pinned(t, "index_header.hex", header)
	pinned(t, "index_entry.hex", goldenEntry.Append(nil))
	pinned(t, "envelope.hex", goldenEnvelope.Append(nil))
	pinned(t, "record.hex", goldenRecord.Append(nil))
	dead := goldenRecord
	dead.Kind, dead.Envelope = RecordDeadLetter, goldenEnvelope.Append(nil)
	pinned(t, "record_dead_letter.hex", dead.Append(nil))
}

func drawRecord(t *rapid.T) Record {
	u64 := rapid.Uint64()
	r := Record{
		Sequence: op.Sequence(rapid.Uint64Min(1).Draw(t, "sequence")), ProducerID: u64.Draw(t, "producer"), ProducerSeq: u64.Draw(t, "pseq"),
		Timestamp: u64.Draw(t, "timestamp"), LeaderEpoch: op.Epoch(rapid.Uint32().Draw(t, "epoch")), Kind: RecordKind(rapid.IntRange(0, 2).Draw(t, "kind")),
		Value: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "value"),
	}
	if rapid.Bool().Draw(t, "keyed") {
		r.Flags, r.Key = RecordFlagKey, rapid.SliceOfN(rapid.Byte(), 0, 255).Draw(t, "key")
	}
	if r.Kind == RecordDeadLetter {
		e := drawEnvelope(t)
		r.Envelope = e.Append(nil)
	}
	return r
}

func drawEnvelope(t *rapid.T) Envelope {
	u64 := rapid.Uint64()
	return Envelope{
		Reason: rapid.Byte().Draw(t, "reason"), Topic: op.TopicID(rapid.Uint16().Draw(t, "topic")), Partition: op.PartitionID(rapid.Uint16().Draw(t, "part")),
		Attempts: rapid.Uint32().Draw(t, "attempts"), Sequence: op.Sequence(u64.Draw(t, "source")), Time: u64.Draw(t, "time"),
		Group: op.GroupID(rapid.Uint16().Draw(t, "group")), GroupName: rapid.SliceOfN(rapid.Byte(), 0, 255).Draw(t, "name"),
	}
}

// Goal: what is encoded decodes to itself, and any flipped bit is noticed.
func TestSegmentRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRecord(t)
		b := r.Append([]byte("before"))[6:]
		got, n, err := DecodeRecord(append(b, "behind"...))
		if err != nil || n != r.Size() || !reflect.DeepEqual(got, r) {
			t.Fatalf("%+v\nis not\n%+v: %v", got, r, err)
		}
		view, _ := ViewRecord(b)
		if !reflect.DeepEqual(view, r) || RecordSequence(b) != r.Sequence {
			t.Fatal("a view differs")
		}
		at := rapid.IntRange(0, len(b)*8-1).Draw(t, "bit")
		b[at/8] ^= 1 << (at % 8)
		if _, _, err := DecodeRecord(b); err == nil {
			t.Fatalf("bit %d flipped and nobody noticed", at)
		}
		if _, _, err := DecodeRecord(b[:len(b)-1]); err == nil {
			t.Fatal("a short record decodes")
		}

		e := drawEnvelope(t)
		if back, err := DecodeEnvelope(e.Append(nil)); err != nil || !reflect.DeepEqual(back, e) {
			t.Fatalf("%+v is not %+v: %v", back, e, err)
		}

		h := SegmentHeader{Topic: op.TopicID(rapid.Uint16().Draw(t, "t")), Partition: 3, Base: r.Sequence, Created: r.Timestamp}
		copy(h.ClusterID[:], r.Value)
		raw := make([]byte, SegmentHeaderSize)
		h.PutSegment(raw)
		if back, err := DecodeSegmentHeader(raw); err != nil || back != h {
			t.Fatalf("%+v is not %+v: %v", back, h, err)
		}
		if _, err := DecodeIndexHeader(raw); !errors.Is(err, ErrSegmentHeader) {
			t.Fatal("a segment passes for an index")
		}
		bit := rapid.IntRange(0, SegmentHeaderSize*8-1).Draw(t, "header bit")
		raw[bit/8] ^= 1 << (bit % 8)
		if _, err := DecodeSegmentHeader(raw); !errors.Is(err, ErrSegmentHeader) {
			t.Fatalf("header bit %d flipped: %v", bit, err)
		}

		x := IndexEntry{Sequence: r.Sequence, Timestamp: r.Timestamp, Offset: rapid.Uint32Min(SegmentHeaderSize).Draw(t, "o"), Length: rapid.Uint32Range(RecordHeaderSize, RecordBytesMax).Draw(t, "l")}
		if back, err := DecodeIndexEntry(x.Append(nil)); err != nil || back != x {
			t.Fatalf("%+v is not %+v: %v", back, x, err)
		}
		name := SegmentName(r.Sequence, IndexSuffix)
		if base, index, ok := ParseSegmentName(name); !ok || !index || base != r.Sequence {
			t.Fatalf("%s does not parse", name)
		}
	})
}

// Goal: a newer version is refused by name, not taken for damage.
func TestSegmentTooNew(t *testing.T) {
	raw := make([]byte, SegmentHeaderSize)
	goldenHeader.PutSegment(raw)
	raw[4] = 2
	resum(raw)
	var version *VersionError
	if _, err := DecodeSegmentHeader(raw); !errors.As(err, &version) || version.Version != 2 || version.Known != 1 {
		t.Fatalf("%v", err)
	}
	version.Path = "topics/1/0/1.mqs"
	for _, word := range []string{"SEGMENT_VERSION_TOO_NEW", "topics/1/0/1.mqs", "2", "MMQS"} {
		if !strings.Contains(version.Error(), word) {
			t.Errorf("%q does not name %s", version, word)
		}
	}
	env := goldenEnvelope.Append(nil)
	env[4] = 2
	if _, err := DecodeEnvelope(env); !errors.As(err, &version) {
		t.Fatalf("%v", err)
	}
	if n, err := EnvelopeSize(env); err != nil || n != len(env) {
		t.Fatal("a newer envelope cannot be stepped over")
	}
}

// Goal: only names that we write are ours.
func TestSegmentNames(t *testing.T) {
	for _, name := range []string{"", ".mqs", "0.mqs", "01.mqs", "+1.mqs", "-1.mqs", "1.mqx", "1.mqs.mqs", "a.mqs", "18446744073709551616.mqi", "1 .mqs", "1_0.mqs"} {
		if _, _, ok := ParseSegmentName(name); ok {
			t.Errorf("%q parses", name)
		}
	}
	if got := PartitionDir(7, 3); got != "topics/7/3" {
		t.Error(got)
	}
}

// Goal: no bytes make a decoder panic or read beyond them, and what decodes
// encodes to the same bytes.
func FuzzRecord(f *testing.F) {
	f.Add(goldenRecord.Append(nil), true)
	f.Add(goldenRecord.Append(nil)[:60], false)
	f.Fuzz(func(t *testing.T, b []byte, sum bool) {
		if n, err := RecordSize(b); sum && err == nil && n <= len(b) {
			b = bytes.Clone(b)
			resumRecord(b[:n])
		}
		r, n, err := DecodeRecord(b)
		if err == nil && !bytes.Equal(r.Append(nil), b[:n]) {
			t.Fatal("decodes what is not written")
		}
	})
}

func FuzzSegmentHeader(f *testing.F) {
	raw := make([]byte, SegmentHeaderSize)
	goldenHeader.PutSegment(raw)
	f.Add(raw)
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		if len(b) >= SegmentHeaderSize {
			resum(b)
		}
		for i, decode := range [...]func([]byte) (SegmentHeader, error){DecodeSegmentHeader, DecodeIndexHeader} {
			h, err := decode(b)
			if err != nil {
				continue
			}
			back := make([]byte, SegmentHeaderSize)
			if h.PutSegment(back); i == 1 {
				h.PutIndex(back)
			}
			if !bytes.Equal(back, b[:SegmentHeaderSize]) {
				t.Fatal("decodes what is not written")
			}
		}
	})
}

func FuzzIndexEntry(f *testing.F) {
	f.Add(goldenEntry.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := DecodeIndexEntry(b); err == nil && !bytes.Equal(e.Append(nil), b[:IndexEntrySize]) {
			t.Fatal("decodes what is not written")
		}
	})
}

func FuzzEnvelope(f *testing.F) {
	f.Add(goldenEnvelope.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := DecodeEnvelope(b); err == nil && !bytes.Equal(e.Append(nil), b) {
			t.Fatal("decodes what is not written")
		}
	})
}

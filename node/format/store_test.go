package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"hash/crc32"
	"testing"

	"github.com/mortarmq/mortarmq/node/op"
)

var updateStore = flag.Bool("update-store", false, "write the golden files of superblock, journal, metadata and checkpoint")

// resumLast makes a checksum right again that stands in the last four bytes.
func resumLast(b []byte) {
	n := len(b) - 4
	binary.BigEndian.PutUint32(b[n:], crc32.Checksum(b[:n], op.Castagnoli))
}

// goldenStore compares b with the golden file name.
func goldenStore(t *testing.T, name string, b []byte) {
	t.Helper()
	saved := *updateSegments
	*updateSegments = *updateStore
	defer func() { *updateSegments = saved }()
	pinned(t, name, b)
}

var (
	storeCluster     = [16]byte{0: 0xC1, 15: 0xC2}
	storeHash        = op.Hash{1, 2, 3, 15: 9}
	goldenSuperblock = Superblock{
		NodeID: 3, Version: 77, ClusterID: storeCluster, Promised: 9, Installed: 8, InstalledOp: 1000, InstalledHash: storeHash,
		CheckpointOp: 900, CheckpointEpoch: 7, CheckpointHash: op.Hash{4}, CheckpointTime: 123456, MetadataRecords: 40, SnapshotRecords: 30, SnapshotEpoch: 6,
		JournalFirst: 12, JournalCurrent: 14,
	}
	goldenJournalHeader  = JournalHeader{File: 12, ClusterID: storeCluster, First: 901, PrevHash: storeHash}
	goldenMetadataHeader = MetadataHeader{ClusterID: storeCluster, Offset: 30}
	goldenSnapshotHeader = SnapshotHeader{ClusterID: storeCluster, Offset: 30, Epoch: 6, CRC: 0xABCDEF, Length: 4}
	goldenMetadataRecord = MetadataRecord{Offset: 31, Number: 902, Epoch: 7, LogTime: 123999, Op: []byte{1, 2, 3}}
	goldenCheckpoint     = CheckpointHeader{ClusterID: storeCluster, Number: 900, Epoch: 7, Hash: storeHash, LogTime: 123456}
	goldenPosition       = Position{Topic: 513, Partition: 7, Last: 44, Base: 40, Offset: 4096}
)

// goldenWrite is a write of one entry into the journal file of goldenJournalHeader.
func goldenWrite() []byte {
	var b op.Builder
	b.Add(&op.Op{Kind: op.KindPublish, Topic: 513, Value: []byte("hello")})
	b.Seal(op.Header{Number: 901, Epoch: 8, PrevHash: storeHash, Commit: 900, LogTime: 123500})
	seed := JournalSeed(storeCluster, 12)
	raw := b.Bytes()
	s := b.Spans()[0]
	PutFrame(raw[s.Start:s.End], seed)
	w := JournalWrite{File: 12, Mark: 900, First: 901, Bytes: uint32(b.Len()), Entries: 1}
	w.Put(raw, seed)
	return raw
}

// Goal: the bytes of superblock, journal, metadata and checkpoint files never
// change unnoticed.
func TestGoldenStore(t *testing.T) {
	block := make([]byte, SuperblockSlotSize)
	goldenSuperblock.Put(block, 1)
	goldenStore(t, "superblock.hex", block)
	goldenJournalHeader.Put(block)
	goldenStore(t, "journal_header.hex", block)
	goldenStore(t, "journal_write.hex", goldenWrite())
	small := make([]byte, MetadataHeaderSize)
	goldenMetadataHeader.Put(small)
	goldenStore(t, "metadata_header.hex", small)
	goldenSnapshotHeader.Put(small)
	goldenStore(t, "snapshot_header.hex", small)
	goldenStore(t, "metadata_record.hex", goldenMetadataRecord.Append(nil))
	header := make([]byte, CheckpointHeaderSize)
	goldenCheckpoint.Put(header, CursorCheckpointMagic)
	goldenStore(t, "checkpoint_header.hex", header)
	positions := Block{Kind: BlockPositions, Number: 2, Payload: goldenPosition.Append(nil)}
	goldenStore(t, "checkpoint_block.hex", positions.Append(nil, goldenCheckpoint.Seed()))
	records := Held{Topic: 3, Partition: 1, Records: []byte("records")}
	held := Block{Kind: BlockHeld, Number: 3, Payload: records.Append(nil)}
	goldenStore(t, "checkpoint_held.hex", held.Append(nil, goldenCheckpoint.Seed()))
}

// Goal: what was encoded decodes to the same, and no single flipped bit does.
func TestStoreBitFlips(t *testing.T) {
	slot := make([]byte, SuperblockSlotSize)
	goldenSuperblock.Put(slot, 1)
	header := make([]byte, JournalBlock)
	goldenJournalHeader.Put(header)
	write := goldenWrite()
	seed := JournalSeed(storeCluster, 12)
	meta, snap := make([]byte, MetadataHeaderSize), make([]byte, MetadataHeaderSize)
	goldenMetadataHeader.Put(meta)
	goldenSnapshotHeader.Put(snap)
	check := make([]byte, CheckpointHeaderSize)
	goldenCheckpoint.Put(check, LogCheckpointMagic)
	piece := Block{Kind: BlockPiece, Number: 3, Payload: []byte("piece")}
	for _, c := range []struct {
		name   string
		b      []byte
		decode func(b []byte) bool
	}{
		{"superblock", slot, func(b []byte) bool { s, err := DecodeSuperblock(b, 1); return err == nil && s == goldenSuperblock }},
		{"journal header", header, func(b []byte) bool {
			h, err := DecodeJournalHeader(b)
			return err == nil && h == goldenJournalHeader
		}},
		{"write", write[:op.WritePrefix], func(b []byte) bool {
			w, err := DecodeJournalWrite(b, seed)
			return err == nil && w.First == 901 && w.Mark == 900
		}},
		{"frame", write[op.WritePrefix:], func(b []byte) bool {
			h, size, err := DecodeFrame(b, seed)
			return err == nil && size == len(b) && h.CheckBody(b[FrameOverhead:])
		}},
		{"metadata header", meta, func(b []byte) bool {
			h, err := DecodeMetadataHeader(b)
			return err == nil && h == goldenMetadataHeader
		}},
		{"snapshot header", snap, func(b []byte) bool {
			h, err := DecodeSnapshotHeader(b)
			return err == nil && h == goldenSnapshotHeader
		}},
		{"metadata record", goldenMetadataRecord.Append(nil), func(b []byte) bool {
			r, size, err := DecodeMetadataRecord(b)
			return err == nil && size == len(b) && r.Offset == 31 && bytes.Equal(r.Op, goldenMetadataRecord.Op)
		}},
		{"checkpoint header", check, func(b []byte) bool {
			h, err := DecodeCheckpointHeader(b, LogCheckpointMagic)
			return err == nil && h == goldenCheckpoint
		}},
		{"block", piece.Append(nil, 5), func(b []byte) bool {
			k, size, err := DecodeBlock(b, 5)
			return err == nil && size == len(b) && k.Number == 3 && bytes.Equal(k.Payload, piece.Payload)
		}},
	} {
		if !c.decode(c.b) {
			t.Fatalf("%s does not decode to itself", c.name)
		}
		for i := range c.b {
			for bit := range 8 {
				c.b[i] ^= 1 << bit
				if c.decode(c.b) {
					t.Fatalf("%s: byte %d bit %d is not covered", c.name, i, bit)
				}
				c.b[i] ^= 1 << bit
			}
		}
	}
	if _, err := DecodeSuperblock(slot, 0); err == nil {
		t.Fatal("a slot is valid in the place of the other")
	}
	if _, err := DecodeJournalWrite(write, JournalSeed(storeCluster, 13)); err == nil {
		t.Fatal("a write of another lap is valid")
	}
}

// Goal: a whole header of a later version is told from damage.
func TestStoreTooNew(t *testing.T) {
	slot := make([]byte, SuperblockSlotSize)
	goldenSuperblock.Put(slot, 1)
	header := make([]byte, JournalBlock)
	goldenJournalHeader.Put(header)
	meta := make([]byte, MetadataHeaderSize)
	goldenMetadataHeader.Put(meta)
	check := make([]byte, CheckpointHeaderSize)
	goldenCheckpoint.Put(check, LogCheckpointMagic)
	for _, c := range []struct {
		b      []byte
		decode func(b []byte) error
	}{
		{slot, func(b []byte) error { _, err := DecodeSuperblock(b, 1); return err }},
		{header, func(b []byte) error { _, err := DecodeJournalHeader(b); return err }},
		{meta, func(b []byte) error { _, err := DecodeMetadataHeader(b); return err }},
		{check, func(b []byte) error { _, err := DecodeCheckpointHeader(b, LogCheckpointMagic); return err }},
	} {
		c.b[4] = 2
		var newer *VersionError
		if err := c.decode(c.b); errors.As(err, &newer) {
			t.Fatalf("%s: a version without its checksum was believed", c.b[:4])
		}
		resumLast(c.b)
		if err := c.decode(c.b); !errors.As(err, &newer) || newer.Version != 2 {
			t.Fatalf("%s: %v", c.b[:4], err)
		}
	}
}

// Goal: names are read back as they were made, and nothing else is.
func TestStoreNames(t *testing.T) {
	if n, ok := ParseJournalName("0000000012.mmjl"); !ok || n != 12 || JournalName(12) != "journal/0000000012.mmjl" {
		t.Fatal(n, ok)
	}
	if n, ok := ParseJournalName("12345678901.mmjl"); !ok || JournalName(n) != "journal/12345678901.mmjl" {
		t.Fatal(n, ok)
	}
	for _, bad := range []string{"", ".mmjl", "12.mmjl", "0000000000.mmjl", "000000000x.mmjl", "00000000012.mmjl", "+000000012.mmjl"} {
		if _, ok := ParseJournalName(bad); ok {
			t.Fatalf("%q was read", bad)
		}
	}
	if n, e, ok := ParseSnapshotName("mmms-30-6.bin"); !ok || SnapshotName(n, e) != "metadata/mmms-30-6.bin" {
		t.Fatal(n, e, ok)
	}
	if n, ok := ParseMetadataName("30.mmml"); !ok || MetadataName(n) != "metadata/30.mmml" {
		t.Fatal(n, ok)
	}
	if n, cursor, ok := ParseCheckpointName("cursor-9.mqc"); !ok || !cursor || CursorCheckpointName(n) != "checkpoints/cursor-9.mqc" {
		t.Fatal(n, cursor, ok)
	}
	for _, bad := range []string{"mmms-.bin", "mmms-1.bin", "mmms-1-.bin", "mmms-01-1.bin", ".mmml", "log-.mqc", "log-1.mqc.tmp", "logs-1.mqc"} {
		_, _, a := ParseSnapshotName(bad)
		_, b := ParseMetadataName(bad)
		_, _, c := ParseCheckpointName(bad)
		if a || b || c {
			t.Fatalf("%q was read", bad)
		}
	}
}

// Goal: no input makes a decoder panic, and what one accepts encodes to the same
// bytes.
func FuzzSuperblock(f *testing.F) {
	slot := make([]byte, SuperblockSlotSize)
	goldenSuperblock.Put(slot, 1)
	f.Add(slot[:superblockEnd])
	f.Fuzz(func(t *testing.T, b []byte) {
		raw := make([]byte, SuperblockSlotSize)
		copy(raw, b)
		resumLast(raw)
		if s, err := DecodeSuperblock(raw, raw[5]&1); err == nil {
			got := make([]byte, SuperblockSlotSize)
			if s.Put(got, raw[5]&1); !bytes.Equal(got, raw) {
				t.Fatalf("%+v", s)
			}
		}
		_, _ = DecodeSuperblock(b, 0)
	})
}

// Goal: the same for the journal.
func FuzzJournal(f *testing.F) {
	seed := JournalSeed(storeCluster, 12)
	write := goldenWrite()
	header := make([]byte, JournalBlock)
	goldenJournalHeader.Put(header)
	f.Add(write)
	f.Add(write[op.WritePrefix:])
	f.Add(header)
	f.Fuzz(func(t *testing.T, b []byte) {
		if w, err := DecodeJournalWrite(b, seed); err == nil {
			got := make([]byte, op.WritePrefix)
			if w.Put(got, seed); !bytes.Equal(got, b[:op.WritePrefix]) {
				t.Fatalf("%+v", w)
			}
		}
		if h, size, err := DecodeFrame(b, seed); err == nil && size <= len(b) {
			got := bytes.Clone(b[:size])
			h.Put(got[op.FramePrefix:])
			if PutFrame(got, seed); !bytes.Equal(got, b[:size]) {
				t.Fatalf("%+v", h)
			}
		}
		if h, err := DecodeJournalHeader(b); err == nil {
			got := make([]byte, JournalBlock)
			if h.Put(got); !bytes.Equal(got, b[:JournalBlock]) {
				t.Fatalf("%+v", h)
			}
		}
	})
}

// Goal: the same for metadata.
func FuzzMetadata(f *testing.F) {
	h := make([]byte, MetadataHeaderSize)
	goldenMetadataHeader.Put(h)
	f.Add(h)
	goldenSnapshotHeader.Put(h)
	f.Add(bytes.Clone(h))
	f.Add(goldenMetadataRecord.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, size, err := DecodeMetadataRecord(b); err == nil {
			if got := r.Append(nil); !bytes.Equal(got, b[:size]) {
				t.Fatalf("%+v", r)
			}
		}
		got := make([]byte, MetadataHeaderSize)
		if h, err := DecodeMetadataHeader(b); err == nil {
			if h.Put(got); !bytes.Equal(got, b[:MetadataHeaderSize]) {
				t.Fatalf("%+v", h)
			}
		}
		if h, err := DecodeSnapshotHeader(b); err == nil {
			if h.Put(got); !bytes.Equal(got, b[:MetadataHeaderSize]) {
				t.Fatalf("%+v", h)
			}
		}
	})
}

// Goal: the same for checkpoints.
func FuzzCheckpoint(f *testing.F) {
	h := make([]byte, CheckpointHeaderSize)
	goldenCheckpoint.Put(h, LogCheckpointMagic)
	f.Add(h)
	held := Held{Topic: 3, Partition: 1, Records: []byte("records")}
	f.Add(held.Append(nil))
	k := Block{Kind: BlockPositions, Payload: goldenPosition.Append(nil)}
	f.Add(k.Append(nil, 5))
	f.Add(goldenPosition.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if k, size, err := DecodeBlock(b, 5); err == nil {
			if got := k.Append(nil, 5); !bytes.Equal(got, b[:size]) {
				t.Fatalf("%+v", k)
			}
		}
		if p, err := DecodePosition(b); err == nil {
			if got := p.Append(nil); !bytes.Equal(got, b[:PositionSize]) {
				t.Fatalf("%+v", p)
			}
		}
		if h, err := DecodeHeld(b); err == nil {
			if got := h.Append(nil); !bytes.Equal(got, b) {
				t.Fatalf("%+v", h)
			}
		}
		if h, err := DecodeCheckpointHeader(b, LogCheckpointMagic); err == nil {
			got := make([]byte, CheckpointHeaderSize)
			if h.Put(got, LogCheckpointMagic); !bytes.Equal(got, b[:CheckpointHeaderSize]) {
				t.Fatalf("%+v", h)
			}
		}
	})
}

package msgtrans

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func addFixtures(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.bin")
	if err != nil || len(paths) == 0 {
		f.Fatal("no fixtures", err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

// Goal: Decode never panics, and what it accepts encodes to the same bytes
// (invariant 1).
func FuzzDecode(f *testing.F) {
	addFixtures(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Decode(b, Limits{})
		if err != nil {
			return
		}
		if p.ID == 0 && p.Type != Response {
			if _, err := Append(nil, &p, Bare); !errors.Is(err, ErrIDZero) {
				t.Fatalf("id 0 was sent: %v", err)
			}
			return
		}
		back, err := Append(nil, &p, Bare)
		if err != nil {
			t.Fatalf("accepted and not encodable: %v", err)
		}
		want := bytes.Clone(b)
		binary.BigEndian.PutUint16(want[14:], uint16(p.Flags)) // less the undefined bits
		if !bytes.Equal(back, want) {
			t.Fatalf("decoded %x\nencoded %x", want, back)
		}
	})
}

// Goal: a stream in one piece and byte by byte yields the same packets and the
// same refusal, with either framing.
func FuzzStream(f *testing.F) {
	addFixtures(f)
	f.Add(append([]byte{0, 0, 0, 16}, bytes.Repeat([]byte{1, 0}, 8)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, framing := range []Framing{Bare, Prefixed} {
			limits := Limits{PacketBytes: 1 << 16}
			whole, wholeErr := drain(NewStream(framing, limits), b, len(b))
			bytewise, bytewiseErr := drain(NewStream(framing, limits), b, 1)
			if !bytes.Equal(whole, bytewise) || (wholeErr == nil) != (bytewiseErr == nil) {
				t.Fatalf("whole %x, %v\nbytewise %x, %v", whole, wholeErr, bytewise, bytewiseErr)
			}
		}
	})
}

// drain feeds b in steps and returns everything that came out, run together.
func drain(s *Stream, b []byte, step int) (out []byte, err error) {
	for len(b) > 0 {
		n := copy(s.Space(), b[:min(step, len(b))])
		b = b[n:]
		s.Filled(n)
		for {
			var p Packet
			ok, err := s.Next(&p)
			if err != nil {
				return out, err
			}
			if !ok {
				break
			}
			out = append(out, byte(p.Type), p.Biz, byte(p.ID), byte(p.Flags), 0xEE)
			out = append(append(append(out, p.Ext...), 0xEE), p.Payload...)
		}
	}
	return out, nil
}

// Goal: decompression never panics, never yields more than its limit, and never
// allocates far beyond input and limit (invariants 3 and 4).
func FuzzDecompress(f *testing.F) {
	const limit = 64 << 10
	addFixtures(f)
	f.Add(zstdClaim())
	f.Add(zlibBest(f, make([]byte, 1<<20)))
	f.Add(zstdStreamed(f, make([]byte, 1<<20)))
	codec := NewCodec(limit)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, with := range []Compression{Zstd, Zlib} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			out, err := codec.Decompress(nil, b, with)
			runtime.ReadMemStats(&after)
			if len(out) > limit {
				t.Fatalf("%v: %d bytes for a limit of %d", with, len(out), limit)
			}
			if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrPayloadTooLong) {
				t.Fatalf("%v: an error without a kind: %v", with, err)
			}
			// The decoders' own tables, built once or per kind of block, are the rest.
			if grew := after.TotalAlloc - before.TotalAlloc; grew > 16*uint64(len(b))+4*limit+4<<20 {
				t.Fatalf("%v: %d bytes were allocated for %d", with, grew, len(b))
			}
		}
	})
}

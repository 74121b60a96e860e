package msgtrans

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Goal: what was compressed comes back, for sizes around every buffer step, and
// appended to what was there.
func TestCodecRoundTrip(t *testing.T) {
	codec := NewCodec(2 << 20)
	random := make([]byte, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	for _, with := range []Compression{None, Zstd, Zlib} {
		for _, n := range []int{0, 1, 100, 4095, 4096, 4097, 131072, 131073, 1 << 20} {
			for _, payload := range [][]byte{random[:n], bytes.Repeat([]byte("ab"), n)} {
				packed, err := codec.Compress([]byte("head"), payload, with)
				if err != nil {
					t.Fatal(err)
				}
				plain, err := codec.Decompress([]byte("more"), packed[4:], with)
				if err != nil {
					t.Fatalf("%v of %d: %v", with, n, err)
				}
				if string(packed[:4]) != "head" || string(plain[:4]) != "more" || !bytes.Equal(plain[4:], payload) {
					t.Fatalf("%v of %d: %d bytes came back for %d", with, n, len(plain)-4, len(payload))
				}
			}
		}
	}
}

// zstdFrames concatenates n independent frames of payload.
func zstdFrames(t testing.TB, payload []byte, n int) []byte {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Repeat(enc.EncodeAll(payload, nil), n)
}

// zstdStreamed is payload as an encoder that does not know the length writes it:
// no content size, a window of 4 MiB.
func zstdStreamed(t testing.TB, payload []byte) []byte {
	var out bytes.Buffer
	enc, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(4<<20))
	if err != nil {
		t.Fatal(err)
	}
	// Two writes with a flush between, or the encoder learns the length after all.
	for _, part := range [][]byte{payload[:len(payload)/2], payload[len(payload)/2:]} {
		if _, err := enc.Write(part); err != nil {
			t.Fatal(err)
		}
		if err := enc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := enc.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zlibBest(t testing.TB, payload []byte) []byte {
	var out bytes.Buffer
	w, err := zlib.NewWriterLevel(&out, zlib.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(payload); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// zstdClaim is 1 KiB that claims 1 GiB: a single-segment frame of RLE blocks.
func zstdClaim() []byte {
	b := []byte{0x28, 0xB5, 0x2F, 0xFD, 0xE0}
	b = binary.LittleEndian.AppendUint64(b, 1<<30)
	for len(b)+4 <= 1024 {
		block := uint32(131072)<<3 | 1<<1 // 128 KiB of one byte
		b = append(b, byte(block), byte(block>>8), byte(block>>16), 'x')
	}
	return b
}

// Goal: what would be over the limit is refused as that, at the limit: no attempt
// allocates more than a few times the limit.
func TestDecompressStopsAtTheLimit(t *testing.T) {
	const limit = 1 << 20
	over := make([]byte, limit+1)
	bombs := []struct {
		name string
		with Compression
		b    []byte
	}{
		{"none", None, over},
		{"zlib, one byte over", Zlib, zlibBest(t, over)},
		{"zlib, 64 MiB", Zlib, zlibBest(t, make([]byte, 64<<20))},
		{"zstd, one byte over", Zstd, zstdFrames(t, over, 1)},
		{"zstd, no size stated", Zstd, zstdStreamed(t, make([]byte, 64<<20))},
		{"zstd, many frames", Zstd, zstdFrames(t, make([]byte, limit/2+1), 2)},
		{"zstd, 1 KiB that claims 1 GiB", Zstd, zstdClaim()},
	}
	codec := NewCodec(limit)
	for _, bomb := range bombs {
		t.Run(bomb.name, func(t *testing.T) {
			// Once before, so that the decoder's own tables are not counted.
			if _, err := codec.Decompress(nil, bomb.b, bomb.with); !errors.Is(err, ErrPayloadTooLong) {
				t.Fatalf("got %v, want %v", err, ErrPayloadTooLong)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := codec.Decompress(nil, bomb.b, bomb.with)
			runtime.ReadMemStats(&after)
			if grew := after.TotalAlloc - before.TotalAlloc; grew > 4*limit {
				t.Fatalf("%d bytes were allocated for a limit of %d", grew, limit)
			}
			t.Logf("%d bytes in, %d allocated: %v", len(bomb.b), after.TotalAlloc-before.TotalAlloc, err)
		})
	}
}

// Goal: exactly the limit passes, stated or not, also where the frame's window is
// larger than the limit.
func TestDecompressAdmitsTheLimit(t *testing.T) {
	for _, limit := range []int{1, 1000, 1 << 20} {
		codec := NewCodec(limit)
		payload := bytes.Repeat([]byte("z"), limit)
		for name, in := range map[string]struct {
			with Compression
			b    []byte
		}{
			"zlib":           {Zlib, zlibBest(t, payload)},
			"zstd":           {Zstd, zstdFrames(t, payload, 1)},
			"zstd, streamed": {Zstd, zstdStreamed(t, payload)},
		} {
			got, err := codec.Decompress(nil, in.b, in.with)
			if err != nil || !bytes.Equal(got, payload) {
				t.Fatalf("%s at %d: %d bytes, %v", name, limit, len(got), err)
			}
		}
	}
}

// Goal: damage is told from excess, and a codec works again after it.
func TestDecompressCorrupt(t *testing.T) {
	codec := NewCodec(1 << 20)
	payload := bytes.Repeat([]byte("payload "), 500)
	for _, with := range []Compression{Zstd, Zlib} {
		good, err := codec.Compress(nil, payload, with)
		if err != nil {
			t.Fatal(err)
		}
		flipped := bytes.Clone(good)
		flipped[len(flipped)-1] ^= 0xFF // the checksum
		for name, b := range map[string][]byte{
			"no such format": []byte("neither of the two"),
			"cut short":      good[:len(good)-3],
			"checksum":       flipped,
			"trailing bytes": append(bytes.Clone(good), "tail"...),
			"one byte":       good[:1],
		} {
			if _, err := codec.Decompress(nil, b, with); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%v, %s: got %v, want %v", with, name, err, ErrCorrupt)
			}
			if got, err := codec.Decompress(nil, good, with); err != nil || !bytes.Equal(got, payload) {
				t.Fatalf("%v after %s: %v", with, name, err)
			}
		}
		if got, err := codec.Decompress(nil, nil, with); err != nil || len(got) != 0 {
			t.Fatalf("%v of no section: %q, %v", with, got, err)
		}
	}
	if _, err := codec.Compress(nil, payload, 3); !errors.Is(err, ErrCompression) {
		t.Fatal(err)
	}
	if _, err := codec.Decompress(nil, payload, 3); !errors.Is(err, ErrCompression) {
		t.Fatal(err)
	}
}

// rleFrame returns a zstd frame without a size whose blocks each repeat one byte.
func rleFrame(blocks, blockBytes int) []byte {
	b := []byte{0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x58} // magic, descriptor, a window of 2 MiB
	for n := range blocks {
		head := uint32(blockBytes)<<3 | 1<<1
		if n == blocks-1 {
			head |= 1
		}
		b = append(b, byte(head), byte(head>>8), byte(head>>16), 'x')
	}
	return b
}

// Goal: a zstd bomb that does not state its size costs nothing if its blocks tell, and
// little more than the limit if they do not; what is within the limit still decodes.
func TestZstdBombWithoutSize(t *testing.T) {
	const limit = 16 << 20
	codec := NewCodec(limit)
	allocated := func(b []byte) (uint64, error) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := codec.Decompress(nil, b, Zstd)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc, err
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	var streamed bytes.Buffer
	enc.Reset(&streamed) // which writes no size
	for range 4 {
		if _, err := enc.Write(make([]byte, limit)); err != nil {
			t.Fatal(err)
		}
	}
	if err := enc.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := codec.Decompress(nil, rleFrame(2, 1000), Zstd); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		frame []byte
		most  uint64
	}{
		{"blocks that tell", rleFrame(600, zstdBlockBytes), 64 << 10},
		{"one block too many", rleFrame(limit/zstdBlockBytes+1, zstdBlockBytes), 64 << 10},
		{"blocks that do not", streamed.Bytes(), 2 * limit},
	} {
		n, err := allocated(c.frame)
		if !errors.Is(err, ErrPayloadTooLong) || n > c.most {
			t.Errorf("%s: %d bytes of input, %d KiB allocated, %v", c.name, len(c.frame), n>>10, err)
		}
	}
	got, err := codec.Decompress([]byte("ext"), rleFrame(limit/zstdBlockBytes, zstdBlockBytes), Zstd)
	if err != nil || len(got) != limit+3 {
		t.Errorf("at the limit: %d bytes, %v", len(got), err)
	}
}

// Goal: no limit is so high that sums overflow.
func TestHighestLimit(t *testing.T) {
	codec := NewCodec(math.MaxInt)
	for _, with := range []Compression{None, Zstd, Zlib} {
		b, err := codec.Compress(nil, []byte("hello"), with)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := codec.Decompress([]byte("ext "), b, with); err != nil || string(got) != "ext hello" {
			t.Errorf("%v: %q, %v", with, got, err)
		}
	}
	if _, err := codec.Decompress(nil, rleFrame(PayloadBytesCeiling/zstdBlockBytes+1, zstdBlockBytes), Zstd); !errors.Is(err, ErrPayloadTooLong) {
		t.Error(err)
	}
	for _, l := range []Limits{{PayloadBytes: PayloadBytesCeiling + 1}, {PacketBytes: PacketBytesCeiling + 1}} {
		if l.Validate() == nil {
			t.Errorf("%+v was taken", l)
		}
	}
	if err := (Limits{PacketBytes: PacketBytesCeiling, PayloadBytes: PayloadBytesCeiling}).Validate(); err != nil {
		t.Error(err)
	}
}

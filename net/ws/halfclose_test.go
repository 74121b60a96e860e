package ws

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// Goal: an end that has sent its close frame gets what the peer still had to send, and
// the peer can send until it has sent its own, whichever end is first.
func TestHalfClose(t *testing.T) {
	for _, serverFirst := range []bool{true, false} {
		first, second := pair(t)
		if !serverFirst {
			first, second = second, first
		}
		if err := first.Finish(StatusNormal); err != nil {
			t.Fatal(err)
		}
		if _, err := second.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("the end of what the first sends: %v", err)
		}
		for n := range 100 {
			if err := second.Write(make([]byte, 1000*n), []int{1000 * n}); err != nil {
				t.Fatal(err)
			}
			if b, err := first.Next(); err != nil || len(b) != 1000*n {
				t.Fatalf("%d bytes of %d, %v", len(b), 1000*n, err)
			}
		}
		if err := second.Finish(StatusGoingAway); err != nil {
			t.Fatal(err)
		}
		if _, err := first.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("the end of what the second sends: %v", err)
		}
	}
}

// frame returns a frame of n bytes of payload, masked with zeros.
func frame(opcode byte, masked bool, p []byte) []byte {
	b := []byte{finalBit | opcode}
	mask := byte(0)
	if masked {
		mask = maskBit
	}
	switch n := len(p); {
	case n < 126:
		b = append(b, mask|byte(n))
	case n < 1<<16:
		b = append(b, mask|126, byte(n>>8), byte(n))
	default:
		b = append(b, mask|127, 0, 0, 0, 0, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	if masked {
		b = append(b, 0, 0, 0, 0)
	}
	return append(b, p...)
}

// Goal: however the bytes are cut, everything in front of a regular close frame
// passes unchanged and then comes io.EOF; any other close frame passes, too, and so
// does one that breaks off, and the end behind them is not a regular one.
func TestInflow(t *testing.T) {
	for _, masked := range []bool{false, true} {
		var data []byte
		for _, n := range []int{0, 1, 125, 126, 3000, 1 << 16} {
			data = append(data, frame(2, masked, bytes.Repeat([]byte{0x88}, n))...)
			data = append(data, frame(9, masked, []byte{0x88, 2})...)
		}
		for name, c := range map[string]struct {
			last  []byte
			keeps bool
		}{
			"normal":      {frame(8, masked, []byte{3, 0xE8}), true},
			"ours":        {closeFrame(StatusNormal, masked), true},
			"going away":  {frame(8, masked, []byte("\x03\xE9bye")), true},
			"no code":     {frame(8, masked, nil), true},
			"another":     {closeFrame(StatusTooBig, masked), false},
			"half a code": {frame(8, masked, []byte{3}), false},
			"too long":    {frame(8, masked, make([]byte, 126)), false},
			"not final":   {[]byte{8, 0}, false},
			"broken off":  {frame(8, masked, []byte{3, 0xE8})[:3], false},
			"none":        {nil, false},
		} {
			all := append(bytes.Clone(data), c.last...)
			want := all
			if c.keeps {
				want = data
				all = append(all, "whatever follows"...)
			}
			for how, cut := range map[string]func(io.Reader) io.Reader{
				"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader, "with its error": iotest.DataErrReader,
			} {
				f := inflow{r: cut(bytes.NewReader(all))}
				var end error
				if !c.keeps {
					end = io.ErrUnexpectedEOF
				}
				got, err := io.ReadAll(iotest.HalfReader(&f))
				if err != end || !bytes.Equal(got, want) || f.ended.Load() != c.keeps {
					t.Errorf("masked %v, %s, %s: %d bytes of %d, %v, ended %v", masked, name, how, len(got), len(want), err, f.ended.Load())
				}
			}
		}
	}
}

// Goal, invariant 4: a message of which a part has come is none, wherever the connection breaks, or
// the peer closes it.
func TestBrokenMessage(t *testing.T) {
	for _, toServer := range []bool{true, false} {
		whole := frame(2, toServer, make([]byte, 4*readBytes))
		head := len(whole) - 4*readBytes
		begun := frame(2, toServer, make([]byte, readBytes))
		begun[0] &^= finalBit
		for name, c := range map[string][]byte{
			"in the header":        whole[:head-1],
			"before the payload":   whole[:head],
			"where a buffer ends":  whole[:head+readBytes],
			"in the payload":       whole[:head+readBytes+1],
			"at the last byte":     whole[:len(whole)-1],
			"between frames":       begun,
			"closed within":        append(bytes.Clone(begun), closeFrame(StatusNormal, toServer)...),
			"closed behind a ping": append(append(bytes.Clone(begun), frame(9, toServer, nil)...), closeFrame(StatusNormal, toServer)...),
		} {
			reader, writer := pair(t)
			if !toServer {
				reader, writer = writer, reader
			}
			if _, err := writer.cork.w.Write(c); err != nil {
				t.Fatal(err)
			}
			if err := writer.under.Close(); err != nil {
				t.Fatal(err)
			}
			if b, err := reader.Next(); err != io.ErrUnexpectedEOF {
				t.Errorf("to the server %v, %s: %d bytes, %v", toServer, name, len(b), err)
			}
		}
	}
}

// Goal: the reader keeps its invariants R1 to R4 and what it promises about who owns a payload.
package wire

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// readerOf makes the reader that a golden case's args describe.
func readerOf(t testing.TB, args string) *FrameReader {
	r := new(FrameReader)
	for _, a := range strings.Fields(args) {
		if n, ok := strings.CutPrefix(a, "max="); ok {
			v, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(err)
			}
			r.MaxLen = v
		}
		r.FromClient = r.FromClient || a == "client"
	}
	return r
}

func frameLine(f Frame) string          { return fmt.Sprintf("frame %v %d", f.Op, len(f.Payload)) }
func partialLine(r *FrameReader) string { return fmt.Sprintf("partial %d", r.Partial()) }

// drain takes every frame that is there and checks R1 and R2 at each step.
func drain(t testing.TB, r *FrameReader) (frames []Frame, err error) {
	for {
		f, ok, err := r.Next()
		arrived := len(r.buf)
		if cap(r.buf) > max(2*arrived, bufferMin, bufferKeepMax) {
			t.Fatalf("R1: %d bytes buffered in %d", arrived, cap(r.buf))
		}
		if !ok {
			if err == nil && r.Partial() == 0 && r.buf != nil {
				t.Fatal("R2: an idle reader holds a buffer")
			}
			if len(r.data) != 0 {
				t.Fatal("data is still borrowed after Next returned false")
			}
			return frames, err
		}
		f.Payload = bytes.Clone(f.Payload)
		frames = append(frames, f)
	}
}

func TestReaderRandomStreams(t *testing.T) {
	// Goal: frames of all sizes, cut at random, come out as they went in, through data that is reused at once.
	rapid.Check(t, func(t *rapid.T) {
		var want []Frame
		var stream []byte
		for range rapid.IntRange(0, 12).Draw(t, "frames") {
			n := rapid.OneOf(rapid.IntRange(0, 8), rapid.IntRange(0, 700), rapid.IntRange(0, 20000)).Draw(t, "size")
			f := Frame{Op: Op(rapid.IntRange(1, 15).Draw(t, "op")), Payload: bytes.Repeat([]byte{byte(len(want) + 1)}, n)}
			want = append(want, f)
			stream = append(appendHead(stream, f.Op, n), f.Payload...)
		}
		var r FrameReader
		var got []Frame
		recv := make([]byte, len(stream))
		for len(stream) > 0 {
			n := min(len(stream), rapid.OneOf(rapid.IntRange(1, 9), rapid.IntRange(1, 8192)).Draw(t, "read"))
			copy(recv, stream[:n])
			r.Feed(recv[:n])
			stream = stream[n:]
			for {
				f, ok, err := r.Next()
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				f.Payload = bytes.Clone(f.Payload)
				got = append(got, f)
			}
			clear(recv)
		}
		if len(got) != len(want) || r.Partial() != 0 {
			t.Fatalf("%d frames of %d, %d bytes left", len(got), len(want), r.Partial())
		}
		for i := range got {
			if got[i].Op != want[i].Op || !bytes.Equal(got[i].Payload, want[i].Payload) {
				t.Fatalf("frame %d differs", i)
			}
		}
	})
}

func TestReaderBorrows(t *testing.T) {
	// Goal: a frame that arrived whole is not copied, not even when the frame before it was cut in two.
	a := (&Pub{Value: make([]byte, 100)}).Append(nil)
	both := append(bytes.Clone(a), a...)
	var r FrameReader
	r.Feed(both[:50])
	if _, ok, _ := r.Next(); ok {
		t.Fatal("half a frame was taken for a frame")
	}
	data := both[50:]
	r.Feed(data)
	if f, ok, _ := r.Next(); !ok || f.Owned {
		t.Fatal("the first frame is missing, or given away though it is small")
	}
	f, ok, _ := r.Next()
	if !ok || &f.Payload[0] != &data[len(a)-50+frameHeaderSize] {
		t.Fatal("the second frame does not point into data")
	}
	if len(f.Payload) != cap(f.Payload) {
		t.Fatal("a payload has spare capacity")
	}
	if f.Size() != len(a) {
		t.Fatalf("size %d, want %d", f.Size(), len(a))
	}
	drain(t, &r)
}

func TestReaderGivesLargeBuffersAway(t *testing.T) {
	// Goal: the buffer of a large frame goes to whoever gets the frame, and the reader never writes to it again.
	whole := (&Pub{Value: bytes.Repeat([]byte{7}, 100_000)}).Append(nil)
	var r FrameReader
	r.Feed(whole[:60_000])
	drain(t, &r)
	r.Feed(whole[60_000:])
	f, ok, err := r.Next()
	if !ok || err != nil || !f.Owned || r.buf != nil {
		t.Fatalf("ok %v, err %v, owned %v, buffer of %d kept", ok, err, f.Owned, cap(r.buf))
	}
	want := bytes.Clone(f.Payload)
	for range 3 {
		r.Feed(bytes.Repeat([]byte{0, 0, 0, 1, 7}, 100)[:499])
		for ok := true; ok; _, ok, _ = r.Next() {
		}
		r.Feed([]byte{7})
		drain(t, &r)
	}
	if !bytes.Equal(f.Payload, want) {
		t.Fatal("an owned payload was overwritten")
	}
}

func TestReaderAllocatesByArrival(t *testing.T) {
	// Goal: R1, a frame that declares 16 MiB and trickles in costs about what arrived, and copying it is linear.
	head := append(appendHead(nil, OpOK, MaxFrameLen-1), make([]byte, 3)...)
	var r FrameReader
	r.Feed(head)
	drain(t, &r)
	if cap(r.buf) > bufferMin {
		t.Fatalf("%d bytes arrived, %d allocated", len(head), cap(r.buf))
	}
	grown, last, one := 0, cap(r.buf), make([]byte, 1)
	for range 300_000 {
		r.Feed(one)
		if _, ok, err := r.Next(); ok || err != nil {
			t.Fatal("half a frame was taken for a frame")
		}
		if cap(r.buf) != last {
			grown, last = grown+1, cap(r.buf)
		}
	}
	if r.Partial() != 300_000+len(head) || cap(r.buf) > 2*r.Partial() || grown > 12 {
		t.Fatalf("%d bytes arrived, %d allocated in %d steps", r.Partial(), cap(r.buf), grown)
	}
}

func TestReaderErrorIsFinal(t *testing.T) {
	// Goal: R4, nothing that follows an error is looked at, whether it came with it or later.
	var r FrameReader
	good := AppendOKEmpty(nil, OpPing)
	r.Feed(append([]byte{0, 0, 0, 0}, good...))
	for range 3 {
		if _, ok, err := r.Next(); ok || CodeOf(err) != CodeBadLength || r.Err() != err {
			t.Fatalf("ok %v, err %v", ok, err)
		}
		r.Feed(good)
	}
	if r.Partial() != 0 || r.data != nil || r.buf != nil {
		t.Fatal("a dead reader holds bytes")
	}
}

func TestReaderUnreadAndLimit(t *testing.T) {
	// Goal: a server takes CONNECT, puts the rest back until it has decided, and then reads it under the full limit.
	connect := (&Connect{ProtocolVersion: Version}).Append(nil)
	big := (&Pub{Value: make([]byte, MaxFrameLenBeforeConnect)}).Append(nil)
	r := FrameReader{MaxLen: MaxFrameLenBeforeConnect, FromClient: true}
	r.Feed(append(bytes.Clone(connect), big...))
	if f, ok, _ := r.Next(); !ok || f.Op != OpConnect {
		t.Fatal("no CONNECT")
	}
	rest := bytes.Clone(r.Unread())
	if got, err := drain(t, &r); len(got) != 0 || err != nil || r.Err() != nil {
		t.Fatalf("%d frames, %v", len(got), err)
	}
	r.SetMaxLen(MaxFrameLen)
	r.Feed(rest)
	if got, err := drain(t, &r); len(got) != 1 || err != nil || got[0].Op != OpPub {
		t.Fatalf("%d frames, %v", len(got), err)
	}
}

func TestReaderFedTooEarly(t *testing.T) {
	// Goal: feeding before the last bytes were taken would lose them, so it panics.
	defer func() {
		if recover() == nil {
			t.Fatal("no panic")
		}
	}()
	var r FrameReader
	r.Feed([]byte{1})
	r.Feed([]byte{2})
}

package flight

import (
	"testing"

	"github.com/mortarmq/mortarmq/disk"
)

// Goal: a flight lands once, with its first failure, and stale or foreign
// completions do not count. A sync that failed is not hidden by a full disk, which
// would have it tried again.
func TestFlight(t *testing.T) {
	var q Queue
	f := Flight{Owner: 1, Slot: 7}
	f.Submit(&q, disk.Request{Kind: disk.KindWrite})
	f.Submit(&q, disk.Request{Kind: disk.KindSync})
	reqs := q.Take(nil)
	if len(reqs) != 2 || !q.Empty() || !f.Busy() {
		t.Fatal(reqs)
	}
	first := disk.Completion{Tag: reqs[0].Tag, Kind: disk.KindWrite, Err: disk.ErrNoSpace}
	second := disk.Completion{Tag: reqs[1].Tag, Kind: disk.KindSync, Err: disk.ErrIO}
	foreign := first
	foreign.Tag.Slot++
	if f.Land(&foreign) || f.Land(&first) || !f.Land(&second) || f.Land(&second) {
		t.Fatal("landed at the wrong time")
	}
	if f.Err != disk.ErrIO || f.ErrKind != disk.KindSync || !f.SyncFailed() || f.Busy() {
		t.Fatal(f.Err, f.ErrKind)
	}
	// A sync that never began is no failed one: nothing was open.
	f.Submit(&q, disk.Request{Kind: disk.KindOpen})
	f.Submit(&q, disk.Request{Kind: disk.KindSync})
	reqs = q.Take(nil)
	first = disk.Completion{Tag: reqs[0].Tag, Kind: disk.KindOpen, Err: disk.ErrNoSpace}
	second = disk.Completion{Tag: reqs[1].Tag, Kind: disk.KindSync, Err: disk.ErrBadHandle}
	if f.Land(&first) || !f.Land(&second) || f.Err != disk.ErrNoSpace || f.SyncFailed() {
		t.Fatal(f.Err, f.ErrKind)
	}
	f.Submit(&q, disk.Request{Kind: disk.KindSync})
	if f.Err != disk.OK {
		t.Fatal("a new flight begins with an old failure")
	}
	f.Abandon()
	stale := disk.Completion{Tag: q.Take(nil)[0].Tag}
	if f.Land(&stale) {
		t.Fatal("an abandoned flight landed")
	}
}

// Goal: a window gives exactly the bytes asked for, in any order, whatever the
// size of its chunks, and fewer only at the end.
func TestWindow(t *testing.T) {
	file := make([]byte, 50_000)
	for i := range file {
		file[i] = byte(i * 7)
	}
	var q Queue
	w := Window{Flight: Flight{Owner: 1, Slot: 1}, Queue: &q, Handle: 3, Chunk: 8192}
	serve := func() {
		for _, r := range q.Take(nil) {
			c := disk.Completion{Tag: r.Tag, Kind: r.Kind, Handle: r.Handle}
			switch r.Kind {
			case disk.KindOpen:
				c.N = int64(len(file))
			case disk.KindRead:
				c.N = int64(copy(r.Buf, file[r.Offset:]))
			}
			if w.Land(&c) {
				w.Took()
			}
		}
	}
	w.Open("x")
	serve()
	for _, at := range [][2]int{{0, 10}, {4090, 12}, {4102, 20_000}, {24_000, 100}, {100, 5}, {49_990, 100}, {50_000, 4}, {60_000, 4}, {8191, 2}} {
		b, ok := w.Need(int64(at[0]), at[1])
		for !ok {
			serve()
			b, ok = w.Need(int64(at[0]), at[1])
		}
		from, to := min(at[0], len(file)), min(at[0]+at[1], len(file))
		if string(b) != string(file[from:to]) {
			t.Fatalf("%v gave other bytes", at)
		}
	}
	w.Close()
	serve()
	if !w.Closed() {
		t.Fatal("not closed")
	}
}

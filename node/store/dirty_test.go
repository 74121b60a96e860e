package store

import (
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
)

// Goal: records that wait to be written count against the reserve, as soon as they
// are appended and as long as they wait: their space is taken already.
func TestReserveCountsDirtyBytes(t *testing.T) {
	w := newWorld(t, 31)
	w.opts.ReserveBytes = 1 << 20
	var space []Event
	w.onEvent = func(ev *Event) {
		if ev.Kind == EventSpaceChanged {
			space = append(space, *ev)
		}
	}
	w.start()
	w.recover()
	w.install(1)
	w.s.CreatePartition(1, 0)
	w.until("prepared files", func() bool { return w.s.journal.Prepared() > 0 })
	w.disk.SetCapacity(w.disk.Used() + 1<<20 + 100<<10)
	w.until("free space", func() bool { return len(space) > 0 && space[len(space)-1].Total < 1<<30 })
	if e := space[len(space)-1]; e.Low || e.Free < 1<<20 {
		t.Fatalf("before anything was appended: %+v", e)
	}
	// The disk takes nothing meanwhile.
	w.disk.StallUntil(disk.LaneBackground, w.now.Add(clock.Minute))
	for range 20 {
		w.s.AppendRecord(1, 0, &format.Record{Sequence: w.s.LastSequence(1, 0) + 1, Value: make([]byte, 6000)})
	}
	w.turn()
	if e := space[len(space)-1]; !e.Low {
		t.Fatalf("120000 bytes wait, 102400 are above the reserve: %+v", e)
	}
	for end := w.now.Add(10 * clock.Second); w.now < end && w.step(); {
	}
	if st := w.s.Stats(); !st.Low || st.DirtyBytes < 100<<10 {
		t.Fatalf("%+v", st)
	}
	// Written, they are counted once.
	w.disk.ClearFaults()
	w.until("records on disk", func() bool { return w.s.DirtyBytes() == 0 })
	w.disk.SetCapacity(w.disk.Used() + 1<<20 + 50<<10)
	w.until("room again", func() bool { return !w.s.Stats().Low })
}

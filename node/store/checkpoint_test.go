package store

import (
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
)

// Goal: the superblock does not name a checkpoint as long as anything of what it
// stands for is not known to be synced: the metadata log, the segments, its own
// files.
func TestCheckpointWaits(t *testing.T) {
	for name, hold := range map[string]func(tag disk.Tag) bool{
		"metadata":   func(tag disk.Tag) bool { return tag.Owner == ownerStore && tag.Slot == slotMetadata },
		"segments":   func(tag disk.Tag) bool { return tag.Owner == ownerSegments },
		"its files":  func(tag disk.Tag) bool { return tag.Owner == ownerStore && tag.Slot == slotCheckpoint },
		"superblock": func(tag disk.Tag) bool { return tag.Owner == ownerStore && tag.Slot == slotSuperblock },
	} {
		w := newWorld(t, 23)
		m := &model{}
		m.start(w)
		w.recover()
		w.install(1)
		for range 8 {
			w.append2(m, 1000)
		}
		var held []disk.Completion
		turn := func() {
			w.now = w.now.Add(10 * clock.Millisecond)
			w.disk.Advance(w.now)
			w.s.Tick(w.now)
			for _, c := range w.disk.Poll(nil) {
				if c.Kind == disk.KindSync && hold(c.Tag) {
					held = append(held, c)
					continue
				}
				w.s.Complete(w.now, &c)
			}
			m.app.work(false, 3)
			w.turn()
		}
		m.app.work(true, 3)
		for range 500 {
			turn()
		}
		if len(held) == 0 || w.events[EventCheckpointDone] > 0 || w.s.super.durable.CheckpointOp > 0 || name != "superblock" && w.s.super.want.CheckpointOp > 0 {
			t.Fatalf("%s: %d syncs held back, and the checkpoint was named", name, len(held))
		}
		hold = func(disk.Tag) bool { return false }
		for i := range held {
			w.s.Complete(w.now, &held[i])
		}
		for range 500 {
			turn()
		}
		if w.events[EventCheckpointDone] == 0 {
			t.Fatalf("%s: no checkpoint", name)
		}
	}
}

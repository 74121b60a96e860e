package store

import (
	"testing"

	"github.com/mortarmq/mortarmq/sim/simdisk"
	"pgregory.net/rapid"
)

// Goal: a disk that is full while an empty directory is formed ends nothing: it is
// waited for, and gone on from, wherever it was met and over crashes too.
func TestFormOnFullDisk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.Uint64().Draw(t, "seed"))
		for range rapid.IntRange(1, 3).Draw(t, "lives") {
			w.disk.SetCapacity(used(w) + int64(rapid.IntRange(0, 40).Draw(t, "room"))<<12)
			w.start()
			for range rapid.IntRange(0, 60).Draw(t, "steps") {
				if !w.step() || w.recovered != nil {
					break
				}
				if rapid.IntRange(0, 15).Draw(t, "more") == 0 {
					w.disk.SetCapacity(used(w) + int64(rapid.IntRange(0, 20).Draw(t, "room"))<<12)
				}
			}
			if w.events[EventJournalFailed] > 0 {
				t.Fatalf("failed: %s", w.last.What)
			}
			if rapid.Bool().Draw(t, "crash") {
				w.crash(simdisk.CrashKind(rapid.IntRange(0, 1).Draw(t, "kind")))
				w.start()
			}
			w.disk.SetCapacity(1 << 30)
			w.recover()
			if w.recovered.Identity.ClusterID != testCluster {
				t.Fatal("formed as another cluster")
			}
			w.crash(simdisk.Kill)
			if rapid.Bool().Draw(t, "again from nothing") {
				now := w.now
				w = newWorld(t, rapid.Uint64().Draw(t, "seed"))
				w.now = now
			}
		}
		w.disk.SetCapacity(1 << 30)
		w.start()
		w.recover()
	})
}

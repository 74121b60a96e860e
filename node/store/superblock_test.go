package store

import (
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/sim/simdisk"
)

// Goal: a superblock that went back to what it was before an epoch was installed
// (a disk that lied, a copy from a backup) does not pass the entries of that
// epoch off as superseded: they were acknowledged. The start is refused.
func TestSuperblockGoesBack(t *testing.T) {
	back := 0
	for seed := range uint64(20) {
		w := newWorld(t, seed)
		m := &model{}
		m.start(w)
		w.recover()
		w.install(1)
		w.append2(m, 10)
		w.disk.LieSyncsOf("superblock", -1)
		w.install(2)
		b := w.build(2, []byte("acknowledged"))
		w.s.Append(b)
		m.note(b)
		w.turn()
		w.until("Flushed", func() bool { return w.flushed == 2 })
		w.crash(simdisk.PowerLoss)
		w.disk.ClearFaults()
		m.start(w)
		for w.recovered == nil && len(w.damage) == 0 && w.step() {
		}
		if w.recovered != nil {
			if w.recovered.Number != 2 {
				t.Fatalf("seed %d: recovered %d entries, torn %+v", seed, w.recovered.Number, w.torn)
			}
			continue // the lie was found out by nobody: both slots are there
		}
		back++
		if d := w.damage[0]; !d.Fatal || d.Sequence != 2 || !strings.Contains(d.What, "superblock") {
			t.Fatalf("seed %d: %+v", seed, d)
		}
	}
	if back == 0 {
		t.Fatal("the superblock never went back")
	}
}

package store

import (
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
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
		if w.damage[0].Path == superblockPath {
			continue // both slots were torn: refused all the same
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

// Goal: as long as a checkpoint is named on one slot alone, everything that the
// other one names is there: the one may rot, and recovery takes the other.
func TestNothingGoesBeforeBothSlots(t *testing.T) {
	taken := 0
	for seed := range uint64(20) {
		w := newWorld(t, seed)
		m := &model{}
		m.start(w)
		w.recover()
		w.install(1)
		for round := range 2 {
			for range 60 {
				w.append2(m, 5000)
			}
			m.app.work(true, 3)
			for w.s.super.stage != superSecond {
				m.app.work(false, 3)
				w.turn()
				if !w.step() {
					t.Fatal("no checkpoint")
				}
			}
			if round == 0 {
				w.until("the checkpoint", func() bool { return !w.s.Checkpointing() })
			}
		}
		w.disk.StallUntil(disk.LaneJournal, w.now.Add(clock.Hour))
		for end := w.now.Add(5 * clock.Second); w.now < end && w.step(); {
		}
		w.crash(simdisk.PowerLoss)
		w.disk.ClearFaults()
		b := w.disk.ReadFile(superblockPath)
		second, err := format.DecodeSuperblock(b[format.SuperblockSlotSize:], 1)
		if err != nil || second.CheckpointOp == 120 {
			continue // its write came through, or is torn
		}
		taken++
		if !w.disk.Rot(superblockPath, 100, []byte{0x10}) {
			t.Fatal("cannot rot")
		}
		m.start(w)
		w.recover()
		if w.recovered.Number != 120 || w.loaded.Number != second.CheckpointOp || len(w.entries) != int(120-w.loaded.Number) {
			t.Fatalf("recovered %d, checkpoint %d, %d entries", w.recovered.Number, w.loaded.Number, len(w.entries))
		}
	}
	if taken == 0 {
		t.Fatal("the second slot was never the older one")
	}
}

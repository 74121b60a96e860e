package segment

import (
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/sim/simdisk"
)

// Goal: a record that rots and an entry of the index that rots cost that record and
// what lies up to the next entry, not what was appended behind them later and not
// what was there before, wherever both lie.
func TestDamageAndRottenIndex(t *testing.T) {
	world, from := filled(t, smallOptions())
	pristine, base := world.d, from[0].Base
	for _, seq := range []op.Sequence{base, base + 1, base + 12, base + 27, base + 40, 300} {
		for entry := range 9 {
			for _, at := range []int{0, 7, 17, 19, 23, 30} {
				w := *world
				w.d = pristine.Clone()
				path, off, _ := offsetOf(&w, base, seq)
				w.d.Rot(path, off+60, []byte{1})
				w.d.Rot("topics/1/0/"+format.SegmentName(base, format.IndexSuffix), int64(format.SegmentHeaderSize+format.IndexEntrySize*entry+at), []byte{0x41})
				w.boot()
				w.recover(from)
				whole := len(w.s.Damage(1, 0)) == 0 // so the end of the segment is as the position says
				w.keepsOn(from)
				for s := base; s <= 300 && whole; s++ {
					want := record(1, 0, s, 700)
					got, st := w.read(1, 0, s)
					if near := s+6 > seq && s < seq+14; s == seq && st != Damaged || !near && st != Hit || st == Hit && !same(&got, &want) {
						t.Fatalf("%d rots, byte %d of entry %d: sequence %d: status %d, %+v", seq, at, entry, s, st, w.s.Damage(1, 0))
					}
				}
			}
		}
	}
}

// Goal: a walk gets past sectors that cannot be read, and what it has found goes
// into a new index: the next read does not walk again.
func TestWalkPastUnreadable(t *testing.T) {
	w, at := filled(t, smallOptions())
	w.recover(at)
	path, off, _ := offsetOf(w, 1, 30)
	w.d.FailReads(path, off, 1)
	w.d.Rot("topics/1/0/1.mqi", format.SegmentHeaderSize+4*format.IndexEntrySize, []byte{0xFF})
	for _, seq := range []op.Sequence{30, 2, 60, 55, 50, 45} {
		want := record(1, 0, seq, 700)
		got, st := w.read(1, 0, seq)
		if (st == Damaged) != (seq == 30) || st == Hit && !same(&got, &want) {
			t.Fatalf("sequence %d: status %d, %+v", seq, st, w.damages())
		}
	}
	rebuilt := w.until(EventIndexRebuilt, nil)
	if rebuilt.Path != "topics/1/0/1.mqi" {
		t.Fatalf("%+v", rebuilt)
	}
	w.crash(simdisk.Kill, at)
	for _, seq := range []op.Sequence{60, 2, 50} {
		if _, st := w.read(1, 0, seq); st != Hit {
			t.Fatalf("sequence %d: status %d", seq, st)
		}
	}
	for _, ev := range w.events {
		if ev.Kind == EventIndexRebuilt {
			t.Fatalf("walked again: %+v", ev)
		}
	}
}

// Goal: a value that holds what looks like a record is never taken for one, though
// the record that it is in has rotted and the index with it.
func TestValueIsNoRecord(t *testing.T) {
	w := newWorld(t, 7, smallOptions())
	w.recover(nil)
	w.s.CreatePartition(1, 0)
	var forged []byte
	for seq := op.Sequence(2); seq <= 40; seq++ {
		r := record(1, 0, seq, 40)
		r.Value[0] ^= 0xFF
		forged = r.Append(forged)
	}
	sizes := make(map[op.Sequence][]byte)
	for seq := op.Sequence(1); seq <= 40; seq++ {
		r := record(1, 0, seq, 700)
		if seq == 1 {
			r.Value = forged
		}
		sizes[seq] = r.Value
		w.s.Append(1, 0, &r)
	}
	at := w.flush(1)
	w.crash(simdisk.PowerLoss, at)
	w.d.Rot("topics/1/0/1.mqs", format.SegmentHeaderSize, []byte{0x7F})
	w.d.Rot("topics/1/0/1.mqi", format.SegmentHeaderSize, []byte{0xFF})
	w.crash(simdisk.PowerLoss, at)
	hits := 0
	for seq := op.Sequence(1); seq <= 40; seq++ {
		got, st := w.read(1, 0, seq)
		if st == Hit && string(got.Value) != string(sizes[seq]) {
			t.Fatalf("sequence %d is a forgery", seq)
		}
		if st == Hit {
			hits++
		}
	}
	if hits < 30 {
		t.Fatalf("%d of 40 can be read", hits)
	}
}

// Goal: a segment that vanishes between two writes holds up the flush, so that no
// checkpoint passes what could not be written; the other partitions are written, and
// what is in memory is read.
func TestSegmentVanishes(t *testing.T) {
	w, at := filled(t, smallOptions())
	w.recover(at)
	w.s.closeIdle(w.s.find(1, 0))
	w.settle()
	w.d.Lose("topics/1/0/" + format.SegmentName(at[0].Base, format.SegmentSuffix))
	for part := range op.PartitionID(2) {
		r := record(1, part, 301, 700)
		w.s.Append(1, part, &r)
	}
	w.s.Flush(1)
	if d := w.until(EventDamage, nil).Damage; d.Partition != 0 || d.Sequence != at[0].Base {
		t.Fatalf("%+v", d)
	}
	for range 20 {
		w.pass(w.now.Add(clock.Second))
	}
	for _, ev := range w.events {
		if ev.Kind == EventFlushed || ev.Kind == EventFailed {
			t.Fatalf("%+v", ev)
		}
	}
	if _, st := w.read(1, 0, 301); st != Hit {
		t.Fatalf("status %d", st)
	}
	if p := w.s.find(1, 1); p.written != 301 {
		t.Fatalf("the other partition is written up to %d", p.written)
	}
	w.s.DropTopic(1)
	w.until(EventFlushed, nil)
}

// Goal: a file in the place of a topic's directory that no position knows is removed
// like a directory: it would be in the way of the topic that the journal makes.
func TestFileInPlaceOfTopic(t *testing.T) {
	w, at := filled(t, smallOptions())
	w.d.Submit([]disk.Request{{Kind: disk.KindOpen, Flags: disk.FlagCreate, Lane: disk.LaneJournal, Handle: 77, Path: "topics/9"}, {Kind: disk.KindClose, Lane: disk.LaneJournal, Handle: 77}})
	w.settle()
	w.recover(at)
	w.s.CreatePartition(9, 0)
	r := record(9, 0, 1, 700)
	w.s.Append(9, 0, &r)
	at = w.flush(1)
	w.crash(simdisk.PowerLoss, at)
	if _, st := w.read(9, 0, 1); st != Hit {
		t.Fatalf("status %d", st)
	}
}

package store

import (
	"testing"

	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/sim/simdisk"
	"pgregory.net/rapid"
)

// Goal: no flush and no truncation is told before both slots of the superblock name
// the journal file that it went to: that file could get lost, and the journal would
// end before it without a word. Flushed never runs ahead of what was told, nor of
// the journal's end, and nothing is appended over what is not told. A superblock
// that finds no room, and epochs and checkpoints that want it at the same time, hold
// it up and no more.
func TestFlushedFilesAreNamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.Uint64().Draw(t, "seed"))
		m := &model{}
		told := op.Number(0)
		cuts := rapid.Bool().Draw(t, "truncations") // and no checkpoints, which a truncation does not go below
		if cuts {
			m.startOnly(w)
		} else {
			m.start(w)
		}
		w.recover()
		seen := w.after
		w.after = func(ev *Event) {
			if seen != nil {
				seen(ev)
			}
			if ev.Kind != EventFlushed && ev.Kind != EventTruncated {
				return
			}
			if current := w.s.journal.Begun(); w.s.super.durable.JournalCurrent < current {
				t.Fatalf("%v %d is told of file %d, the superblock names %d", ev.Kind, ev.Number, current, w.s.super.durable.JournalCurrent)
			}
			told, w.flushed = ev.Number, ev.Number
		}
		epoch := op.Epoch(1)
		w.install(epoch)
		full := 0
		w.refuse = func(r *disk.Request) bool {
			if r.Kind != disk.KindWrite || r.Handle != handleSuperblock || full == 0 {
				return false
			}
			full--
			return true
		}
		for range rapid.IntRange(1, 120).Draw(t, "turns") {
			if rapid.IntRange(0, 3).Draw(t, "full") == 0 {
				full = rapid.IntRange(1, 3).Draw(t, "times")
			}
			w.act(t, m, &epoch, cuts)
			w.turn()
			for range rapid.IntRange(0, 4).Draw(t, "steps") {
				w.step()
				if !cuts {
					m.app.work(rapid.IntRange(0, 9).Draw(t, "checkpoint") == 0, 3)
				}
				w.turn()
			}
			if last, _ := w.s.Last(); told > 0 && (w.s.Flushed() > told || w.s.Flushed() > last) {
				t.Fatalf("Flushed is %d, told was %d, the last is %d", w.s.Flushed(), told, last)
			}
		}
		last, _ := w.s.Last()
		w.until("the last flush", func() bool { return (told == last || last == 0) && w.s.CanAppend() })
	})
}

// act does one thing that ends in the superblock or in the journal.
func (w *world) act(t *rapid.T, m *model, epoch *op.Epoch, cuts bool) {
	if rapid.IntRange(0, 5).Draw(t, "epoch") == 0 && !cuts {
		number, hash := w.s.Last()
		w.s.SetEpochs(*epoch+1, *epoch, number, hash)
	}
	if !w.s.CanAppend() {
		return
	}
	if n := len(m.entries); cuts && n > 0 && rapid.IntRange(0, 3).Draw(t, "truncate") == 0 {
		to := rapid.IntRange(1, n).Draw(t, "to")
		w.s.Truncate(op.Number(to), m.entries[to-1].hash)
		m.entries, m.epochs = m.entries[:to], m.epochs[:to]
		return
	}
	b := w.build(*epoch, make([]byte, rapid.SampledFrom([]int{0, 3000, 70_000}).Draw(t, "size")), []byte{1})
	w.s.Append(b)
	m.note(b)
}

// Goal: no slot of the superblock names a journal file whose header is not synced,
// whatever the power leaves, and so a file that is named and has no header is
// damaged.
func TestNamedFilesHaveHeaders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.Uint64().Draw(t, "seed"))
		m := &model{}
		named := func() {
			for slot := range uint8(2) {
				b := make([]byte, format.SuperblockSlotSize)
				w.disk.ReadAt(superblockPath, int64(slot)*format.SuperblockSlotSize, b)
				sb, err := format.DecodeSuperblock(b, slot)
				if err != nil || sb.JournalCurrent < sb.JournalFirst {
					continue // none yet, or it was retired
				}
				header := make([]byte, format.JournalBlock)
				w.disk.ReadDurable(format.JournalName(sb.JournalCurrent), 0, header)
				if h, err := format.DecodeJournalHeader(header); err != nil || h.File != sb.JournalCurrent {
					t.Fatalf("slot %d names file %d, whose header is not synced", slot, sb.JournalCurrent)
				}
			}
		}
		for range rapid.IntRange(1, 3).Draw(t, "lives") {
			m.start(w)
			w.recover()
			m.check(t, w)
			w.install(w.recovered.Installed + 1)
			for range rapid.IntRange(1, 40).Draw(t, "turns") {
				if w.s.CanAppend() {
					m.append(t, w, w.s.super.durable.Installed)
					w.turn()
				}
				for range rapid.IntRange(0, 4).Draw(t, "steps") {
					w.step()
					m.app.work(rapid.IntRange(0, 9).Draw(t, "checkpoint") == 0, 3)
					w.turn()
					named()
				}
			}
			w.crash(simdisk.CrashKind(rapid.IntRange(0, 1).Draw(t, "crash")))
			named()
		}
	})
}

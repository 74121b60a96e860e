package store

import (
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/sim/simdisk"
	"pgregory.net/rapid"
)

// journalFiles counts what is in the journal's directory.
func journalFiles(w *world) (n int) {
	for _, path := range w.disk.Files() {
		if strings.HasPrefix(path, "journal/") {
			n++
		}
	}
	return n
}

// leads begins a life that comes to lead: it recovers and appends.
func (m *model) leads(t *rapid.T, w *world, epoch op.Epoch, entries int) {
	m.startOnly(w)
	m.lead(t, w, epoch, entries)
}

// lead is leads in a life that was begun.
func (m *model) lead(t *rapid.T, w *world, epoch op.Epoch, entries int) {
	w.recover()
	m.check(t, w)
	w.install(epoch)
	for range entries {
		number, _ := w.s.Last()
		b := w.build(epoch, make([]byte, 60), []byte{byte(number)})
		w.until("room to append", w.s.CanAppend)
		w.s.Append(b)
		m.note(b)
		w.turn()
		last, _ := w.s.Last()
		w.until("Flushed", func() bool { return w.flushed == last })
		m.flushed = last
	}
}

// startOnly begins a life without an application: nothing but the journal and the
// superblock is written.
func (m *model) startOnly(w *world) {
	m.app, w.onEvent, w.after = nil, nil, nil
	w.start()
}

// Goal: lives that follow each other closely, however they end, keep a constant
// number of journal files, give back every entry that was flushed and none that
// was not appended. They come to append on a full disk too, for a start takes no
// more than it gives back.
func TestQuickRestarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.Uint64().Draw(t, "seed"))
		w.opts.JournalFileBytes, w.opts.ReadChunkBytes = 256<<10, 128<<10
		m := &model{}
		epoch := op.Epoch(1)
		m.leads(t, w, epoch, 1)
		w.until("a prepared file", w.s.journal.Prepared)
		w.crash(simdisk.PowerLoss)
		for range rapid.SampledFrom([]int{10, 30, 200}).Draw(t, "lives") {
			m.startOnly(w)
			if rapid.Bool().Draw(t, "full") {
				w.disk.SetCapacity(used(w) + int64(rapid.IntRange(0, 3).Draw(t, "room"))*200<<10)
			}
			if rapid.IntRange(0, 2).Draw(t, "cut off") == 0 {
				for range rapid.IntRange(0, 60).Draw(t, "steps") {
					w.step()
				}
			} else {
				epoch++
				m.lead(t, w, epoch, rapid.IntRange(0, 3).Draw(t, "entries"))
				for range rapid.IntRange(0, 30).Draw(t, "steps") {
					w.step()
				}
				if rapid.Bool().Draw(t, "one under way") && w.s.CanAppend() {
					b := w.build(epoch, make([]byte, rapid.IntRange(0, 9000).Draw(t, "size")))
					w.s.Append(b)
					m.note(b)
					w.turn()
					for range rapid.IntRange(0, 6).Draw(t, "steps") {
						w.step()
					}
					m.flushed = max(m.flushed, w.flushed)
				}
			}
			if w.events[EventJournalFailed]+w.events[EventDamage] > 0 {
				t.Fatalf("failed: %+v %+v", w.last, w.damage)
			}
			// The current file, two prepared ones, and the one that is emptied; one more
			// when half a file is not enough for all of it.
			if n := journalFiles(w); n > 4+len(m.entries)/400 {
				t.Fatalf("%d files for %d entries", n, len(m.entries))
			}
			w.crash(simdisk.CrashKind(rapid.IntRange(0, 1).Draw(t, "kind")))
			w.disk.SetCapacity(1 << 30)
		}
		m.leads(t, w, epoch+1, 2)
	})
}

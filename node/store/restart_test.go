package store

import (
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/disk"
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
		w.flush(m, w.build(epoch, make([]byte, 60), []byte{byte(number)}))
		m.flushed, _ = w.s.Last()
	}
}

// startOnly begins a life without an application: nothing but the journal and the
// superblock is written.
func (m *model) startOnly(w *world) {
	m.app = nil
	w.startOnly()
}

// Goal: lives that follow each other closely, however they end, keep a constant
// number of journal files, give back every entry that was flushed and none that
// was not appended. They come to append on a full disk too, for a start takes no
// more than it gives back.
func TestQuickRestarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.Uint64().Draw(t, "seed"))
		w.opts.JournalFileBytes, w.opts.ReadChunkBytes = 512<<10, 256<<10
		m := &model{}
		epoch := op.Epoch(1)
		m.leads(t, w, epoch, 1)
		w.until("a prepared file", func() bool { return w.s.journal.Prepared() > 0 })
		w.crash(simdisk.PowerLoss)
		for range rapid.SampledFrom([]int{10, 30, 200}).Draw(t, "lives") {
			m.startOnly(w)
			if rapid.Bool().Draw(t, "full") {
				w.disk.SetCapacity(w.disk.Used() + int64(rapid.IntRange(0, 3).Draw(t, "room"))*200<<10)
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
					b := w.build(epoch, make([]byte, rapid.IntRange(0, 2000).Draw(t, "size")))
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
			if n := journalFiles(w); n > 4+len(m.entries)/800 {
				t.Fatalf("%d files for %d entries", n, len(m.entries))
			}
			w.crash(simdisk.CrashKind(rapid.IntRange(0, 1).Draw(t, "kind")))
			w.disk.SetCapacity(1 << 30)
		}
		m.leads(t, w, epoch+1, 2)
	})
}

// Goal: with more in the journal than a start copies, the number of files still
// follows from what they hold: three neighbours hold more than half a file.
func TestFilesFollowBytes(t *testing.T) {
	w := newWorld(t, 41)
	w.startOnly()
	w.recover()
	w.install(1)
	held := 0
	for life := range 150 {
		for n := range life % 4 {
			size := []int{100, 3000, 9000}[n]
			w.append(1, make([]byte, size))
			held += size + 200
		}
		if n, half := journalFiles(w), 32<<10; n > 6+3*held/half {
			t.Fatalf("life %d: %d files, which hold %d bytes", life, n, held)
		}
		w.crash(simdisk.CrashKind(life % 2))
		w.startOnly()
		w.recover()
	}
}

// Goal: what a start copies before it serves is bounded by half a journal file, or by
// what lies behind the last mark where that is more, whatever the journal holds; it
// is read once more for that, not more often.
func TestStartCopiesHalfAFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.Uint64().Draw(t, "seed"))
		w.opts.JournalFileBytes = 256 << 10
		for life := range rapid.IntRange(2, 5).Draw(t, "lives") {
			w.startOnly()
			read, written := int64(0), int64(0)
			w.refuse = func(r *disk.Request) bool {
				switch {
				case r.Handle>>24 != ownerJournal || w.recovered != nil:
				case r.Kind == disk.KindWrite:
					written += int64(len(r.Buf))
				case r.Kind == disk.KindRead:
					read += int64(len(r.Buf))
				}
				return false
			}
			held := w.disk.Used()
			w.recover()
			if half, rest := w.opts.JournalFileBytes/2, int64(100<<10); life > 0 && (written > half+rest || read > 3*held+rest) {
				t.Fatalf("%d bytes copied, %d read of %d", written, read, held)
			}
			w.install(op.Epoch(life + 1))
			for range rapid.IntRange(0, 12).Draw(t, "entries") {
				w.append(op.Epoch(life+1), make([]byte, rapid.SampledFrom([]int{100, 5000, 60_000}).Draw(t, "size")))
			}
			w.crash(simdisk.CrashKind(rapid.IntRange(0, 1).Draw(t, "kind")))
		}
	})
}

// Goal: a start may be cut off after any of its requests, by a kill or by a power
// cut: nothing that was flushed is lost, and the next start comes to append, on a
// full disk too.
func TestStartCutOff(t *testing.T) {
	for _, entries := range []int{1, 3, 21, 40} { // one small file with one prepared behind it, and with two; full ones before a small one
		for _, full := range []bool{false, true} {
			for _, kind := range []simdisk.CrashKind{simdisk.Kill, simdisk.PowerLoss} {
				for steps, ended := 1, false; !ended; steps++ {
					w, last := filled(t, uint64(steps), entries, full)
					for range steps {
						if ended = w.recovered != nil && w.s.journal.Prepared() > 0 || !w.step(); ended {
							break
						}
					}
					w.crash(kind)
					for range 2 {
						w.startOnly()
						last.recovered(t, w)
						w.append(1, []byte("on"))
						w.crash(simdisk.PowerLoss)
					}
				}
			}
		}
	}
}

// Goal: a sync of a start that fails leaves in the page cache what the disk does not
// have, a header too. The next start does not let go of a file on the strength of
// it: a power cut at any point of that loses nothing.
func TestStartAfterFailedSync(t *testing.T) {
	failures := 0
	for _, entries := range []int{1, 3, 21} {
		for fail := 1; fail <= 4; fail++ {
			for steps, ended := 1, false; !ended; steps++ {
				w, last := filled(t, uint64(steps), entries, false)
				for syncs := 0; w.recovered == nil && w.events[EventJournalFailed] == 0 && w.step(); {
					for i := range w.reqs {
						if r := &w.reqs[i]; r.Kind == disk.KindSync && r.Handle>>24 == ownerJournal {
							if syncs++; syncs == fail {
								w.disk.FailNextSync("journal/")
							}
						}
					}
				}
				failures += w.events[EventJournalFailed]
				w.crash(simdisk.Kill)
				w.disk.ClearFaults()
				w.startOnly()
				for range steps {
					if ended = w.recovered != nil && w.s.journal.Prepared() > 0 || !w.step(); ended {
						break
					}
				}
				w.crash(simdisk.PowerLoss)
				w.startOnly()
				last.recovered(t, w)
			}
		}
	}
	if failures == 0 {
		t.Fatal("no sync failed")
	}
}

// end is where a journal ended.
type end struct {
	number op.Number
	hash   op.Hash
}

// recovered recovers and checks that nothing up to the end is lost.
func (e end) recovered(t *testing.T, w *world) {
	t.Helper()
	w.recover()
	if len(w.entries) < int(e.number) || w.entries[e.number-1].hash != e.hash {
		t.Fatalf("recovered %d of %d", w.recovered.Number, e.number)
	}
}

// startOnly begins a life without an application.
func (w *world) startOnly() {
	w.onEvent, w.after = nil, nil
	w.start()
}

// filled gives a world whose journal has that many entries of about 8 KiB on disk,
// and whose second life has just begun, on a full disk or not.
func filled(t *testing.T, seed uint64, entries int, full bool) (*world, end) {
	t.Helper()
	w := newWorld(t, seed)
	w.opts.JournalFileBytes = 128 << 10
	w.startOnly()
	w.recover()
	w.install(1)
	for range entries {
		w.append(1, make([]byte, 4500))
	}
	number, hash := w.s.Last()
	prepared := 2
	if entries == 1 {
		prepared = 1 // an eighth of the file is not reached
	}
	w.until("prepared files", func() bool { return w.s.journal.Prepared() == prepared })
	w.crash(simdisk.Kill)
	if full {
		w.disk.SetCapacity(w.disk.Used())
	}
	w.startOnly()
	return w, end{number, hash}
}

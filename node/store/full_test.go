package store

import (
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/sim/simdisk"
	"pgregory.net/rapid"
)

// Goal: a full disk loses nothing and ends nothing: journal, segments, metadata
// and checkpoints wait, and go on when there is space again, over crashes too.
func TestFullDisk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.Uint64().Draw(t, "seed"))
		m := &model{}
		epoch := op.Epoch(0)
		for range rapid.IntRange(1, 3).Draw(t, "lives") {
			m.start(w)
			w.recover()
			m.check(t, w)
			epoch++
			w.install(epoch)
			for range rapid.IntRange(1, 4).Draw(t, "rounds") {
				for range rapid.IntRange(1, 8).Draw(t, "appends") {
					m.append(t, w, epoch)
				}
				w.disk.SetCapacity(used(w) + int64(rapid.IntRange(0, 100).Draw(t, "room"))<<10)
				for range 20 {
					if w.s.CanAppend() {
						m.append(t, w, epoch)
					} else if w.step() {
						m.app.work(false, 3)
						w.turn()
					}
				}
				if rapid.IntRange(0, 4).Draw(t, "crash while full") == 0 {
					break
				}
				w.disk.SetCapacity(1 << 30)
				last, _ := w.s.Last()
				w.until("Flushed after space came back", func() bool { return w.flushed == last })
				m.flushed = last
			}
			if w.events[EventJournalFailed] > 0 {
				t.Fatalf("failed: %s", w.last.What)
			}
			w.crash(simdisk.CrashKind(rapid.IntRange(0, 1).Draw(t, "kind")))
			w.disk.SetCapacity(1 << 30)
		}
		m.start(w)
		w.recover()
		m.check(t, w)
		for m.app.applied > w.s.CheckpointOp() {
			m.app.work(true, 3)
			w.turn()
			if !w.step() {
				t.Fatalf("no checkpoint")
			}
		}
		m.app.readAll(m.entries)
	})
}

// used gives the bytes of all files.
func used(w *world) (n int64) {
	for _, path := range w.disk.Files() {
		n += w.disk.Size(path)
	}
	return n
}

// Goal: recovery on a full disk waits for space and then ends.
func TestRecoverFull(t *testing.T) {
	w := newWorld(t, 3)
	m := &model{}
	m.start(w)
	w.recover()
	w.install(1)
	for range 30 {
		w.append2(m, 5000)
	}
	w.crash(simdisk.Kill)
	w.disk.SetCapacity(1)
	m.start(w)
	end := w.now.Add(5 * clock.Second)
	for w.now < end && w.recovered == nil && w.step() {
	}
	if w.recovered == nil && w.events[EventJournalStalled] == 0 {
		t.Fatalf("neither recovered nor stalled: %v %s", w.kinds, w.last.What)
	}
	w.disk.SetCapacity(1 << 30)
	w.recover()
	if w.recovered.Number != 30 {
		t.Fatalf("recovered %d", w.recovered.Number)
	}
}

// append2 appends one entry and notes it.
func (w *world) append2(m *model, size int) { w.flush(m, w.build(1, make([]byte, size))) }

// flush appends what was built, notes it, and waits until it is told to be synced.
func (w *world) flush(m *model, b *op.Builder) {
	w.until("room to append", w.s.CanAppend)
	w.s.Append(b)
	m.note(b)
	w.turn()
	last, _ := w.s.Last()
	w.until("Flushed", func() bool { return w.flushed == last })
}

// Goal: a write or sync that fails for another reason ends the store: what it
// covered is never reported flushed, not even by the next life, unless it was
// written again.
func TestFailedSync(t *testing.T) {
	for name, fail := range map[string]func(w *world){
		"sync":       func(w *world) { w.disk.FailNextSync("journal/") },
		"write":      func(w *world) { w.disk.FailNextWrite("journal/") },
		"superblock": func(w *world) { w.disk.FailNextSync("superblock") },
	} {
		w := newWorld(t, 5)
		m := &model{}
		m.start(w)
		w.recover()
		w.install(1)
		w.append2(m, 100)
		for range 200 {
			w.step() // the next file is prepared
		}
		fail(w)
		if name == "superblock" {
			number, hash := w.s.Last()
			w.s.SetEpochs(2, 2, number, hash)
		} else {
			b := w.build(1, []byte("x"))
			m.note(b)
			w.s.Append(b)
		}
		w.turn()
		w.until("JournalFailed", func() bool { return w.events[EventJournalFailed] > 0 })
		for range 200 {
			if !w.step() {
				break
			}
		}
		if w.flushed != 1 || w.events[EventSuperblockDurable] != 1 || w.s.CanAppend() {
			t.Fatalf("%s: flushed %d, %d superblocks", name, w.flushed, w.events[EventSuperblockDurable])
		}
		w.crash(simdisk.Kill)
		m.start(w)
		w.recover()
		number := w.recovered.Number
		w.crash(simdisk.PowerLoss)
		m.start(w)
		w.recover()
		if w.recovered.Number != number {
			t.Fatalf("%s: recovered %d, and after the power went %d", name, number, w.recovered.Number)
		}
	}
}

// Goal: appending and flushing allocates nothing once buffers have grown.
func TestAppendAllocates(t *testing.T) {
	w := newWorld(t, 9)
	w.opts.JournalFileBytes, w.opts.JournalCapBytes = 8<<20, 64<<20
	w.start()
	w.recover()
	w.install(1)
	b := &op.Builder{}
	o := op.Op{Kind: op.KindPublish, Value: make([]byte, 1000)}
	w.append(1, []byte("the superblock names the file before its first flush is told"))
	w.until("the next file", func() bool { return w.s.journal.Prepared() > 0 })
	number, hash := w.s.Last()
	round := func() {
		b.Reset()
		for range 5 {
			b.Add(&o)
		}
		number, hash = b.Seal(op.Header{Number: number + 1, Epoch: 1, PrevHash: hash, Commit: number})
		w.s.Append(b)
		w.reqs = w.s.Take(w.reqs[:0])
		for i := range w.reqs {
			r := &w.reqs[i]
			w.done = append(w.done[:0], completionOf(r))
			w.s.Complete(w.now, &w.done[0])
		}
		var ev Event
		for w.s.Next(&ev) {
			if ev.Kind == EventFlushed {
				w.flushed = ev.Number
			}
		}
		if w.flushed != number {
			t.Fatalf("flushed %d of %d", w.flushed, number)
		}
	}
	for range 300 {
		round()
	}
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Fatalf("%v allocations per flush", n)
	}
}

// Goal: a full disk does not hide a sync that failed behind it: the store ends,
// and does not try both again.
func TestFullDiskHidesNoFailedSync(t *testing.T) {
	w := newWorld(t, 6)
	m := &model{}
	m.start(w)
	w.recover()
	w.install(1)
	w.append2(m, 100)
	w.until("room to append", w.s.CanAppend)
	w.disk.SetCapacity(1)
	w.disk.FailNextSync("journal/0000000001")
	w.s.Append(w.build(1, make([]byte, 5000)))
	w.turn()
	w.until("the end", func() bool { return w.events[EventJournalFailed]+w.events[EventJournalStalled] > 0 })
	if w.events[EventJournalFailed] == 0 {
		t.Fatalf("waits for space: %v", w.events)
	}
}

// Goal: a directory that could not be synced after files in it were removed ends
// the store, as any other sync that failed: a name made in it before may be lost.
func TestFailedSyncAfterRemoval(t *testing.T) {
	for _, dir := range []string{"checkpoints", "metadata", "journal", "topics"} {
		w := newWorld(t, 7)
		m := &model{}
		m.start(w)
		w.recover()
		w.install(1)
		w.s.CreatePartition(5, 0)
		r := format.Record{Sequence: 1, Value: []byte("gone soon")}
		w.s.AppendRecord(5, 0, &r)
		for round := range 2 {
			if round == 1 {
				w.s.DropTopic(5)
			}
			for range 60 {
				w.append2(m, 5000)
			}
			m.app.work(true, 3)
			for w.s.checkpointer.stage != checkpointClean {
				m.app.work(false, 3)
				w.turn()
				if !w.step() {
					t.Fatalf("%s: no checkpoint", dir)
				}
			}
			if round == 1 {
				w.disk.FailNextSync(dir)
			}
			for w.s.Checkpointing() && w.events[EventJournalFailed] == 0 && w.step() {
			}
		}
		if w.events[EventJournalFailed] == 0 {
			t.Errorf("%s: went on: %v", dir, w.events)
		}
	}
}

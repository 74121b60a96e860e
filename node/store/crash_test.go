package store

import (
	"bytes"
	"testing"

	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/sim/simdisk"
	"pgregory.net/rapid"
)

// model is what a store must be able to give back: every entry in order, and
// how many of them were reported as flushed.
type model struct {
	entries []seen
	epochs  []op.Epoch
	flushed op.Number
	app     *app
}

// start begins a life, with an application that knows nothing yet.
func (m *model) start(w *world) {
	m.app = &app{w: w}
	w.onEvent = nil
	seen := m.app
	w.onEvent = func(ev *Event) {
		if ev.Kind != EventFlushed {
			return
		}
		for seen.applied < ev.Number {
			e := &m.entries[seen.applied]
			seen.apply(e.number, m.epochs[seen.applied], op.LogMillis(e.number-1)*10, e.hash, e.body)
		}
	}
	w.after = seen.see
	w.start()
}

// note takes in the entries of a builder.
func (m *model) note(b *op.Builder) {
	for i := range b.Entries() {
		e := b.Entry(i)
		m.entries = append(m.entries, seen{e.Header.Number, e.Hash(), bytes.Clone(e.Body)})
		m.epochs = append(m.epochs, e.Header.Epoch)
	}
}

// check compares what a life recovered above the checkpoint with the model, and
// forgets what was lost.
func (m *model) check(t *rapid.T, w *world) {
	last := w.recovered.Number
	if last < m.flushed || int(last) > len(m.entries) {
		t.Fatalf("recovered up to %d, flushed %d, appended %d", last, m.flushed, len(m.entries))
	}
	if len(w.damage) > 0 {
		t.Fatalf("damage: %+v", w.damage[0])
	}
	from := w.loaded.Number
	if int(last-from) != len(w.entries) {
		t.Fatalf("%d entries came, checkpoint %d, last %d", len(w.entries), from, last)
	}
	for i, e := range w.entries {
		want := m.entries[int(from)+i]
		if e.number != want.number || e.hash != want.hash || !bytes.Equal(e.body, want.body) {
			t.Fatalf("entry %d is not the one that was appended", e.number)
		}
	}
	m.entries, m.epochs, m.flushed = m.entries[:last], m.epochs[:last], last
	if m.app != nil && rapid.IntRange(0, 3).Draw(t, "read") == 0 {
		m.app.readAll(m.entries)
	}
}

// Goal: whatever was reported flushed is recovered with the same hashes, and
// what was not is a prefix of it, over crashes at any point of anything,
// recovery included.
func TestCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.Uint64().Draw(t, "seed"))
		m := &model{}
		epoch := op.Epoch(0)
		for range rapid.IntRange(2, 6).Draw(t, "lives") {
			m.start(w)
			// Recovery may be cut off, twice.
			for range rapid.IntRange(0, 2).Draw(t, "cuts") {
				for range rapid.IntRange(0, 60).Draw(t, "steps") {
					if w.recovered != nil || !w.step() {
						break
					}
				}
				if w.recovered != nil {
					break
				}
				w.crash(simdisk.CrashKind(rapid.IntRange(0, 1).Draw(t, "kind")))
				m.start(w)
			}
			w.recover()
			m.check(t, w)
			if w.recovered.Promised < epoch {
				t.Fatalf("promised %d before, %d now", epoch, w.recovered.Promised)
			}
			epoch++
			w.install(epoch)
			for range rapid.IntRange(0, 40).Draw(t, "appends") {
				m.append(t, w, epoch)
				if w.events[EventJournalFailed] > 0 {
					break
				}
				if rapid.IntRange(0, 40).Draw(t, "fail") == 0 {
					w.disk.FailNextSync(rapid.SampledFrom([]string{"journal/", "superblock", "checkpoints/", "metadata/", "topics/"}).Draw(t, "path"))
				}
			}
			w.disk.ClearFaults()
			w.crash(simdisk.CrashKind(rapid.IntRange(0, 1).Draw(t, "kind")))
		}
	})
}

// append appends a builder and goes on for a while, maybe until it is flushed.
func (m *model) append(t *rapid.T, w *world, epoch op.Epoch) {
	var values [][]byte
	for range rapid.IntRange(1, 3).Draw(t, "ops") {
		n := rapid.SampledFrom([]int{0, 10, 3000, 4096 - 64 - 80 - 36, 20_000, 70_000}).Draw(t, "size")
		values = append(values, bytes.Repeat([]byte{byte(len(m.entries))}, n))
	}
	w.until("room to append", func() bool { return w.s.CanAppend() || w.events[EventJournalFailed] > 0 })
	m.flushed = max(m.flushed, w.flushed)
	if w.events[EventJournalFailed] > 0 {
		return
	}
	b := w.build(epoch, values...)
	w.s.Append(b)
	m.note(b)
	if w.events[EventJournalFailed] > 0 {
		return
	}
	m.app.work(rapid.IntRange(0, 7).Draw(t, "begin") == 0, rapid.IntRange(0, 20).Draw(t, "split"))
	w.turn()
	for range rapid.IntRange(0, 30).Draw(t, "steps") {
		if !w.step() {
			break
		}
		if w.events[EventJournalFailed] == 0 {
			m.app.work(false, 3)
		}
		w.turn()
	}
	m.flushed = max(m.flushed, w.flushed)
}

// Goal: the same for a journal whose end is cut off now and then, as an INSTALL
// does: what was cut off durably never comes back, and what is read back for a
// follower is what is there.
func TestTruncations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.Uint64().Draw(t, "seed"))
		m := &model{}
		epoch := op.Epoch(0)
		for range rapid.IntRange(2, 6).Draw(t, "lives") {
			w.start()
			for range rapid.IntRange(0, 60).Draw(t, "steps") {
				if w.recovered != nil || !w.step() {
					break
				}
			}
			if w.recovered == nil && rapid.Bool().Draw(t, "cut") {
				w.crash(simdisk.CrashKind(rapid.IntRange(0, 1).Draw(t, "kind")))
				w.start()
			}
			w.recover()
			m.check(t, w)
			epoch++
			if m.flushed > 0 && rapid.Bool().Draw(t, "truncate") {
				m.truncate(t, w)
			}
			w.install(epoch)
			for range rapid.IntRange(0, 10).Draw(t, "appends") {
				m.appendOnly(t, w, epoch)
			}
			m.readBack(t, w)
			w.crash(simdisk.CrashKind(rapid.IntRange(0, 1).Draw(t, "kind")))
		}
	})
}

// truncate drops some entries. Until it is durable the node may die, and then
// either log is there.
func (m *model) truncate(t *rapid.T, w *world) {
	to := op.Number(rapid.IntRange(1, int(m.flushed)).Draw(t, "to"))
	w.until("room to truncate", w.s.CanAppend)
	w.s.Truncate(to, m.entries[to-1].hash)
	w.turn()
	w.until("Truncated", func() bool { return w.events[EventTruncated] > 0 })
	m.entries, m.epochs, m.flushed, w.flushed = m.entries[:to], m.epochs[:to], to, to
}

// appendOnly appends without an application.
func (m *model) appendOnly(t *rapid.T, w *world, epoch op.Epoch) {
	w.until("room to append", w.s.CanAppend)
	b := w.build(epoch, make([]byte, rapid.SampledFrom([]int{0, 3000, 70_000}).Draw(t, "size")), []byte{1})
	w.s.Append(b)
	m.note(b)
	w.turn()
	for range rapid.IntRange(0, 20).Draw(t, "steps") {
		if !w.step() {
			break
		}
	}
	m.flushed = max(m.flushed, w.flushed)
}

// readBack reads the flushed journal from somewhere on, as for a follower.
func (m *model) readBack(t *rapid.T, w *world) {
	if m.flushed == 0 || rapid.Bool().Draw(t, "no reading") {
		return
	}
	from := op.Number(rapid.IntRange(1, int(m.flushed)).Draw(t, "from"))
	var got []byte
	w.after = func(ev *Event) {
		if ev.Kind == EventJournalRead {
			if ev.Err != 0 || ev.Number != from {
				t.Fatalf("reading from %d: %v %s", from, ev.Err, ev.What)
			}
			got = bytes.Clone(ev.Data)
		}
	}
	w.s.ReadJournal(from, rapid.SampledFrom([]int{1, 5000, 100_000}).Draw(t, "max"))
	w.turn()
	w.until("JournalRead", func() bool { return got != nil })
	w.after = nil
	for n := from; len(got) > 0; n++ {
		h, err := op.DecodeHeader(got)
		if err != nil || op.HashHeader(got) != m.entries[n-1].hash {
			t.Fatalf("entry %d read back is another", n)
		}
		if body := got[op.HeaderSize:][:h.BodyLen]; !bytes.Equal(body, m.entries[n-1].body) {
			t.Fatalf("entry %d read back has another body", n)
		}
		got = got[op.HeaderSize+h.BodyLen:]
	}
}

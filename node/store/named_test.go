package store

import (
	"testing"

	"github.com/mortarmq/mortarmq/node/op"
	"pgregory.net/rapid"
)

// Goal: no flush is told before both slots of the superblock name the journal file
// that it went to: that file could get lost, and the journal would end before it
// without a word. Flushed never runs ahead of what was told.
func TestFlushedFilesAreNamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.Uint64().Draw(t, "seed"))
		m := &model{}
		told, files := op.Number(0), uint64(0)
		m.start(w)
		seen := w.after
		w.after = func(ev *Event) {
			seen(ev)
			if ev.Kind != EventFlushed {
				return
			}
			if current := w.s.journal.Current(); w.s.super.durable.JournalCurrent < current {
				t.Fatalf("entry %d is told as flushed to file %d, the superblock names %d", ev.Number, current, w.s.super.durable.JournalCurrent)
			}
			told, files = ev.Number, w.s.journal.Current()
		}
		w.recover()
		w.install(1)
		for range rapid.IntRange(1, 120).Draw(t, "turns") {
			if w.s.CanAppend() {
				m.append(t, w, 1)
				w.turn()
			}
			for range rapid.IntRange(0, 4).Draw(t, "steps") {
				w.step()
				m.app.work(rapid.IntRange(0, 9).Draw(t, "checkpoint") == 0, 3)
				w.turn()
			}
			if w.s.Flushed() > told && told > 0 {
				t.Fatalf("Flushed is %d, told was %d", w.s.Flushed(), told)
			}
		}
		last, _ := w.s.Last()
		w.until("the last flush", func() bool { return told == last })
		if files == 0 {
			t.Fatal("nothing was flushed")
		}
	})
}

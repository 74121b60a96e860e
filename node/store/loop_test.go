package store

import (
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/sim/simdisk"
	"pgregory.net/rapid"
)

// Goal: lives that follow each other closely do not fill the disk: without
// appends they add no journal file, and with one each a checkpoint becomes due
// that takes the files away.
func TestCrashLoop(t *testing.T) {
	w := newWorld(t, 11)
	m := &model{}
	files := func() int {
		entries, err := w.disk.List("journal")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	m.start(w)
	w.recover()
	w.install(1)
	w.append2(m, 3000)
	for life := range 20 {
		w.crash(simdisk.CrashKind(life % 2))
		m.start(w)
		w.recover()
		if n := files(); n > 4 {
			t.Fatalf("%d files after %d lives without an append", n, life)
		}
	}
	most := 0
	for life := range 40 {
		w.crash(simdisk.CrashKind(life % 2))
		m.start(w)
		w.recover()
		w.append2(m, 100)
		for range 200 {
			m.app.work(false, 5)
			w.turn()
			w.step()
		}
		most = max(most, files())
	}
	if most > 8 {
		t.Fatalf("up to %d files after lives with an append each", most)
	}
}

// Goal: with everything marked, no flipped bit in any file of the store, and no
// lost file, makes recovery give back less, or something else, without a word.
func TestRotAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.Uint64().Draw(t, "seed"))
		m := &model{}
		m.start(w)
		w.recover()
		w.install(1)
		for range rapid.IntRange(1, 30).Draw(t, "appends") {
			m.append(t, w, 1)
		}
		w.until("a marked end", func() bool {
			m.app.work(false, 3)
			w.turn()
			last, _ := w.s.Last()
			return w.s.CanAppend() && w.s.Flushed() == last && w.s.journal.Marked() == last && !w.s.Checkpointing() && len(m.app.pieces) == 0
		})
		last, _ := w.s.Last()
		w.crash(simdisk.PowerLoss)
		var paths []string
		for _, path := range w.disk.Files() {
			if !strings.HasPrefix(path, "topics/") {
				paths = append(paths, path)
			}
		}
		path := rapid.SampledFrom(paths).Draw(t, "path")
		if rapid.IntRange(0, 9).Draw(t, "lose") == 0 {
			w.disk.Lose(path)
		} else if size := w.disk.Size(path); size > 0 {
			at := rapid.Int64Range(0, size-1).Draw(t, "at")
			if rapid.Bool().Draw(t, "early") {
				at = min(at, rapid.Int64Range(0, 8191).Draw(t, "early at"))
			}
			w.disk.Rot(path, at, []byte{1 << rapid.IntRange(0, 7).Draw(t, "bit")})
		}
		m.start(w)
		for w.recovered == nil && w.events[EventRefused]+w.events[EventDamage] == 0 && w.step() {
		}
		if w.recovered == nil {
			return // said so
		}
		if w.recovered.Number != last {
			t.Fatalf("%s: recovered %d of %d, and said nothing", path, w.recovered.Number, last)
		}
		m.flushed = last
		m.check(t, w)
	})
}

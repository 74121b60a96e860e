package store

import (
	"testing"

	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/sim/simdisk"
)

// Goal: what no mark vouches for is copied to a new file at the start, and a power
// cut at any point of that loses nothing: the header that takes the entries away
// from the old file comes after they are synced.
func TestRewriteCutOff(t *testing.T) {
	for seed := range uint64(4) {
		for steps := 1; ; steps++ {
			w := newWorld(t, seed)
			w.start()
			w.recover()
			w.install(1)
			w.append(1, make([]byte, 100))
			w.append(1, make([]byte, 5000), make([]byte, 9000), []byte("unmarked"))
			number, hash := w.s.Last()
			w.crash(simdisk.Kill)
			w.start()
			n, unsynced, headers := 0, false, 0
			for ; n < steps && w.recovered == nil; n++ {
				w.step()
				for i := range w.reqs {
					switch r := &w.reqs[i]; {
					case r.Handle>>24 != ownerJournal:
					case r.Kind == disk.KindSync:
						unsynced = false
					case r.Kind == disk.KindWrite && r.Offset > 0:
						unsynced = true
					case r.Kind == disk.KindWrite:
						if headers++; unsynced {
							t.Fatal("the header is written before the entries are synced")
						}
					}
				}
			}
			ended := w.recovered != nil
			w.crash(simdisk.PowerLoss)
			w.start()
			w.recover()
			if w.recovered.Number != number || w.recovered.Hash != hash {
				t.Fatalf("seed %d: power cut after %d steps: recovered %d of %d", seed, n, w.recovered.Number, number)
			}
			if ended {
				if headers == 0 {
					t.Fatal("nothing was rewritten")
				}
				break
			}
		}
	}
}

// Goal: a cut whose sync failed is there after the next start or it is not, but it
// does not come undone by the power cut after that: the page cache may show a header
// that the disk does not have.
func TestFailedTruncation(t *testing.T) {
	cut := 0
	for seed := range uint64(12) {
		w := newWorld(t, seed)
		w.start()
		w.recover()
		w.install(1)
		var second op.Hash
		for i := range 4 {
			w.append(1, []byte{byte(i)})
			if i == 1 {
				_, second = w.s.Last()
			}
		}
		for range 200 {
			w.step() // the next file is prepared, the end is marked
		}
		w.disk.FailNextSync("journal/")
		w.s.Truncate(2, second)
		w.turn()
		w.until("JournalFailed", func() bool { return w.events[EventJournalFailed] > 0 })
		w.crash(simdisk.Kill)
		w.start()
		w.recover()
		number, hash := w.recovered.Number, w.recovered.Hash
		if number == 2 {
			cut++
		}
		w.crash(simdisk.PowerLoss)
		w.start()
		w.recover()
		if w.recovered.Number != number || w.recovered.Hash != hash {
			t.Fatalf("seed %d: recovered %d, and after the power went %d", seed, number, w.recovered.Number)
		}
	}
	if cut == 0 {
		t.Fatal("no cut was seen")
	}
}

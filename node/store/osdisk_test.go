package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/disk/osdisk"
	"github.com/mortarmq/mortarmq/node/op"
	"golang.org/x/sys/unix"
)

// osWorld drives a store on a real directory.
type osWorld struct {
	t     testing.TB
	d     *osdisk.Disk
	wake  chan struct{}
	s     *Store
	begun time.Time
	reqs  []disk.Request
	done  []disk.Completion
	ev    Event

	expect EventKind // of those that end a test
}

func openOS(t testing.TB, dir string, o Options) *osWorld {
	w := &osWorld{t: t, wake: make(chan struct{}, 1), begun: time.Now()}
	d, err := osdisk.Open(dir, func() {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	w.d, w.s = d, New(o)
	w.s.Start(w.now())
	return w
}

func (w *osWorld) now() clock.Instant { return clock.Instant(time.Since(w.begun)) }

// until turns the store until it gives an event that ok takes, or ok takes
// EventNone, which it is asked before each wait.
func (w *osWorld) until(ok func(ev *Event) bool) {
	w.t.Helper()
	for give := time.Now().Add(30 * time.Second); ; {
		for w.s.Next(&w.ev) {
			switch w.ev.Kind {
			case EventFresh:
				w.s.Form(Identity{ClusterID: testCluster, NodeID: 1})
			case EventDamage, EventRefused, EventJournalFailed:
				if w.ev.Kind != w.expect {
					w.t.Fatal(w.ev.Kind, w.ev.Path, w.ev.What)
				}
			}
			if ok(&w.ev) {
				return
			}
		}
		if w.ev = (Event{}); ok(&w.ev) {
			return
		}
		if w.reqs = w.s.Take(w.reqs[:0]); len(w.reqs) > 0 {
			w.d.Submit(w.reqs)
		}
		if w.done = w.d.Poll(w.done[:0]); len(w.done) == 0 {
			wait := min(time.Second, time.Duration(w.s.NextDeadline()-w.now()))
			select {
			case <-w.wake:
			case <-time.After(wait):
			}
			w.done = w.d.Poll(w.done[:0])
		}
		w.s.Tick(w.now())
		for i := range w.done {
			w.s.Complete(w.now(), &w.done[i])
		}
		if time.Now().After(give) {
			w.t.Fatal("nothing comes")
		}
	}
}

func (w *osWorld) install(e op.Epoch) {
	number, hash := w.s.Last()
	w.s.SetEpochs(e, e, number, hash)
	w.until(func(ev *Event) bool { return ev.Kind == EventSuperblockDurable })
}

// Goal: the store works on real files, past the page cache and all, over
// several lives.
func TestRealDisk(t *testing.T) {
	dir := t.TempDir()
	o := Options{NodeID: 1, JournalFileBytes: 1 << 20, JournalCapBytes: 8 << 20}
	for life := range 3 {
		w := openOS(t, dir, o)
		entries := 0
		w.until(func(ev *Event) bool {
			if ev.Kind == EventEntry {
				entries++
			}
			return ev.Kind == EventRecovered
		})
		if entries != life*40 {
			t.Fatalf("life %d: %d entries", life, entries)
		}
		w.install(op.Epoch(life + 1))
		for range 40 {
			number, hash := w.s.Last()
			b := buildAfter(number, hash, op.Epoch(life+1), make([]byte, 50_000))
			w.s.Append(b)
			w.until(func(ev *Event) bool { return ev.Kind == EventFlushed && ev.Number == number+1 })
			w.until(func(*Event) bool { return w.s.CanAppend() })
		}
		w.d.Close()
	}
}

// Goal: a pipe or a link in the place of a file is damage that says so: nothing
// waits for the pipe's other end or follows the link.
func TestNotRegular(t *testing.T) {
	o := Options{NodeID: 1, JournalFileBytes: 1 << 20, JournalCapBytes: 8 << 20}
	for _, path := range []string{"journal/0000000001.mmjl", "journal/0000000002.mmjl", "superblock.mmsb"} {
		for name, put := range map[string]func(path string) error{
			"pipe": func(path string) error { return unix.Mkfifo(path, 0o644) },
			"link": func(path string) error { return os.Symlink(path+".was", path) },
		} {
			dir := t.TempDir()
			w := openOS(t, dir, o)
			w.until(func(ev *Event) bool { return ev.Kind == EventRecovered })
			w.install(1)
			number, hash := w.s.Last()
			w.s.Append(buildAfter(number, hash, 1, make([]byte, 1000)))
			w.until(func(ev *Event) bool { return ev.Kind == EventFlushed })
			w.until(func(*Event) bool { return w.s.journal.Prepared() > 0 })
			w.d.Close()
			at := filepath.Join(dir, path)
			if err := os.Rename(at, at+".was"); err != nil {
				t.Fatal(err)
			}
			if err := put(at); err != nil {
				t.Fatal(err)
			}
			w = openOS(t, dir, o)
			w.expect = EventDamage
			w.until(func(ev *Event) bool { return ev.Kind == EventDamage || ev.Kind == EventRecovered })
			if ev := w.ev; ev.Kind != EventDamage || ev.Path != path || !ev.Fatal || !strings.Contains(ev.What, "not a regular file") {
				t.Errorf("%s, %s: %v %s: %s", path, name, ev.Kind, ev.Path, ev.What)
			}
			w.d.Close()
		}
	}
}

func BenchmarkFlush(b *testing.B) { benchmarkFlush(b, Options{NodeID: 1}) }

// What a change of files costs: some 40 flushes go into a file.
func BenchmarkFlushOverFiles(b *testing.B) {
	benchmarkFlush(b, Options{NodeID: 1, JournalFileBytes: 4 << 20})
}

func benchmarkFlush(b *testing.B, o Options) {
	w := openOS(b, b.TempDir(), o)
	w.until(func(ev *Event) bool { return ev.Kind == EventRecovered })
	w.install(1)
	batch := &op.Builder{}
	number, hash := w.s.Last()
	value := op.Op{Kind: op.KindPublish, Value: make([]byte, 1000)}
	b.SetBytes(100 * 1000)
	b.ReportAllocs()
	for b.Loop() {
		batch.Reset()
		for range 100 {
			batch.Add(&value)
		}
		number, hash = batch.Seal(op.Header{Number: number + 1, Epoch: 1, PrevHash: hash, Commit: number})
		w.until(func(*Event) bool { return w.s.CanAppend() })
		w.s.Append(batch)
		w.until(func(ev *Event) bool { return ev.Kind == EventFlushed && ev.Number == number })
	}
	w.d.Close()
}

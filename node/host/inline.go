package host

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/mortarmq/mortarmq/disk"
)

// inlineBytesMax is the largest journal write that the loop carries out itself.
// Below it the hand-off to the append worker costs more than it gains.
const inlineBytesMax = 64 << 10

// A disk that was slow once is left to its worker for a while.
const (
	slowRun     = 2 * time.Millisecond // an inline run of this length
	slowBatches = 64                   // journal batches that its worker gets then
)

// inline is the loop's part in the disk's work: small journal batches while the
// disk is fast.
type inline struct {
	batch *batch
	done  []disk.Completion // of the last run, until they are gathered
	slow  int               // batches that the worker is to get
}

// batch is what one run works with. A run that was left behind keeps it.
type batch struct {
	reqs []disk.Request
	done []disk.Completion
	run  uint64
	keep func() bool
}

// take gives the completions of the last run, borrowed until the next one.
func (i *inline) take() []disk.Completion {
	done := i.done
	i.done = nil
	return done
}

// leave leaves a run behind.
func (i *inline) leave() { i.batch, i.done, i.slow = nil, nil, slowBatches }

// submit carries disk requests out: a small journal batch here, the rest by the
// disk's own workers. It reports false when it took so long that another goroutine
// has taken over.
func (l *loop) submit(reqs []disk.Request) bool {
	if len(reqs) == 0 {
		return true
	}
	bytes := 0
	for i := range reqs {
		if reqs[i].Lane != disk.LaneJournal {
			l.disk.Submit(reqs)
			return true
		}
		bytes += len(reqs[i].Buf)
	}
	switch {
	case bytes > inlineBytesMax:
	case l.inline.slow > 0:
		l.inline.slow--
	case l.disk.ClaimInline(reqs):
		return l.runInline(reqs)
	}
	l.disk.Submit(reqs)
	return true
}

// runInline carries out what the journal's lane was claimed for.
func (l *loop) runInline(reqs []disk.Request) bool {
	b := l.inline.batch
	if b == nil {
		b = &batch{}
		b.keep = func() bool { return l.watch.end(b.run) }
		l.inline.batch = b
	}
	b.reqs = append(b.reqs[:0], reqs...) // the next turn uses the memory of reqs again
	began := time.Now()
	b.run = l.watch.begin()
	done, kept := l.disk.RunInline(b.reqs, b.done[:0], b.keep)
	if !kept {
		return false // nothing of the loop is this goroutine's any more
	}
	b.done, l.inline.done = done, done
	if time.Since(began) >= slowRun {
		l.inline.slow = slowBatches
	}
	return true
}

// watchPeriod is how often a watchdog looks: what takes between one and two of them
// is long.
const watchPeriod = 5 * time.Millisecond

// watchdog sees to it that a disk which stalls does not hold the loop up. A run
// that takes long is left behind: the loop goes on in another goroutine, and the
// one that waits for the disk leaves its completions for Poll and ends. That bounds
// the time without a turn without a hand-off for every batch. Nobody looks while
// nothing runs.
//
// Invariant 1: spell is odd while there is a run; who makes it even has the loop.
type watchdog struct {
	takeOver func()
	spell    atomic.Uint64
	armed    atomic.Bool

	seen uint64 // of the last look; of the timer's goroutine

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// begin begins a run and gives its number.
func (w *watchdog) begin() uint64 {
	run := w.spell.Add(1)
	if run%2 == 0 {
		panic("host: watchdog invariant 1: a run begins in a run")
	}
	if !w.armed.Load() && w.armed.CompareAndSwap(false, true) {
		w.arm()
	}
	return run
}

// end ends a run. It reports false for one that was left behind.
func (w *watchdog) end(run uint64) bool { return w.spell.CompareAndSwap(run, run+1) }

// look leaves a run behind that was there at the last look.
func (w *watchdog) look() {
	spell := w.spell.Load()
	switch {
	case spell != w.seen:
		w.seen = spell
	case spell%2 == 1:
		if w.spell.CompareAndSwap(spell, spell+1) {
			w.takeOver()
		}
	default: // nothing ran since the last look
		w.armed.Store(false)
		if w.spell.Load() == spell || !w.armed.CompareAndSwap(false, true) {
			return // begin arms
		}
	}
	w.arm()
}

// arm plans the next look.
func (w *watchdog) arm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stopped:
	case w.timer == nil:
		w.timer = time.AfterFunc(watchPeriod, w.look)
	default:
		w.timer.Reset(watchPeriod)
	}
}

// stop ends the looking. There is no run.
func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

package replica

import (
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/op"
	"pgregory.net/rapid"
)

type fakeLog struct {
	batch               *op.Builder
	promised, installed op.Epoch
	dirty               bool
}

func (l *fakeLog) CanAppend() bool      { return l.batch == nil }
func (l *fakeLog) Append(b *op.Builder) { l.batch = b }
func (l *fakeLog) SetEpochs(p, i op.Epoch, _ op.Number, _ op.Hash) {
	l.promised, l.installed, l.dirty = p, i, true
}
func (l *fakeLog) flush() op.Number {
	n := l.batch.Entry(l.batch.Entries() - 1).Header.Number
	l.batch = nil
	return n
}

func lead(t interface{ Fatal(...any) }, s State) (*Replica, *fakeLog) {
	l := &fakeLog{}
	r := New(l, nil)
	r.Start(1, s)
	start := op.Op{Kind: op.KindEpochStart}
	for l.dirty {
		l.dirty = false
		r.OnEpochsDurable(&start)
	}
	r.Flush(1)
	r.OnFlushed(l.flush())
	for {
		if _, ok := r.NextCommitted(); !ok {
			break
		}
	}
	if !r.Serving() {
		t.Fatal("does not lead")
	}
	return r, l
}

// Goal: each proposed op is handed out once, in order, in a gapless hash chain,
// and never before its flush, however proposals and flushes interleave.
func TestCommitsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := State{Promised: 4, Installed: 3, Last: 7, LastHash: op.Hash{7}, LogTime: 50}
		r, l := lead(t, s)
		if r.Epoch() != 5 || l.installed != 5 {
			t.Fatalf("epoch %d", r.Epoch())
		}
		now := clock.Instant(1)
		next, want, number := uint64(0), uint64(0), r.Applied()
		var prev op.Hash
		var logTime op.LogMillis
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(clock.Duration(rapid.IntRange(0, 5).Draw(t, "ms")) * clock.Millisecond)
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				o := op.Op{Kind: op.KindPublish, ProducerSeq: next, Value: make([]byte, rapid.SampledFrom([]int{1, 3 << 20}).Draw(t, "len"))}
				if !r.Propose(&o) {
					t.Fatal("refused while leading")
				}
				next++
			case 1:
				r.Flush(now)
			case 2:
				if l.batch == nil {
					continue
				}
				r.OnFlushed(l.flush())
				for e, ok := r.NextCommitted(); ok; e, ok = r.NextCommitted() {
					number++
					if e.Header.Number != number || e.Header.Epoch != 5 || e.Header.LogTime < logTime || (prev != op.Hash{} && e.Header.PrevHash != prev) {
						t.Fatalf("%+v after %d", e.Header, number)
					}
					prev, logTime = e.Hash(), e.Header.LogTime
					var o op.Op
					if err := e.Each(&o, func(int) error {
						if o.ProducerSeq != want {
							t.Fatalf("op %d, want %d", o.ProducerSeq, want)
						}
						want++
						return nil
					}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if want > next {
			t.Fatal("handed out more than was proposed")
		}
	})
}

// Goal: nothing is proposed before the epoch is promised, installed and its
// first op committed, and nothing after a halt.
func TestServesOnlyItsOwnEpoch(t *testing.T) {
	l := &fakeLog{}
	r := New(l, nil)
	o := op.Op{Kind: op.KindPublish}
	if r.Propose(&o) {
		t.Fatal("proposed before start")
	}
	r.Start(1, State{})
	if l.promised != 1 || l.installed != 0 {
		t.Fatalf("first promise: %d/%d", l.promised, l.installed)
	}
	start := op.Op{Kind: op.KindEpochStart}
	r.OnEpochsDurable(&start)
	if l.installed != 1 || r.Propose(&o) {
		t.Fatal("served before install was durable")
	}
	r.OnEpochsDurable(&start)
	r.Flush(1)
	if r.Propose(&o) || l.batch == nil {
		t.Fatal("served before EpochStart committed")
	}
	r.OnFlushed(l.flush())
	r.NextCommitted()
	if !r.Propose(&o) {
		t.Fatal("does not serve")
	}
	r.Halt()
	r.Flush(2)
	if r.Propose(&o) || l.batch != nil {
		t.Fatal("serves after a halt")
	}
}

// Goal: an epoch that is ended takes nothing new, commits what it had, and is
// followed by the next one with EpochStart behind it.
func TestEndEpoch(t *testing.T) {
	r, l := lead(t, State{Promised: 6, Installed: 6, Last: 3})
	o := op.Op{Kind: op.KindPublish}
	r.Propose(&o)
	before := r.Epoch()
	r.EndEpoch()
	if r.Propose(&o) || r.Serving() {
		t.Fatal("takes ops after its end")
	}
	r.Flush(2)
	if l.dirty {
		t.Fatal("stands while an entry is under way")
	}
	r.OnFlushed(l.flush())
	for e, ok := r.NextCommitted(); ok; e, ok = r.NextCommitted() {
		if e.Header.Epoch != before {
			t.Fatalf("%+v", e.Header)
		}
	}
	r.Flush(3)
	start := op.Op{Kind: op.KindEpochStart}
	for l.dirty {
		l.dirty = false
		r.OnEpochsDurable(&start)
	}
	r.Flush(4)
	r.OnFlushed(l.flush())
	e, ok := r.NextCommitted()
	if !ok || e.Header.Epoch != before+1 || !r.Serving() || l.installed != before+1 {
		t.Fatalf("%+v %v", e.Header, ok)
	}
}

// Goal: a node whose epochs are used up refuses instead of wrapping.
func TestEpochsEnd(t *testing.T) {
	r := New(&fakeLog{}, nil)
	if r.Start(1, State{Promised: op.EpochMax, Installed: op.EpochMax}) {
		t.Fatal("stood beyond the last epoch")
	}
}

// Goal: a steady stream of publishes allocates nothing here.
func TestProposeAllocates(t *testing.T) {
	r, l := lead(t, State{})
	o := op.Op{Kind: op.KindPublish, Value: make([]byte, 1024)}
	round := func() {
		for range 200 {
			r.Propose(&o)
		}
		for r.Pending() > 0 {
			r.Flush(1)
			r.OnFlushed(l.flush())
			for {
				if _, ok := r.NextCommitted(); !ok {
					break
				}
			}
		}
	}
	round()
	round()
	if n := testing.AllocsPerRun(20, round); n != 0 {
		t.Fatalf("%v allocations per round", n)
	}
}

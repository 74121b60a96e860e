package machine

import (
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// What a window and each run behind its newest cost of ProducerWindowBytes: a
// little more than they take, map and links included. The cost is counted in
// runs, not in chunks, because how runs lie in chunks is not replicated state.
const (
	windowCost = 160
	runCost    = 20
)

// ForgetIdleMillis is how long a producer must have been idle, in log time, to
// be forgotten.
const ForgetIdleMillis = 600_000

// windowKey names a producer in a partition.
type windowKey struct {
	producer  uint64
	topic     op.TopicID
	partition op.PartitionID
}

// run is a row of accepted producer sequences whose records are neighbours too
// and were written in one epoch. The producer sequence of its first is not
// stored: runs join without a hole and end at the window's last.
type run struct {
	first op.Sequence // record of the run's first
	epoch op.Epoch
	count uint32
}

// runsPerChunk makes a chunk 120 bytes.
const runsPerChunk = 7

// chunk holds runs [head, end), oldest first.
type chunk struct {
	runs      [runsPerChunk]run
	next      uint32 // the next newer chunk
	head, end uint8
}

// window is the dedup window of one producer in one partition. Its runs are, in
// rising order, those in the chunks from head to tail and newest.
//
// Invariants: covered is the sum of all counts, at most wire.DedupWindow, and
// min(last, wire.DedupWindow) unless the window was cut; no count is 0.
type window struct {
	windowKey
	last         uint64 // producer_seq accepted last
	newest       run
	use          uint64       // of all accepts that were idempotent, the number of the last here
	active       op.LogMillis // when that was
	head, tail   uint32       // chunks
	covered      uint16
	older, newer uint32 // neighbours by use, all windows
	prev, next   uint32 // neighbours in the partition
	saved        uint32 // checkpoint that needs nothing more of it
	live         bool
}

// windowTable holds the windows of all partitions. It is one list by use, so
// the longest idle producer is known at once.
type windowTable struct {
	index  map[windowKey]uint32
	slab   slab[window]
	chunks slab[chunk]
	runs   uint64 // in chunks, of all windows
	uses   uint64 // accepts that were idempotent
	oldest uint32
	newest uint32
}

func (t *windowTable) init() { t.index = make(map[windowKey]uint32) }

// cost gives what the windows use of ProducerWindowBytes.
func (t *windowTable) cost() uint64 {
	return uint64(len(t.index))*windowCost + t.runs*runCost
}

// dedup looks producer sequence seq up. w is the producer's window, 0 for none.
func (m *Machine) dedup(key windowKey, seq uint64) (w uint32, d DedupView) {
	w = m.windows.index[key]
	if w == 0 {
		if seq != 1 {
			d.Verdict = VerdictUnknown
		}
		return w, d
	}
	win := m.windows.slab.at(w)
	switch {
	case seq > win.last:
		if seq-win.last > 1 {
			d.Verdict = VerdictGap
		}
	case win.last-seq >= uint64(win.covered):
		d.Verdict = VerdictExpired
	default:
		d = m.windows.find(win, win.last-seq)
	}
	return w, d
}

// affordable says whether the windows may grow by what the op needs. A new
// producer must fit the budget. A known one may need another run, and is not
// stopped by that until the windows take twice the budget.
func (m *Machine) affordable(o *op.Op, w uint32) bool {
	budget, cost := m.settings.ProducerWindowBytes, m.windows.cost()
	if w == 0 {
		return cost+windowCost <= budget
	}
	n := m.windows.slab.at(w).newest
	joins := n.epoch == m.epoch && n.first+op.Sequence(n.count) == m.lastSeq(o.Topic, o.Partition)+1
	return joins || cost+runCost <= 2*budget
}

// find gives the record of the sequence that is back below the window's last.
func (t *windowTable) find(win *window, back uint64) DedupView {
	at := func(r run, back uint64) DedupView {
		return DedupView{VerdictDuplicate, r.first + op.Sequence(uint64(r.count)-1-back), r.epoch}
	}
	if back < uint64(win.newest.count) {
		return at(win.newest, back)
	}
	// The chunks are walked from the oldest: forward is how many of the covered
	// sequences are older than the one that is looked for.
	forward := uint64(win.covered) - 1 - back
	for c := win.head; c != 0; c = t.chunks.at(c).next {
		ch := t.chunks.at(c)
		for _, r := range ch.runs[ch.head:ch.end] {
			if forward < uint64(r.count) {
				return at(r, uint64(r.count)-1-forward)
			}
			forward -= uint64(r.count)
		}
	}
	panic("machine: invariant M4 is broken: a window has a hole")
}

// accept notes that the op's producer sequence is record seq of p. w is the
// producer's window, 0 to make one.
func (m *Machine) accept(p *partition, w uint32, o *op.Op, seq op.Sequence) {
	t := &m.windows
	if w == 0 {
		w = t.slab.get()
		win := t.slab.at(w)
		win.windowKey = windowKey{o.ProducerID, o.Topic, o.Partition}
		win.saved, win.live = m.ckpt.generation, true
		t.index[win.windowKey] = w
		t.link(p, w)
	} else {
		m.keepWindow(w)
		t.unlinkUse(w)
	}
	win := t.slab.at(w)
	if n := &win.newest; n.count != 0 && n.epoch == m.epoch && n.first+op.Sequence(n.count) == seq {
		n.count++
	} else {
		if n.count != 0 {
			t.pushRun(win, *n)
		}
		*n = run{seq, m.epoch, 1}
	}
	win.covered++
	if win.covered > wire.DedupWindow {
		t.dropOldest(win)
	}
	win.last = o.ProducerSeq
	t.uses++
	win.use, win.active = t.uses, m.logTime
	t.linkUse(w)
}

// pushRun puts a run behind the older ones.
func (t *windowTable) pushRun(win *window, r run) {
	if win.tail == 0 || t.chunks.at(win.tail).end == runsPerChunk {
		c := t.chunks.get()
		if win.tail == 0 {
			win.head = c
		} else {
			t.chunks.at(win.tail).next = c
		}
		win.tail = c
	}
	ch := t.chunks.at(win.tail)
	ch.runs[ch.end] = r
	ch.end++
	t.runs++
}

// dropOldest takes the lowest sequence out of the window.
func (t *windowTable) dropOldest(win *window) {
	win.covered--
	r := &win.newest
	if win.head != 0 {
		ch := t.chunks.at(win.head)
		r = &ch.runs[ch.head]
	}
	r.first++
	r.count--
	if r.count > 0 {
		return
	}
	assert(win.head != 0, 4)
	t.runs--
	ch := t.chunks.at(win.head)
	ch.head++
	if ch.head == ch.end {
		c := win.head
		win.head = ch.next
		if win.head == 0 {
			win.tail = 0
		}
		t.chunks.put(c)
	}
}

// removeWindow forgets a producer.
func (m *Machine) removeWindow(p *partition, w uint32) {
	m.keepWindow(w)
	t := &m.windows
	win := t.slab.at(w)
	for c := win.head; c != 0; {
		ch := t.chunks.at(c)
		next := ch.next
		t.runs -= uint64(ch.end - ch.head)
		t.chunks.put(c)
		c = next
	}
	t.unlinkUse(w)
	if win.prev != 0 {
		t.slab.at(win.prev).next = win.next
	} else {
		p.windows = win.next
	}
	if win.next != 0 {
		t.slab.at(win.next).prev = win.prev
	}
	delete(t.index, win.windowKey)
	t.slab.put(w)
}

// link puts w first in its partition's list.
func (t *windowTable) link(p *partition, w uint32) {
	win := t.slab.at(w)
	win.prev, win.next = 0, p.windows
	if p.windows != 0 {
		t.slab.at(p.windows).prev = w
	}
	p.windows = w
}

// linkUse makes w the one used last.
func (t *windowTable) linkUse(w uint32) {
	win := t.slab.at(w)
	win.older, win.newer = t.newest, 0
	if t.newest != 0 {
		t.slab.at(t.newest).newer = w
	} else {
		t.oldest = w
	}
	t.newest = w
}

func (t *windowTable) unlinkUse(w uint32) {
	win := t.slab.at(w)
	if win.older != 0 {
		t.slab.at(win.older).newer = win.newer
	} else {
		t.oldest = win.newer
	}
	if win.newer != 0 {
		t.slab.at(win.newer).older = win.older
	} else {
		t.newest = win.older
	}
}

// forgetCandidate gives the producer that has been idle longest, if that is
// long enough and the budget is within an eighth of its end.
func (m *Machine) forgetCandidate(now op.LogMillis) (windowKey, bool) {
	budget := m.settings.ProducerWindowBytes
	if m.windows.oldest == 0 || m.windows.cost() <= budget-budget/8 {
		return windowKey{}, false
	}
	w := m.windows.slab.at(m.windows.oldest)
	if now < w.active+ForgetIdleMillis {
		return windowKey{}, false
	}
	return w.windowKey, true
}

// forgetProducer drops a window, unless its producer became active again.
func (m *Machine) forgetProducer(o *op.Op, res *Result) {
	w := m.windows.index[windowKey{o.ProducerID, o.Topic, o.Partition}]
	if w == 0 || m.logTime < m.windows.slab.at(w).active+ForgetIdleMillis {
		res.refuse(wire.CodeSeqExpired, "the producer is forgotten already, or active")
		return
	}
	m.removeWindow(m.partition(o.Topic, o.Partition), w)
}

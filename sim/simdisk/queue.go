package simdisk

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
)

// op is a request under way.
type op struct {
	req      disk.Request
	sequence uint64
	// started is the page version when it began: a sync need not cover what was
	// written later.
	started uint64
	due     clock.Instant
}

// ordered is a lane whose requests are carried out one after another. Only the
// first has a due time.
type ordered struct {
	ops   []op
	first int
}

func (l *ordered) empty() bool { return l.first == len(l.ops) }

func (l *ordered) head() *op {
	if l.empty() {
		return nil
	}
	return &l.ops[l.first]
}

func (l *ordered) push(o op) {
	if l.first > 64 && l.first*2 > len(l.ops) {
		n := copy(l.ops, l.ops[l.first:])
		clear(l.ops[n:])
		l.ops, l.first = l.ops[:n], 0
	}
	l.ops = append(l.ops, o)
}

func (l *ordered) pop() op {
	o := l.ops[l.first]
	l.ops[l.first] = op{}
	l.first++
	if l.empty() {
		l.ops, l.first = l.ops[:0], 0
	}
	return o
}

// queued gives what waits, in order.
func (l *ordered) queued() []op { return l.ops[l.first:] }

// readHeap holds the read lane's requests, the one due first at the top.
type readHeap struct{ ops []op }

func (h *readHeap) head() *op {
	if len(h.ops) == 0 {
		return nil
	}
	return &h.ops[0]
}

func (h *readHeap) less(i, j int) bool {
	a, b := &h.ops[i], &h.ops[j]
	return a.due < b.due || a.due == b.due && a.sequence < b.sequence
}

func (h *readHeap) push(o op) {
	h.ops = append(h.ops, o)
	for i := len(h.ops) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.less(i, parent) {
			break
		}
		h.ops[i], h.ops[parent] = h.ops[parent], h.ops[i]
		i = parent
	}
}

func (h *readHeap) pop() op {
	top, last := h.ops[0], len(h.ops)-1
	h.ops[0] = h.ops[last]
	h.ops[last] = op{}
	h.ops = h.ops[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return top
		}
		if child+1 < last && h.less(child+1, child) {
			child++
		}
		if !h.less(child, i) {
			return top
		}
		h.ops[i], h.ops[child] = h.ops[child], h.ops[i]
		i = child
	}
}

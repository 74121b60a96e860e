package core

import "github.com/mortarmq/mortarmq/wire"

// none is the index of no item.
const none int32 = -1

// item is one accepted publish, from Publish to its answer. Invariants: seq != 0 exactly while producer id and sequence are
// fixed (C2, C3); uncertain implies seq != 0; inFlight items of a lane are a run that begins at its head or behind items
// that were answered in this run and stay.
type item struct {
	ref   uint64
	key   []byte // borrowed until the outcome
	value []byte // borrowed until the outcome
	id    uint64 // producer_id that it was sent under
	seq   uint64 // producer_seq, 0 while it has none
	lane  *lane
	prev  int32     // in the lane
	next  int32     // in the lane, or in the free list
	bytes int32     // on the wire, while in flight
	code  wire.Code // the last refusal
	flags itemFlags
}

type itemFlags uint8

const (
	inFlight  itemFlags = 1 << iota // sent on this connection and not answered
	uncertain                       // an earlier sending may have been, or may yet be, committed
	abandoned                       // the outcome is out already; the sequence still has to be resolved
	orphan                          // in flight behind a sequence that nothing will ever have: it cannot be committed
)

func (it *item) has(f itemFlags) bool { return it.flags&f != 0 }

func (it *item) size() int { return pubOverhead + len(it.key) + len(it.value) }

// pubOverhead is a PUB frame without key and value.
const pubOverhead = 33

// items is a slab with a free list: indices stay good while it grows.
type items struct {
	slab []item
	free int32
}

func (s *items) init() { s.free = none }

func (s *items) at(i int32) *item { return &s.slab[i] }

func (s *items) take() int32 {
	if s.free == none {
		s.slab = append(s.slab, item{})
		return int32(len(s.slab) - 1)
	}
	i := s.free
	s.free = s.slab[i].next
	s.slab[i] = item{}
	return i
}

func (s *items) put(i int32) {
	s.slab[i] = item{next: s.free}
	s.free = i
}

// laneQueue is a ring of lanes.
type laneQueue struct {
	ring []*lane
	head int
	n    int
}

func (q *laneQueue) push(l *lane) {
	if q.n == len(q.ring) {
		grown := make([]*lane, max(16, 2*q.n))
		for i := range q.n {
			grown[i] = q.ring[(q.head+i)&(len(q.ring)-1)]
		}
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = l
	q.n++
}

func (q *laneQueue) pop() *lane {
	l := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return l
}

package msgtrans

import (
	"cmp"
	"fmt"
	"slices"
)

// Instant is a point in time in nanoseconds on a clock of the caller's that
// never goes back.
type Instant int64

// Pairing is the sender's half of one connection: it issues message ids and
// knows which requests wait for a Response. It is a table driven by time and
// inputs; T is what the owner keeps per request.
//
// Ids come from one counter for OneWay and Request, start at 1, wrap from
// 2^32-1 to 1 and leave out those that are pending (invariant 5).
type Pairing[T any] struct {
	pendingMax int
	last       MessageID
	begun      uint64
	byID       map[MessageID]int32 // slot; looked up only, never walked
	slots      []pending[T]
	free       []int32
	// heap orders the slots in use by deadline, then by age.
	heap      []int32
	unmatched uint64
}

type pending[T any] struct {
	id       MessageID
	deadline Instant
	age      uint64 // requests begun before this one
	at       int    // index in heap
	value    T
}

// Ended is a request that left the table without a Response.
type Ended[T any] struct {
	ID    MessageID
	Value T
}

// NewPairing returns an empty table for at most pendingMax requests,
// [DefaultPendingRequests] if that is 0.
func NewPairing[T any](pendingMax int) *Pairing[T] {
	if pendingMax <= 0 {
		pendingMax = DefaultPendingRequests
	}
	return &Pairing[T]{pendingMax: pendingMax, byID: make(map[MessageID]int32)}
}

// Len returns the number of pending requests.
func (p *Pairing[T]) Len() int { return len(p.heap) }

// Unmatched returns how many Responses found no request: late, duplicate or
// foreign, which cannot be told apart once the request is gone.
func (p *Pairing[T]) Unmatched() uint64 { return p.unmatched }

// OneWay issues the id of a message that wants no answer.
func (p *Pairing[T]) OneWay() MessageID { return p.issue() }

// Begin issues the id of a request and makes it pending until deadline. It
// fails with [ErrPendingFull] if there are too many already.
func (p *Pairing[T]) Begin(deadline Instant, value T) (MessageID, error) {
	if len(p.heap) >= p.pendingMax {
		return 0, fmt.Errorf("%w: %d", ErrPendingFull, p.pendingMax)
	}
	id := p.issue()
	slot := int32(len(p.slots))
	if n := len(p.free); n > 0 {
		slot, p.free = p.free[n-1], p.free[:n-1]
	} else {
		p.slots = append(p.slots, pending[T]{})
	}
	p.slots[slot] = pending[T]{id: id, deadline: deadline, age: p.begun, at: len(p.heap), value: value}
	p.begun++
	p.byID[id] = slot
	p.heap = append(p.heap, slot)
	p.up(len(p.heap) - 1)
	return id, nil
}

// Match takes the request that a Response answers. False means that nobody
// waits for it: the Response is to be dropped, and has been counted.
func (p *Pairing[T]) Match(id MessageID) (T, bool) {
	value, ok := p.Cancel(id)
	if !ok {
		p.unmatched++
	}
	return value, ok
}

// Cancel takes a request back that its caller has given up.
func (p *Pairing[T]) Cancel(id MessageID) (T, bool) {
	slot, ok := p.byID[id]
	if !ok {
		var none T
		return none, false
	}
	return p.remove(slot), true
}

// Deadline returns the earliest deadline, false if nothing is pending.
func (p *Pairing[T]) Deadline() (Instant, bool) {
	if len(p.heap) == 0 {
		return 0, false
	}
	return p.slots[p.heap[0]].deadline, true
}

// Expire appends to out the requests whose deadline is not after now, the
// earliest first, and forgets them.
func (p *Pairing[T]) Expire(now Instant, out []Ended[T]) []Ended[T] {
	for len(p.heap) > 0 {
		slot := p.heap[0]
		if p.slots[slot].deadline > now {
			break
		}
		id := p.slots[slot].id
		out = append(out, Ended[T]{ID: id, Value: p.remove(slot)})
	}
	return out
}

// Reset appends every pending request to out, the oldest first, forgets them
// and starts the ids at 1 again. It is what a connection's end requires
// (section 10).
func (p *Pairing[T]) Reset(out []Ended[T]) []Ended[T] {
	slices.SortFunc(p.heap, func(a, b int32) int { return cmp.Compare(p.slots[a].age, p.slots[b].age) })
	for _, slot := range p.heap {
		s := &p.slots[slot]
		out = append(out, Ended[T]{ID: s.id, Value: s.value})
	}
	clear(p.byID)
	clear(p.slots)
	p.slots, p.free, p.heap = p.slots[:0], p.free[:0], p.heap[:0]
	p.last = 0
	return out
}

func (p *Pairing[T]) issue() MessageID {
	for {
		p.last++
		if p.last == 0 {
			continue
		}
		if _, taken := p.byID[p.last]; !taken {
			return p.last
		}
	}
}

func (p *Pairing[T]) remove(slot int32) T {
	s := &p.slots[slot]
	at, last := s.at, len(p.heap)-1
	if p.heap[at] != slot {
		panic("msgtrans: invariant 6: a pending request is not where its slot says")
	}
	p.swap(at, last)
	p.heap = p.heap[:last]
	if at < last {
		p.down(at)
		p.up(at)
	}
	value := s.value
	delete(p.byID, s.id)
	*s = pending[T]{}
	p.free = append(p.free, slot)
	return value
}

func (p *Pairing[T]) less(i, j int) bool {
	a, b := &p.slots[p.heap[i]], &p.slots[p.heap[j]]
	return a.deadline < b.deadline || a.deadline == b.deadline && a.age < b.age
}

func (p *Pairing[T]) swap(i, j int) {
	p.heap[i], p.heap[j] = p.heap[j], p.heap[i]
	p.slots[p.heap[i]].at = i
	p.slots[p.heap[j]].at = j
}

func (p *Pairing[T]) up(i int) {
	for i > 0 && p.less(i, (i-1)/2) {
		p.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (p *Pairing[T]) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(p.heap) {
			return
		}
		if child+1 < len(p.heap) && p.less(child+1, child) {
			child++
		}
		if !p.less(child, i) {
			return
		}
		p.swap(i, child)
		i = child
	}
}

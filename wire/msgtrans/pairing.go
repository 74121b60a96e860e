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
//
// Pending requests form a list ordered by deadline, then by age. A new one is put
// in from the end: where all have the same timeout, that is its place. A heap would
// bound the walk of the others, which pendingMax does, and cost more in the usual case.
type Pairing[T any] struct {
	pendingMax int
	last       MessageID
	lapped     bool // an id that comes next may be pending: the counter has wrapped or was moved
	begun      uint64
	slots      []pending[T] // slot 0 is the list's head and tail
	free       []int32
	table      slotTable
	unmatched  uint64
}

type pending[T any] struct {
	id         MessageID
	deadline   Instant
	age        uint64 // requests begun before this one
	prev, next int32
	value      T
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
	return &Pairing[T]{pendingMax: pendingMax, slots: make([]pending[T], 1)}
}

// Len returns the number of pending requests.
func (p *Pairing[T]) Len() int { return p.table.used }

// Unmatched returns how many Responses found no request: late, duplicate or
// foreign, which cannot be told apart once the request is gone.
func (p *Pairing[T]) Unmatched() uint64 { return p.unmatched }

// OneWay issues the id of a message that wants no answer.
func (p *Pairing[T]) OneWay() MessageID { return p.issue() }

// ContinueAfter makes the ids go on after last, as if everything up to it had been
// issued: that is how simulations and tests come to the wrap. What is pending stays.
func (p *Pairing[T]) ContinueAfter(last MessageID) { p.last, p.lapped = last, true }

// Begin issues the id of a request and makes it pending until deadline. It
// fails with [ErrPendingFull] if there are too many already.
func (p *Pairing[T]) Begin(deadline Instant, value T) (MessageID, error) {
	if p.Len() >= p.pendingMax {
		return 0, fmt.Errorf("%w: %d", ErrPendingFull, p.pendingMax)
	}
	id := p.issue()
	slot := int32(len(p.slots))
	if n := len(p.free); n > 0 {
		slot, p.free = p.free[n-1], p.free[:n-1]
	} else {
		p.slots = append(p.slots, pending[T]{})
	}
	prev := p.slots[0].prev
	for prev != 0 && p.slots[prev].deadline > deadline {
		prev = p.slots[prev].prev
	}
	next := p.slots[prev].next
	p.slots[slot] = pending[T]{id: id, deadline: deadline, age: p.begun, prev: prev, next: next, value: value}
	p.slots[prev].next, p.slots[next].prev = slot, slot
	p.begun++
	p.table.put(id, slot)
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
	slot, ok := p.table.get(id)
	if !ok {
		var none T
		return none, false
	}
	return p.remove(slot), true
}

// Deadline returns the earliest deadline, false if nothing is pending.
func (p *Pairing[T]) Deadline() (Instant, bool) {
	first := p.slots[0].next
	return p.slots[first].deadline, first != 0
}

// Expire appends to out the requests whose deadline is not after now, the
// earliest first, and forgets them.
func (p *Pairing[T]) Expire(now Instant, out []Ended[T]) []Ended[T] {
	for {
		first := p.slots[0].next
		if first == 0 || p.slots[first].deadline > now {
			return out
		}
		id := p.slots[first].id
		out = append(out, Ended[T]{ID: id, Value: p.remove(first)})
	}
}

// Reset is Abandon, and starts the ids at 1 again. It is what a connection's end
// requires (section 10).
func (p *Pairing[T]) Reset(out []Ended[T]) []Ended[T] {
	out = p.Abandon(out)
	p.last, p.lapped = 0, false
	return out
}

// Abandon appends every pending request to out, the oldest first, and forgets them.
// The ids go on: it is for a connection whose peer sends nothing any more, to which
// packets may still be sent.
func (p *Pairing[T]) Abandon(out []Ended[T]) []Ended[T] {
	var order []int32
	for slot := p.slots[0].next; slot != 0; slot = p.slots[slot].next {
		order = append(order, slot)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(p.slots[a].age, p.slots[b].age) })
	for _, slot := range order {
		id := p.slots[slot].id
		out = append(out, Ended[T]{ID: id, Value: p.remove(slot)})
	}
	return out
}

func (p *Pairing[T]) issue() MessageID {
	for {
		p.last++
		if p.last == 0 {
			p.lapped = true
			continue
		}
		if !p.lapped {
			return p.last
		}
		if _, taken := p.table.get(p.last); !taken {
			return p.last
		}
	}
}

func (p *Pairing[T]) remove(slot int32) T {
	s := &p.slots[slot]
	if p.slots[s.prev].next != slot || p.slots[s.next].prev != slot {
		panic("msgtrans: invariant 6: a pending request is not in the list")
	}
	p.slots[s.prev].next, p.slots[s.next].prev = s.next, s.prev
	value := s.value
	p.table.delete(s.id)
	*s = pending[T]{}
	p.free = append(p.free, slot)
	return value
}

package segment

import "github.com/mortarmq/mortarmq/disk"

// worker is something under way that waits for the disk: a file that opens, a
// partition's writer, a read. Each is a phase machine in a file of its own.
type worker interface {
	base() *task
	// completed sees each completion of the worker's requests.
	completed(s *Set, c *disk.Completion)
	// advance goes on when nothing is left that the worker waits for.
	advance(s *Set)
}

// task is what every worker has: a slot, which its requests' tags name, and the
// count of what it waits for.
type task struct {
	slot    uint32
	waiting int
	err     disk.Errno // the first failure since takeErr
}

func (t *task) base() *task { return t }

func (t *task) fail(e disk.Errno) {
	if t.err == disk.OK {
		t.err = e
	}
}

// takeErr gives the first failure of what was waited for, and forgets it.
func (t *task) takeErr() disk.Errno {
	e := t.err
	t.err = disk.OK
	return e
}

type slot struct {
	gen uint32
	w   worker
}

// begin gives w a slot.
func (s *Set) begin(w worker) {
	t := w.base()
	if n := len(s.freeSlots); n > 0 {
		t.slot = s.freeSlots[n-1]
		s.freeSlots = s.freeSlots[:n-1]
	} else {
		t.slot = uint32(len(s.slots))
		s.slots = append(s.slots, slot{})
	}
	s.slots[t.slot].w = w
}

// end takes the slot back.
func (s *Set) end(w worker) {
	t := w.base()
	assert(t.waiting == 0, "a worker ends while it waits")
	sl := &s.slots[t.slot]
	assert(sl.w == w, "a worker ends twice")
	sl.gen++
	sl.w = nil
	s.freeSlots = append(s.freeSlots, t.slot)
}

// submit queues a request of w.
func (s *Set) submit(w worker, r disk.Request) {
	t := w.base()
	r.Tag = disk.Tag{Owner: s.o.Owner, Slot: t.slot, Gen: s.slots[t.slot].gen}
	t.waiting++
	s.inFlight++
	s.out = append(s.out, r)
}

// wake tells w that one of the other workers it waits for is done.
func (s *Set) wake(w worker, e disk.Errno) {
	t := w.base()
	t.waiting--
	if e != disk.OK {
		t.fail(e)
	}
	if t.waiting == 0 {
		w.advance(s)
	}
}

// Complete takes the completion of a request with this set's owner tag. One
// that nothing waits for is dropped.
func (s *Set) Complete(c *disk.Completion) {
	if c.Tag.Owner != s.o.Owner || int(c.Tag.Slot) >= len(s.slots) {
		return
	}
	sl := &s.slots[c.Tag.Slot]
	if sl.w == nil || sl.gen != c.Tag.Gen {
		return
	}
	s.inFlight--
	w := sl.w
	w.completed(s, c)
	s.wake(w, c.Err)
}

// assert panics with an invariant's text when it does not hold.
func assert(ok bool, what string) {
	if !ok {
		panic("segment: " + what)
	}
}

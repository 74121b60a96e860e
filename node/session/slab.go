package session

import "github.com/mortarmq/mortarmq/clock"

// none is an index that names nothing.
const none = ^uint32(0)

const (
	chunkBits = 6
	chunkSize = 1 << chunkBits
)

// slab hands out places for values of one type by index. A place never moves,
// so pointers stay good until it is released.
type slab[T any] struct {
	chunks []*[chunkSize]T
	free   []uint32
	used   uint32 // places ever handed out
}

// take gives a place. It holds what release left there: the zero value, or what
// release kept.
func (s *slab[T]) take() (uint32, *T) {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i, s.at(i)
	}
	i := s.used
	if i>>chunkBits == uint32(len(s.chunks)) {
		s.chunks = append(s.chunks, new([chunkSize]T))
	}
	s.used++
	return i, s.at(i)
}

func (s *slab[T]) at(i uint32) *T { return &s.chunks[i>>chunkBits][i&(chunkSize-1)] }

// release takes a place back; the caller has emptied it.
func (s *slab[T]) release(i uint32) { s.free = append(s.free, i) }

// inUse is the number of places handed out.
func (s *slab[T]) inUse() int { return int(s.used) - len(s.free) }

// deadlines is a min-heap of indices by instant, in which an index can be found
// again. Whoever is in it may be there earlier than need be, never later: the
// owner looks again when it comes up.
type deadlines struct {
	heap []timed
	pos  []int32 // by index: place in heap plus one, 0 when not in it
}

type timed struct {
	at clock.Instant
	id uint32
}

// earliest is the first deadline, or Never.
func (d *deadlines) earliest() clock.Instant {
	if len(d.heap) == 0 {
		return clock.Never
	}
	return d.heap[0].at
}

// due takes out the first index whose deadline is not after now.
func (d *deadlines) due(now clock.Instant) (uint32, bool) {
	if len(d.heap) == 0 || d.heap[0].at > now {
		return none, false
	}
	id := d.heap[0].id
	d.remove(id)
	return id, true
}

// lower makes sure that id comes up at the given instant or before.
func (d *deadlines) lower(id uint32, at clock.Instant) {
	if at == clock.Never {
		return
	}
	for uint32(len(d.pos)) <= id {
		d.pos = append(d.pos, 0)
	}
	p := d.pos[id]
	if p == 0 {
		d.heap = append(d.heap, timed{at, id})
		d.pos[id] = int32(len(d.heap))
		d.up(len(d.heap) - 1)
		return
	}
	if d.heap[p-1].at > at {
		d.heap[p-1].at = at
		d.up(int(p - 1))
	}
}

// remove takes id out if it is in.
func (d *deadlines) remove(id uint32) {
	if id >= uint32(len(d.pos)) || d.pos[id] == 0 {
		return
	}
	i, last := int(d.pos[id]-1), len(d.heap)-1
	d.pos[id] = 0
	moved := d.heap[last]
	d.heap = d.heap[:last]
	if i == last {
		return
	}
	d.heap[i] = moved
	d.pos[moved.id] = int32(i + 1)
	d.up(i)
	d.down(int(d.pos[moved.id] - 1))
}

func (d *deadlines) swap(i, j int) {
	d.heap[i], d.heap[j] = d.heap[j], d.heap[i]
	d.pos[d.heap[i].id], d.pos[d.heap[j].id] = int32(i+1), int32(j+1)
}

func (d *deadlines) up(i int) {
	for i > 0 && d.heap[i].at < d.heap[(i-1)/2].at {
		d.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (d *deadlines) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(d.heap) {
			return
		}
		if c+1 < len(d.heap) && d.heap[c+1].at < d.heap[c].at {
			c++
		}
		if d.heap[i].at <= d.heap[c].at {
			return
		}
		d.swap(i, c)
		i = c
	}
}

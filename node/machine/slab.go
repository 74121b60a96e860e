package machine

// slabShift sets the page size of a slab: 1024 items.
const (
	slabShift = 10
	slabPage  = 1 << slabShift
)

// slab hands out items of a pointer-free type by number. It grows a page at a
// time and never moves an item, so growing costs no copy and the collector,
// which skips pages without pointers, has nothing to do. Number 0 is "none".
//
// Which number an item gets depends on the order of frees, loads included: it
// is not part of the replicated state and must not show in it.
type slab[T any] struct {
	pages []*[slabPage]T
	free  []uint32
	next  uint32 // lowest number never handed out
}

// at gives item i, valid until it is put back.
func (s *slab[T]) at(i uint32) *T {
	return &s.pages[i>>slabShift][i&(slabPage-1)]
}

// get hands out a zeroed item.
func (s *slab[T]) get() uint32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	if s.next == 0 {
		s.next = 1
	}
	i := s.next
	if int(i>>slabShift) == len(s.pages) {
		s.pages = append(s.pages, new([slabPage]T))
	}
	s.next++
	return i
}

// put takes item i back and zeroes it.
func (s *slab[T]) put(i uint32) {
	if i == 0 || i >= s.next {
		panic("machine: a slab gets back what it did not hand out")
	}
	var zero T
	*s.at(i) = zero
	s.free = append(s.free, i)
}

// used gives how many items are handed out.
func (s *slab[T]) used() int {
	return max(int(s.next)-1, 0) - len(s.free)
}

package simnet

// fifo is a queue that keeps its memory.
type fifo[T any] struct {
	items []T
	next  int
}

func (f *fifo[T]) len() int { return len(f.items) - f.next }

func (f *fifo[T]) first() *T { return &f.items[f.next] }

func (f *fifo[T]) push(v T) {
	if f.next > 32 && f.next*2 > len(f.items) {
		f.cut(f.len())
	}
	f.items = append(f.items, v)
}

func (f *fifo[T]) pop() T {
	var none T
	v := f.items[f.next]
	f.items[f.next] = none
	if f.next++; f.next == len(f.items) {
		f.items, f.next = f.items[:0], 0
	}
	return v
}

// all gives what is queued, the first one first.
func (f *fifo[T]) all() []T { return f.items[f.next:] }

// cut keeps the first n.
func (f *fifo[T]) cut(n int) {
	copy(f.items, f.items[f.next:f.next+n])
	clear(f.items[n:])
	f.items, f.next = f.items[:n], 0
}

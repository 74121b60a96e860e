package sim

import "github.com/mortarmq/mortarmq/clock"

// timers is a heap of things to do, those of one instant in the order in which
// they were asked for.
type timers struct {
	heap []timer
	last uint64
}

type timer struct {
	at    clock.Instant
	order uint64
	do    func()
}

func (t *timers) less(i, j int) bool {
	a, b := &t.heap[i], &t.heap[j]
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (t *timers) push(at clock.Instant, do func()) {
	t.last++
	t.heap = append(t.heap, timer{at, t.last, do})
	for i := len(t.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !t.less(i, up) {
			break
		}
		t.heap[i], t.heap[up] = t.heap[up], t.heap[i]
		i = up
	}
}

// due is the instant of the next one, Never without any.
func (t *timers) due() clock.Instant {
	if len(t.heap) == 0 {
		return clock.Never
	}
	return t.heap[0].at
}

// pop takes the next one out.
func (t *timers) pop() func() {
	do := t.heap[0].do
	last := len(t.heap) - 1
	t.heap[0] = t.heap[last]
	t.heap[last] = timer{}
	t.heap = t.heap[:last]
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < last; c++ {
			if t.less(c, least) {
				least = c
			}
		}
		if least == i {
			return do
		}
		t.heap[i], t.heap[least] = t.heap[least], t.heap[i]
		i = least
	}
}

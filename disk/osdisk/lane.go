package osdisk

import (
	"sync"

	"github.com/mortarmq/mortarmq/disk"
)

// lane is a queue of requests that its workers wait on.
type lane struct {
	mu     sync.Mutex
	filled sync.Cond
	queue  []disk.Request
	closed bool
}

func newLane() *lane {
	l := &lane{}
	l.filled.L = &l.mu
	return l
}

// push queues a copy of reqs; false means that the lane is closed.
func (l *lane) push(reqs []disk.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.queue = append(l.queue, reqs...)
	if len(reqs) == 1 {
		l.filled.Signal()
	} else {
		l.filled.Broadcast()
	}
	return true
}

// takeAll waits for requests and takes all of them, in order, giving back the
// memory of the last ones; nil means that the lane is closed.
func (l *lane) takeAll(used []disk.Request) []disk.Request {
	clear(used)
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && !l.closed {
		l.filled.Wait()
	}
	reqs := l.queue
	l.queue = used[:0]
	if len(reqs) == 0 {
		return nil
	}
	return reqs
}

// takeOne waits for one request; false means that the lane is closed.
func (l *lane) takeOne() (disk.Request, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 {
		if l.closed {
			return disk.Request{}, false
		}
		l.filled.Wait()
	}
	r := l.queue[0]
	l.queue[0] = disk.Request{}
	l.queue = l.queue[1:]
	return r, true
}

// close ends the lane and gives what was queued.
func (l *lane) close() []disk.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	left := l.queue
	l.queue = nil
	l.filled.Broadcast()
	return left
}

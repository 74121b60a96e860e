package core

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
)

// request is one that waits for its answer. Which of slot, call and member counts depends on op.
type request struct {
	op         wire.Op
	n          uint64 // in order of sending, over all connections
	epochs     uint64 // PULL, HEARTBEAT, CREDIT: consumer.told when it was sent
	slot       int32  // PUB: the item; ACK, NACK, CONTROL_ACK: the reply
	count      uint16 // CREDIT
	bytes      uint32 // CREDIT
	leave      bool   // HEARTBEAT
	call       *call  // DECLARE
	member     *consumer
	generation uint32 // of member
	sentAt     clock.Instant
}

// fifo is a ring of the unanswered requests of a connection, oldest first.
type fifo struct {
	ring []request
	head int
	n    int
}

func (f *fifo) len() int { return f.n }

func (f *fifo) push(r request) {
	if f.n == len(f.ring) {
		grown := make([]request, max(16, 2*f.n))
		for i := range f.n {
			grown[i] = f.ring[(f.head+i)&(len(f.ring)-1)]
		}
		f.ring, f.head = grown, 0
	}
	f.ring[(f.head+f.n)&(len(f.ring)-1)] = r
	f.n++
}

func (f *fifo) front() *request { return &f.ring[f.head] }

func (f *fifo) pop() request {
	r := f.ring[f.head]
	f.ring[f.head] = request{}
	f.head = (f.head + 1) & (len(f.ring) - 1)
	f.n--
	return r
}

func (f *fifo) clear() { *f = fifo{} }

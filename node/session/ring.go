package session

import "github.com/mortarmq/mortarmq/wire"

// ringMin is the capacity of a connection's first ring.
const ringMin = 4

// answerKind says what a decided request is answered with.
type answerKind uint8

const (
	answerNone    answerKind = iota // undecided
	answerOK                        // an OK without a result
	answerErr                       // code, text
	answerConnect                   // hint when flagHint
	answerDeclare                   // small topic id, a partitions, b created
	answerPub                       // a sequence, b epoch, c commit; small partition
	answerSub                       // small subscription id, a member, b membership, c assignment
	answerCredit                    // a, b balance plus what was ever sent, c credit epoch; small subscription id
)

// Flags of a request.
const (
	flagWantPartition uint8 = 1 << iota
	flagDeduplicated
	flagHint
	flagClose   // the connection closes once this is written
	flagBarrier // frames behind it wait for its outcome
)

// request is a place in a connection's ring: a request from when it was read
// until its answer is written. What is decided early keeps its answer here.
type request struct {
	op    wire.Op
	kind  answerKind
	flags uint8
	code  wire.Code
	small uint16
	size  uint32 // of the request's frame in bytes
	text  string
	a     uint64
	b     uint64
	c     uint64
}

// ring holds a connection's unanswered requests in order. Numbers count up for
// the connection's life, so that one names a request for good.
//
// Invariant 1: head <= tail; the requests in [head, tail) are those without a
// written answer, and that at head is undecided whenever nobody is writing.
type ring struct {
	slots []request // a power of two long
	head  uint64
	tail  uint64
}

func (r *ring) len() int { return int(r.tail - r.head) }

func (r *ring) at(n uint64) *request { return &r.slots[n&uint64(len(r.slots)-1)] }

// holds says whether number n is an unanswered request.
func (r *ring) holds(n uint64) bool { return n >= r.head && n < r.tail }

// push gives the place behind the last request.
func (r *ring) push() (uint64, *request) {
	if r.len() == len(r.slots) {
		r.grow()
	}
	n := r.tail
	r.tail++
	return n, r.at(n)
}

func (r *ring) grow() {
	size := max(ringMin, 2*len(r.slots))
	slots := make([]request, size)
	for n := r.head; n != r.tail; n++ {
		slots[n&uint64(size-1)] = *r.at(n)
	}
	r.slots = slots
}

// trim gives back memory that a burst left, once nothing is unanswered.
func (r *ring) trim() {
	if r.len() == 0 {
		r.slots = nil
	}
}

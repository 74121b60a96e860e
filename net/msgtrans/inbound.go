package msgtrans

import (
	"sync"
	"sync/atomic"
)

// inboundKeepBytes is the largest buffer that is kept for the next message.
const inboundKeepBytes = 128 << 10

// The state of an inbound: above these bits stands the turn, which tells a request
// from the next one in the same inbound.
const (
	inboundOver     uint32 = 0 // the request is answered or given up, or it is a message
	inboundRunning  uint32 = 1 // neither, and Hold was not called
	inboundHeld     uint32 = 2 // Hold was called
	inboundReplying uint32 = 3 // Reply or Release is at work
	inboundPhase    uint32 = 3
	inboundReturned uint32 = 4 // the handler has returned
	inboundTurn     uint32 = 8
)

// inbound is a message or a Request that was accepted, and its buffer. It serves
// one after the other.
//
// Invariants: it is given back by whoever makes it both over and returned. A handle
// whose turn is past changes nothing.
type inbound struct {
	conn    *Conn
	message Message // in buf
	buf     []byte
	request bool
	size    int // what it takes of the inbound queue
	state   atomic.Uint32
}

var inbounds = sync.Pool{New: func() any { return new(inbound) }}

// newInbound returns an inbound whose buffer is to be filled.
func newInbound(c *Conn, request bool) *inbound {
	i := inbounds.Get().(*inbound)
	i.conn, i.request = c, request
	turn := i.state.Load()&^(inboundTurn-1) + inboundTurn
	if request {
		turn |= inboundRunning
	}
	i.state.Store(turn)
	return i
}

// turn is what a handle of i carries.
func (i *inbound) turn() uint32 { return i.state.Load() &^ (inboundTurn - 1) }

// free gives i back; nobody has it any more.
func (i *inbound) free() {
	if poison {
		for n := range i.buf {
			i.buf[n] = 0xDB
		}
	}
	if cap(i.buf) > inboundKeepBytes {
		i.buf = nil
	}
	i.conn, i.message = nil, Message{}
	inbounds.Put(i)
}

// change makes the request of turn go from one of two phases to another, and
// returns the state before.
func (i *inbound) change(turn, from, orFrom, to uint32) (was uint32, ok bool) {
	for {
		was = i.state.Load()
		phase := was & inboundPhase
		if was&^(inboundTurn-1) != turn || phase != from && phase != orFrom {
			return was, false
		}
		if i.state.CompareAndSwap(was, was&^inboundPhase|to) {
			return was, true
		}
	}
}

// enter reserves the end of the request for the caller, who calls over or leave.
func (i *inbound) enter(turn uint32) (was uint32, ok bool) {
	return i.change(turn, inboundRunning, inboundHeld, inboundReplying)
}

// leave undoes enter. If the handler has returned meanwhile, its request is given up.
func (i *inbound) leave(turn, was uint32) {
	i.change(turn, inboundReplying, inboundReplying, was&inboundPhase)
	if was&inboundPhase == inboundRunning && i.state.Load()&inboundReturned != 0 {
		i.abandon(turn)
	}
}

func (i *inbound) hold(turn uint32) { i.change(turn, inboundRunning, inboundRunning, inboundHeld) }

// over ends a request that the caller has entered.
func (i *inbound) over(turn uint32) {
	c, size := i.conn, i.size
	if was, _ := i.change(turn, inboundReplying, inboundReplying, inboundOver); was&inboundReturned != 0 {
		i.free()
	}
	c.in.over(size)
}

// abandon ends a request that nobody has answered or holds.
func (i *inbound) abandon(turn uint32) {
	if _, ok := i.change(turn, inboundRunning, inboundRunning, inboundReplying); ok {
		i.conn.stats.unanswered.Add(1)
		i.over(turn)
	}
}

// returned says that the handler of a request has returned. While a Reply is on its
// way the request is left to that.
func (i *inbound) returned(turn uint32) {
	for {
		was := i.state.Load()
		if !i.state.CompareAndSwap(was, was|inboundReturned) {
			continue
		}
		switch was & inboundPhase {
		case inboundOver:
			i.free()
		case inboundRunning:
			i.abandon(turn)
		}
		return
	}
}

// handle calls the handler of what was accepted.
func (c *Conn) handle(i *inbound) {
	if i.request {
		turn := i.turn()
		c.set.OnRequest(c.requestCtx, Request{Message: i.message, conn: c, in: i, turn: turn})
		i.returned(turn)
		return
	}
	c.set.OnMessage(c.messageCtx, c, i.message)
	size := i.size
	i.free()
	c.in.over(size)
}

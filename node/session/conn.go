package session

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/wire"
)

// connState is where a connection is in its life.
type connState uint8

const (
	connFree    connState = iota
	connGreeted           // before CONNECT succeeded
	connFailing           // a wrong token: AUTH_FAILED follows after its delay
	connOpen
	connEnding  // an answer that closes is on its way: nothing is read any more
	connClosing // closed here: EventClosed follows
)

// Reasons to hold a connection's frames back.
const (
	holdBarrier uint8 = 1 << iota // the outcome of a request before them
	holdLimit                     // requests or bytes unanswered
	holdOutput                    // output unwritten
	holdStop                      // drain
)

// conn is one connection. An idle one holds no ring, buffer or queue.
//
// Invariants:
//
//  1. held is empty while hold is 0, but within a turn.
//  2. out is not nil exactly while there are bytes to send this turn.
//  3. subs is in rising order of id.
type conn struct {
	id    net.ConnID
	gen   uint32
	state connState
	hold  uint8

	paused     bool // PauseRead is in force
	dirty      bool // in Sessions.dirty
	resuming   bool // in Sessions.resume
	waking     bool // in Sessions.wake
	wantClose  bool // Close this turn, behind what is sent
	wantAbort  bool
	nextSub    uint16 // last subscription id given
	noticeLast uint64 // last notice id given; they count from 1

	reader wire.FrameReader
	held   []byte // input that waits for hold to end
	out    []byte // output of this turn
	ring   ring
	size   int // of unanswered requests in bytes
	queued int // output that the net has not written yet

	opened    clock.Instant
	lastFrame clock.Instant // last complete frame
	lastByte  clock.Instant // last byte
	lastMove  clock.Instant // output began to wait, or moved
	closeAt   clock.Instant // connFailing: when AUTH_FAILED goes; connClosing: when to abort
	rate      clock.Instant // publish_rate_limit: when the bucket is full again

	depositions uint32 // of Sessions when the connection was opened
	subs        []connSub
	pulls       *pullQueue
}

// connSub finds a subscription by its id.
type connSub struct {
	id  uint16
	sub uint32
}

// open takes a new connection, or turns it away: with BACKPRESSURE where there are
// too many, without a word when the broker stops, for which there is no code that
// closes.
func (s *Sessions) open(ev *net.Event) {
	switch {
	case s.stopping:
		s.stats.Refused++
		s.shutOut = append(s.shutOut, ev.Conn)
		return
	case s.conns.inUse() >= s.cfg.MaxConnections:
		s.stats.Refused++
		s.reject(wire.CodeBackpressure)
		s.turnAway = append(s.turnAway, ev.Conn)
		return
	}
	i, c := s.conns.take()
	*c = conn{
		id: ev.Conn, gen: c.gen + 1, state: connGreeted,
		opened: s.now, lastFrame: s.now, lastByte: s.now,
		depositions: s.depositions,
		reader:      wire.FrameReader{MaxLen: wire.MaxFrameLenBeforeConnect, FromClient: true},
	}
	s.byID[ev.Conn] = i
	s.timers.lower(i, s.now.Add(authTimeout))
}

// closed forgets a connection that has ended and gives up its memberships.
func (s *Sessions) closed(i uint32, c *conn) {
	for _, cs := range c.subs {
		s.abandon(cs.sub)
	}
	delete(s.byID, c.id)
	s.timers.remove(i)
	gen := c.gen
	s.putBuffer(c.out)
	*c = conn{gen: gen}
	s.conns.release(i)
}

// shut closes a connection behind what was sent.
func (s *Sessions) shut(i uint32, c *conn) {
	if c.state == connClosing {
		return
	}
	c.state = connClosing
	c.wantClose = true
	c.held = nil
	c.closeAt = s.closeBy(c)
	s.timers.lower(i, c.closeAt)
	s.touch(i, c)
}

// closeBy is when a connection that is being closed is given up: what was sent is
// flushed for as long as it moves, but by a broker that stops.
func (s *Sessions) closeBy(c *conn) clock.Instant {
	at := s.now.Add(closeTimeout)
	if c.queued > 0 && !s.stopping {
		at = max(at, c.lastMove.Add(slowOutputTimeout))
	}
	return at
}

// touch makes EndTurn look at the connection.
func (s *Sessions) touch(i uint32, c *conn) {
	if !c.dirty {
		c.dirty = true
		s.dirty = append(s.dirty, i)
	}
}

// wakeAt is the next instant at which the connection needs a look.
func (c *conn) wakeAt() clock.Instant {
	at := clock.Never
	switch c.state {
	case connGreeted:
		return c.opened.Add(authTimeout)
	case connFailing, connClosing:
		return c.closeAt
	case connOpen:
		if c.hold == 0 {
			at = c.lastFrame.Add(keepaliveTimeout)
			if c.reader.Partial() > 0 {
				at = min(at, c.lastByte.Add(halfFrameTimeout))
			}
		}
	case connFree, connEnding:
	}
	if c.queued > 0 {
		at = min(at, c.lastMove.Add(slowOutputTimeout))
	}
	if c.pulls != nil {
		at = min(at, c.pulls.wakeAt())
	}
	if c.state == connOpen && len(c.ring.slots) > 0 && c.ring.len() == 0 {
		at = min(at, c.lastFrame.Add(idleTrim))
	}
	return at
}

// onTimer does what is due on the connection.
func (s *Sessions) onTimer(i uint32, c *conn) {
	now := s.now
	switch {
	case c.state == connFree:
		return
	case c.state == connClosing && now >= c.closeAt:
		c.wantAbort = true
		c.closeAt = clock.Never
		s.touch(i, c)
	case c.state == connGreeted && now >= c.opened.Add(authTimeout):
		s.fail(i, c, wire.CodeAuthTimeout, wire.OpNone, "no successful CONNECT within 10 s: send CONNECT first")
	case c.state == connFailing && now >= c.closeAt:
		s.failConnect(i, c)
	case c.state == connEnding && c.queued > 0 && now >= c.lastMove.Add(slowOutputTimeout):
		s.shut(i, c)
	case c.state == connOpen && c.queued > 0 && now >= c.lastMove.Add(slowOutputTimeout):
		s.fail(i, c, wire.CodeSlowConsumer, wire.OpNone, "nothing was read for 30 s: read faster, reconnect")
	case c.state == connOpen && c.hold == 0 && s.silent(c):
		s.shut(i, c)
	case c.state == connOpen:
		if c.pulls != nil {
			s.pullTimer(i, c)
		}
		if c.ring.len() == 0 && now >= c.lastFrame.Add(idleTrim) {
			c.ring.trim()
			c.trimPulls()
		}
	}
	s.timers.lower(i, c.wakeAt())
}

// silent says whether the keepalive or the half-frame timeout has run out.
func (s *Sessions) silent(c *conn) bool {
	return s.now >= c.lastFrame.Add(keepaliveTimeout) ||
		c.reader.Partial() > 0 && s.now >= c.lastByte.Add(halfFrameTimeout)
}

// progress takes note of output that moved, or began to wait. The same number again
// means that the peer took some of what was written before (net, invariant 7).
func (s *Sessions) progress(i uint32, c *conn, queued int) {
	moved := queued <= c.queued || c.queued == 0
	c.queued = queued
	if moved {
		c.lastMove = s.now
	}
	if moved && c.state == connClosing && c.closeAt != clock.Never {
		c.closeAt = s.closeBy(c)
		s.timers.lower(i, c.closeAt)
	}
	if queued > 0 {
		s.timers.lower(i, c.lastMove.Add(slowOutputTimeout))
	}
	switch {
	case queued > queuedBytesMax:
		s.holdBack(i, c, holdOutput)
	case queued <= queuedBytesMax/2 && c.hold&holdOutput != 0:
		s.unhold(i, c, holdOutput)
		s.wakePull(i, c)
	}
}

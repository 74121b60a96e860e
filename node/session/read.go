package session

import (
	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/wire"
)

// receive takes bytes of a connection.
func (s *Sessions) receive(i uint32, c *conn, data []byte) {
	if len(data) == 0 || c.state > connOpen || c.state == connFailing || c.hold&holdStop != 0 {
		return // what comes behind the end is thrown away
	}
	c.lastByte = s.now
	if c.hold != 0 || len(c.held) > 0 {
		c.held = append(c.held, data...)
		if len(c.held) > heldBytesMax && !c.paused {
			s.touch(i, c)
		}
		return
	}
	c.reader.Feed(data)
	s.readFrames(i, c)
	if rest := c.reader.Unread(); len(rest) > 0 && c.state == connOpen {
		c.held = append(c.held, rest...)
	}
	// The deadline in the heap may be later than that of a half frame.
	if c.reader.Partial() > 0 {
		s.timers.lower(i, c.wakeAt())
	}
}

// readFrames takes frames until there are no more, or they must wait.
func (s *Sessions) readFrames(i uint32, c *conn) {
	for c.hold == 0 && (c.state == connOpen || c.state == connGreeted) {
		f, ok, err := c.reader.Next()
		if err != nil {
			s.fail(i, c, wire.CodeOf(err), wire.OpNone, messageOf(err))
			return
		}
		if !ok {
			return
		}
		c.lastFrame = s.now
		s.handle(i, c, f)
	}
}

// resumeAll goes on with the frames of connections that were held back.
func (s *Sessions) resumeAll() {
	for len(s.resume) > 0 {
		i := s.resume[len(s.resume)-1]
		s.resume = s.resume[:len(s.resume)-1]
		c := s.conns.at(i)
		if !c.resuming {
			continue
		}
		c.resuming = false
		if c.hold != 0 || c.state != connOpen {
			continue
		}
		c.lastFrame, c.lastByte = s.now, s.now // the clocks stood still meanwhile
		held := c.held
		c.held = nil
		if len(held) > 0 {
			c.reader.Feed(held)
			s.readFrames(i, c)
			if rest := c.reader.Unread(); len(rest) > 0 && c.state == connOpen {
				c.held = rest
			}
		}
		s.timers.lower(i, c.wakeAt())
		s.touch(i, c)
	}
}

// holdBack keeps the frames behind the one at hand for later.
func (s *Sessions) holdBack(i uint32, c *conn, reason uint8) {
	c.hold |= reason
	s.touch(i, c)
}

// unhold ends one reason to hold frames back.
func (s *Sessions) unhold(i uint32, c *conn, reason uint8) {
	c.hold &^= reason
	if c.hold == 0 && !c.resuming && c.state == connOpen {
		c.resuming = true
		s.resume = append(s.resume, i)
	}
}

// handle carries out one frame.
func (s *Sessions) handle(i uint32, c *conn, f wire.Frame) {
	switch f.Op {
	case wire.OpErr, wire.OpOK:
		return // taken and ignored
	case wire.OpConnect:
		s.connect(i, c, f)
		return
	case wire.OpPing:
		n, _ := s.push(i, c, f)
		var ping wire.Ping
		if err := ping.Decode(f.Payload); err != nil {
			s.refuseBad(i, c, n, err)
			return
		}
		s.behindPulls(i, c, n)
		s.ok(i, c, n)
		return
	default:
	}
	if c.state != connOpen {
		s.fail(i, c, wire.CodeNotAuthenticated, f.Op, "send CONNECT first")
		return
	}
	n, _ := s.push(i, c, f)
	if f.Op != wire.OpPull {
		s.behindPulls(i, c, n)
	}
	if !s.leading {
		s.refuseNotLeading(i, c, n, f)
		return
	}
	switch f.Op {
	case wire.OpPub:
		s.publish(i, c, n, f.Payload)
	case wire.OpAck:
		s.ack(i, c, n, f.Payload)
	case wire.OpNack:
		s.nack(i, c, n, f.Payload)
	case wire.OpPull:
		s.pull(i, c, n, f.Payload)
	case wire.OpCredit:
		s.credit(i, c, n, f.Payload)
	case wire.OpHeartbeat:
		s.heartbeat(i, c, n, f.Payload)
	case wire.OpControlAck:
		s.controlAck(i, c, n, f.Payload)
	case wire.OpDeclare:
		s.declare(i, c, n, f.Payload)
	case wire.OpSub:
		s.subscribe(i, c, n, f.Payload)
	default:
		panic("session: a frame op that the reader lets through has no handler")
	}
}

// push gives the frame's request a place in the ring. Reading stops where the
// limits of unanswered requests are reached.
func (s *Sessions) push(i uint32, c *conn, f wire.Frame) (uint64, *request) {
	n, r := c.ring.push()
	*r = request{op: f.Op, size: uint32(f.Size())}
	c.size += f.Size()
	if (c.ring.len() >= wire.MaxUnansweredRequests || c.size >= wire.MaxUnansweredBytes) && !fault.On("unanswered_without_bound") {
		s.holdBack(i, c, holdLimit)
	}
	return n, r
}

// refuseNotLeading answers what only a leader can do (wire-protocol.md, "A
// follower").
func (s *Sessions) refuseNotLeading(i uint32, c *conn, n uint64, f wire.Frame) {
	if f.Op == wire.OpPub && c.depositions != s.depositions {
		var p wire.Pub
		if err := p.Decode(f.Payload); err != nil {
			s.refuseBad(i, c, n, err)
			return
		}
		if p.ProducerID != 0 {
			s.refuse(i, c, n, wire.CodeProducerEpochStale, "this node was deposed: find the leader again")
			return
		}
	}
	s.refuse(i, c, n, wire.CodeStaleLeaderEpoch, s.staleText)
}

func messageOf(err error) string {
	if d, ok := err.(*wire.DecodeError); ok {
		return d.Message
	}
	return ""
}

package core

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/wire"
)

type phase uint8

const (
	phaseWaiting    phase = iota // for its backoff, then dials
	phaseDialing                 // until Opened
	phaseConnecting              // CONNECT is sent
	phaseOpen                    // to a node that leads, as far as is known
	phaseDraining                // to one that does not: answers are read, nothing is sent
	phaseFailed                  // refused for good
	phaseClosed
)

// connection is the one that a Core has, or the time until the next. Its ConnID is 0 while there is none.
type connection struct {
	phase  phase
	id     net.ConnID
	next   net.ConnID
	reader wire.FrameReader

	addr      string // where it goes
	hint      string // where the leader is said to be: the next target
	addrNext  int    // index into Options.Addrs, for when there is no hint
	redirects int    // hints followed since the last pause
	failures  int    // attempts since something was answered
	leaderErr int    // answers in a row that ask to find the leader

	due        clock.Instant // of the phase: dial, give up, hang up
	sent       uint64        // requests, over all connections
	lastOther  uint64        // the last of them that was no PULL
	lastSent   clock.Instant
	quietSince clock.Instant // of the peer, while something is unanswered
	lastErr    Err           // what an ERR without request said
}

func (c *Core) onNet(ev *net.Event) {
	if ev.Conn != c.conn.id || c.conn.id == 0 {
		return // of a connection that was given up
	}
	switch ev.Kind {
	case net.EventOpened:
		if c.conn.phase == phaseDialing {
			c.connect()
		}
	case net.EventBytes:
		c.onBytes(ev.Data)
	case net.EventClosed:
		c.conn.id = 0
		err := c.conn.lastErr
		if !err.Failed() {
			err = Err{Reason: ReasonDisconnected, Message: causeText(ev.Cause)}
		}
		c.lost(err)
	}
}

func causeText(c net.Cause) string {
	switch c {
	case net.CauseEOF:
		return "the broker closed the connection"
	case net.CauseReset:
		return "the connection broke"
	case net.CauseRefused:
		return "nobody answers there"
	}
	return "the connection was closed"
}

func (c *Core) dial() {
	k := &c.conn
	if k.hint != "" {
		k.addr, k.hint = k.hint, ""
	} else {
		k.addr = c.opt.Addrs[k.addrNext%len(c.opt.Addrs)]
		k.addrNext = (k.addrNext + 1) % len(c.opt.Addrs)
	}
	k.id = k.next
	k.next++
	k.phase, k.due = phaseDialing, c.now.Add(c.opt.ConnectTimeout)
	k.reader, k.lastErr, k.leaderErr = wire.FrameReader{}, Err{}, 0
	c.out.Requests = append(c.out.Requests, net.Request{Kind: net.RequestDial, Conn: k.id, Addr: k.addr})
}

func (c *Core) connect() {
	c.conn.phase = phaseConnecting
	m := wire.Connect{ProtocolVersion: wire.Version, ClientFlags: wire.FlagConnectLeaderHint, Token: c.opt.Token}
	c.wbuf = m.Append(c.wbuf)
	c.request(request{op: wire.OpConnect})
}

// connected takes CONNECT's OK: stay, or go where the leader is.
func (c *Core) connected(res *wire.ConnectResult) {
	k := &c.conn
	if res.HasHint && res.LeaderID != res.NodeID {
		if hint := string(res.Addr); hint != "" && hint != k.addr {
			c.redirect(hint)
			return
		}
		c.hangUp()
		c.lost(Err{Reason: ReasonDisconnected, Op: wire.OpConnect, Message: "the broker does not know who leads"})
		return
	}
	k.phase, k.redirects = phaseOpen, 0
	c.event(Event{Kind: EventConnected, Text: k.addr})
}

// redirect leaves for another address, at once unless hints lead in circles.
func (c *Core) redirect(addr string) {
	k := &c.conn
	k.hint = addr
	k.redirects++
	c.hangUp()
	c.lost(Err{Reason: ReasonDisconnected, Message: "the leader is at " + addr})
	if k.redirects <= redirectsMax {
		k.due = c.now
	}
}

// hangUp gives the connection up in good order; what comes of it later is not looked at.
func (c *Core) hangUp() {
	if c.conn.id != 0 {
		c.flush()
		c.out.Requests = append(c.out.Requests, net.Request{Kind: net.RequestClose, Conn: c.conn.id})
		c.conn.id = 0
	}
}

// abort gives it up because nothing good can come of it.
func (c *Core) abort(message string) {
	if c.conn.id != 0 {
		c.wbuf = c.wbuf[:c.wstart] // nobody reads it
		c.out.Requests = append(c.out.Requests, net.Request{Kind: net.RequestAbort, Conn: c.conn.id})
		c.conn.id = 0
	}
	c.lost(Err{Reason: ReasonDisconnected, Message: message})
}

// lost is the end of a connection, whoever ended it: what was unanswered is told so, in order, and the next attempt is set.
func (c *Core) lost(err Err) {
	k := &c.conn
	if k.phase == phaseFailed || k.phase == phaseClosed {
		return
	}
	c.event(Event{Kind: EventDisconnected, Text: k.addr, Err: err})
	k.phase = phaseWaiting
	k.failures++
	k.due = c.now
	if k.hint == "" && k.failures%len(c.opt.Addrs) == 0 || k.redirects > redirectsMax {
		k.due = c.now.Add(c.backoff(k.failures / len(c.opt.Addrs)))
		k.redirects = 0
	}
	for c.fifo.len() > 0 {
		c.unanswered(c.fifo.pop())
	}
	for i := 0; i < len(c.consumers); {
		s := c.consumers[i]
		c.memberLost(s)
		if i < len(c.consumers) && c.consumers[i] == s {
			i++ // else it was stopping, and this was its end
		}
	}
}

// unanswered is the fate of a request whose connection ended.
func (c *Core) unanswered(r request) {
	switch r.op {
	case wire.OpPub:
		c.pubLost(r.slot)
	case wire.OpDeclare:
		c.callLost(r.call)
	case wire.OpAck, wire.OpNack, wire.OpControlAck:
		c.replyLost(r.slot)
	}
}

func (c *Core) connTimers() {
	k := &c.conn
	switch k.phase {
	case phaseWaiting:
		if c.now >= k.due {
			c.dial()
		}
	case phaseDialing, phaseConnecting:
		if c.now >= k.due {
			c.abort("no answer to CONNECT in time")
		}
	case phaseDraining:
		if c.now >= k.due || c.fifo.len() == 0 {
			c.hangUp()
			c.lost(Err{Reason: ReasonDisconnected, Message: "looking for the leader"})
		}
	case phaseOpen:
		if c.fifo.len() > 0 && c.now >= k.quietSince.Add(c.opt.ResponseTimeout) {
			c.abort("the broker has stopped answering")
		}
	}
}

func (c *Core) connDeadline() clock.Instant {
	k := &c.conn
	switch k.phase {
	case phaseWaiting, phaseDialing, phaseConnecting, phaseDraining:
		return k.due
	case phaseOpen:
		d := k.lastSent.Add(c.opt.Keepalive)
		if c.fifo.len() > 0 {
			d = min(d, k.quietSince.Add(c.opt.ResponseTimeout))
		}
		return d
	}
	return clock.Never
}

func (c *Core) sendPing() {
	if c.now >= c.conn.lastSent.Add(c.opt.Keepalive) && c.fifo.len() < requestsMax {
		c.wbuf = (&wire.Ping{}).Append(c.wbuf)
		c.request(request{op: wire.OpPing})
	}
}

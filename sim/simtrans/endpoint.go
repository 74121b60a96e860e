package simtrans

import (
	"slices"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/sim/prng"
	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// endpoint is a process that speaks msgtrans: the pure halves, and what package
// net/msgtrans does with goroutines done in turns. It takes events and gives requests
// to the network.
type endpoint struct {
	name    string
	judge   *judge
	knobs   *knobs
	parts   Parts
	chance  *prng.Rand
	honest  bool // answers everything at once, once
	leaving bool // dials nobody any more and has nothing to say
	codec   *wire.Codec
	limits  wire.Limits
	lines   []*line
	conns   []*conn
	spare   []Table // of accepted connections that have ended
	kept    []owed  // with Parts.KeepOwed
	nextID  net.ConnID
	now     clock.Instant
	submit  []net.Request
	scratch []byte
}

func newEndpoint(name string, j *judge, k *knobs, parts Parts, chance *prng.Rand) *endpoint {
	return &endpoint{
		name: name, judge: j, knobs: k, parts: parts, chance: chance, codec: wire.NewCodec(payloadBytes),
		limits: wire.Limits{PacketBytes: packetBytes, PayloadBytes: payloadBytes}, nextID: 1,
	}
}

// turn acts on what has happened and on what is due. all says that events are all that
// the network has to say.
func (e *endpoint) turn(now clock.Instant, events []net.Event, all bool) {
	e.now = now
	for _, c := range e.conns {
		if all {
			c.unsaid = 0
		}
	}
	for i := range events {
		e.event(&events[i])
	}
	for _, c := range slices.Clone(e.conns) {
		e.due(c)
	}
	for _, l := range e.lines {
		if l.conn == nil && l.redialAt <= now && !e.leaving {
			e.dial(l)
		}
	}
	e.flush()
}

// dueAt is the earliest instant at which the endpoint wants a turn.
func (e *endpoint) dueAt() clock.Instant {
	at := clock.Never
	for _, l := range e.lines {
		if l.conn == nil && !e.leaving {
			at = min(at, l.redialAt)
		}
	}
	for _, c := range e.conns {
		at = min(at, c.dueAt())
	}
	return at
}

func (e *endpoint) find(id net.ConnID) *conn {
	i := slices.IndexFunc(e.conns, func(c *conn) bool { return c.id == id })
	if i < 0 {
		return nil
	}
	return e.conns[i]
}

func (e *endpoint) event(ev *net.Event) {
	c := e.find(ev.Conn)
	switch ev.Kind {
	case net.EventOpened:
		if c == nil {
			c = &conn{id: ev.Conn, plane: ev.Plane}
			e.conns = append(e.conns, c)
		}
		e.opened(c)
	case net.EventBytes:
		if c != nil && !c.ended {
			e.arrived(c, ev.Data)
		}
	case net.EventProgress:
		if c != nil {
			c.queued = ev.Queued
		}
	case net.EventClosed:
		if c != nil {
			e.gone(c, ev.Cause)
		}
	}
}

func (e *endpoint) dial(l *line) {
	l.conn = &conn{id: e.nextID, line: l}
	e.nextID++
	e.conns = append(e.conns, l.conn)
	e.submit = append(e.submit, net.Request{Kind: net.RequestDial, Conn: l.conn.id, Addr: l.addr})
}

func (e *endpoint) opened(c *conn) {
	c.sworn = e.judge.opened(e.name)
	c.cutter = e.parts.Cutter(c.framing(), e.limits)
	switch n := len(e.spare); {
	case c.line != nil:
		if c.line.table == nil {
			c.line.table = e.parts.Table(e.knobs.pendingMax)
		} else {
			e.judge.mark("a connection after another")
		}
		c.table = c.line.table
	case n > 0:
		c.table, e.spare = e.spare[n-1], e.spare[:n-1]
	default:
		c.table = e.parts.Table(e.knobs.pendingMax)
	}
	c.ignored = c.table.Unmatched()
	c.heardAt, c.beatAt = e.now, e.now.Add(heartbeat)
	c.owed, e.kept = e.kept, nil
}

// end makes the connection one that is closed here: by RequestClose what was sent
// still goes out, by RequestAbort it does not. Everything pending is rejected.
func (e *endpoint) end(c *conn, how net.RequestKind) {
	if c.ended {
		return
	}
	e.flushOne(c)
	e.submit = append(e.submit, net.Request{Kind: how, Conn: c.id})
	if c.sworn == nil {
		return
	}
	c.sworn.orderly = how == net.RequestClose
	e.reject(c, false)
}

// reject ends everything that hangs on a connection which has ended.
func (e *endpoint) reject(c *conn, whole bool) {
	if c.ended || c.sworn == nil {
		return
	}
	c.ended = true
	if c.table.Unmatched()-c.ignored != c.sworn.unmatched {
		e.judge.fail("pairing", "conn %d: %d answers were dropped, %d counted", c.sworn.serial, c.sworn.unmatched, c.table.Unmatched()-c.ignored)
	}
	for _, r := range c.table.Reset(nil) {
		e.judge.ended(c.sworn, r.Value, r.ID, rejected)
	}
	if e.parts.KeepOwed {
		e.kept = c.owed
	}
	c.owed = nil
	e.judge.closed(c.sworn, whole)
}

// gone takes leave of a connection that is no more.
func (e *endpoint) gone(c *conn, cause net.Cause) {
	if c.sworn != nil && !c.ended {
		if c.cutter.Buffered() > 0 {
			e.judge.mark("a peer died in mid-packet")
		}
		// Requests that are accepted and not answered die with the connection.
		e.reject(c, cause == net.CauseEOF)
	}
	e.conns = slices.DeleteFunc(e.conns, func(o *conn) bool { return o == c })
	switch {
	case c.line != nil:
		c.line.conn = nil
		c.line.redialAt = e.now.Add(clock.Duration(e.chance.Range(int64(10*clock.Millisecond), int64(backoffMax))))
	case c.table != nil:
		e.spare = append(e.spare, c.table)
	}
}

// due does what the time has come for.
func (e *endpoint) due(c *conn) {
	if c.sworn == nil || c.ended {
		return
	}
	for _, r := range c.table.Expire(wire.Instant(e.now), nil) {
		e.judge.ended(c.sworn, r.Value, r.ID, timedOut)
	}
	if at, ok := c.table.Deadline(); ok && clock.Instant(at) <= e.now {
		e.judge.fail("time", "conn %d: a request is pending after its deadline", c.sworn.serial)
	}
	if e.now.Sub(c.heardAt) >= idleMax {
		e.judge.mark("a silent peer was given up")
		e.end(c, net.RequestAbort)
		return
	}
	if c.beatAt <= e.now {
		c.beatAt = e.now.Add(heartbeat)
		if c.room() && !e.leaving {
			e.message(c)
		}
	}
	for c.room() {
		o, ok := c.takeOwed(e.now)
		if !ok {
			break
		}
		e.answer(c, o)
	}
	if c.paused && len(c.owed) < e.knobs.owedMax {
		c.paused = false
		e.submit = append(e.submit, net.Request{Kind: net.RequestResumeRead, Conn: c.id})
	}
}

// flush submits what the turn has made.
func (e *endpoint) flush() {
	for _, c := range e.conns {
		e.flushOne(c)
	}
}

// flushOne sends what was made for c, in pieces cut anywhere.
func (e *endpoint) flushOne(c *conn) {
	if n := c.queued + c.unsaid + len(c.out); n > sendBytesMax+packetsAtOnce*packetBytes {
		e.judge.fail("memory", "conn %d: %d bytes are queued", c.sworn.serial, n)
	}
	for len(c.out) > 0 {
		n := len(c.out)
		if e.chance.Bool(150) {
			n = 1 + e.chance.Intn(n)
		}
		e.submit = append(e.submit, net.Request{Kind: net.RequestSend, Conn: c.id, Data: c.out[:n:n]})
		c.unsaid += n
		c.out = c.out[n:]
	}
	c.out = nil
}

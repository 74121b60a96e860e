package core

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/wire"
)

// Core is one client: one connection at a time, any number of producers and consumers on it. It is driven by Turn, from one
// goroutine at a time.
type Core struct {
	opt Options
	rng rng
	now clock.Instant
	out *Effects

	conn    connection
	fifo    fifo
	calls   []*call // declares and look-ups under way, in order of their first sending
	started bool
	closed  bool
	fatal   Err // why the broker refuses this client for good

	producers []*producer // in order of creation
	items     items
	ready     laneQueue // lanes that may have something to send
	resting   []*lane   // lanes that wait for their backoff
	pubs      int       // unanswered publishes and their bytes (C6)
	pubBytes  int

	consumers []*consumer // in order of creation
	replies   replies
	touched   []touched // partitions that may have something to hand out
	pullTurn  int       // which consumer's turn to PULL it is
	epochs    []byte    // of the PULL that is being written

	wbuf   []byte // frames of this turn, and
	wstart int    // where what has no Request yet begins
	chunk  []byte // where MSGs are copied to
}

// New gives a Core that has not begun. It panics where opt.Validate has an objection.
func New(opt Options) *Core {
	if err := opt.Validate(); err != nil {
		panic("client/core: " + err.Error())
	}
	c := &Core{opt: opt.withDefaults(), rng: rng(opt.Seed)}
	c.conn.next = c.opt.FirstConn
	c.items.init()
	c.replies.init()
	return c
}

// Turn takes what has happened up to now, in order, and fills out with what is to be done. now must not fall from turn to
// turn. The first turn opens the first connection.
func (c *Core) Turn(now clock.Instant, in []Input, out *Effects) {
	assert(now >= c.now, "time fell between two turns")
	c.begin(now, out)
	for i := range in {
		c.take(&in[i])
	}
	if !c.closed {
		c.timers()
		c.send()
	}
	c.handOutTouched()
	c.flush()
	out.Deadline = c.deadline()
	c.out = nil
}

func (c *Core) begin(now clock.Instant, out *Effects) {
	c.now, c.out = now, out
	out.reset()
	if cap(c.wbuf) > wbufKeepMax && len(c.wbuf) < cap(c.wbuf)/4 {
		c.wbuf = nil // the last turn had no use for so much
	}
	c.wbuf, c.wstart = c.wbuf[:0], 0
	if !c.started {
		c.started = true
		c.conn.phase, c.conn.due = phaseWaiting, now
	}
}

// wbufKeepMax is the largest write buffer that is kept unused.
const wbufKeepMax = 256 << 10

func (c *Core) take(in *Input) {
	if c.closed {
		c.takeClosed(in)
		return
	}
	switch in.Kind {
	case InputNet:
		c.onNet(&in.Net)
	case InputDeclare, InputDelete:
		c.declare(in)
	case InputCancelDeclare:
		c.cancelCall(in.Ref)
	case InputProducer:
		c.newProducer(in)
	case InputPublish:
		c.publish(in)
	case InputCancel:
		c.cancel(in)
	case InputCloseProducer:
		c.closeProducer(in)
	case InputClose:
		c.close()
	default:
		c.takeConsumer(in)
	}
}

// takeClosed answers what is asked of a core that has ended: nobody waits for ever.
func (c *Core) takeClosed(in *Input) {
	err := Err{Reason: ReasonClosed}
	switch in.Kind {
	case InputDeclare, InputDelete:
		c.event(Event{Kind: EventDeclared, Ref: in.Ref, Err: err})
	case InputProducer:
		c.event(Event{Kind: EventProducerFailed, Handle: in.Handle, Err: err})
	case InputPublish:
		c.out.Published = append(c.out.Published, Published{Ref: in.Ref, Producer: in.Handle, Partition: in.Partition, Err: err})
	case InputConsumer:
		c.event(Event{Kind: EventConsumerFailed, Handle: in.Handle, Err: err})
	case InputStopConsumer:
		c.event(Event{Kind: EventStopped, Handle: in.Handle})
	}
}

func (c *Core) event(e Event) { c.out.Events = append(c.out.Events, e) }

// send puts on the wire what may go: changes of state first, then settlements and credit, then publishes, and PULLs last,
// since every other request behind a waiting PULL ends its wait.
func (c *Core) send() {
	if c.conn.phase != phaseOpen {
		return
	}
	c.sendCalls()
	c.sendMembers()
	c.sendReplies()
	c.sendCredits()
	c.sendPubs()
	c.sendPulls()
	c.sendHeartbeats()
	c.sendPing()
}

// request notes that a frame just appended to wbuf waits for an answer.
func (c *Core) request(r request) {
	c.conn.sent++
	r.n, r.sentAt = c.conn.sent, c.now
	if r.op != wire.OpPull {
		c.conn.lastOther = r.n
	}
	if c.fifo.len() == 0 {
		c.conn.quietSince = c.now
	}
	c.conn.lastSent = c.now
	c.fifo.push(r)
}

// flush turns what wbuf holds into a Send.
func (c *Core) flush() {
	if c.wstart < len(c.wbuf) {
		data := c.wbuf[c.wstart:len(c.wbuf):len(c.wbuf)]
		c.out.Requests = append(c.out.Requests, net.Request{Kind: net.RequestSend, Conn: c.conn.id, Data: data})
		c.wstart = len(c.wbuf)
	}
}

// sendLarge sends a value behind what wbuf holds, without copying it.
func (c *Core) sendLarge(value []byte) {
	c.flush()
	c.out.Requests = append(c.out.Requests, net.Request{Kind: net.RequestSend, Conn: c.conn.id, Data: value})
}

// timers lets everything happen whose time has come.
func (c *Core) timers() {
	c.connTimers()
	c.wakeLanes()
	c.consumerTimers()
}

func (c *Core) deadline() clock.Instant {
	if c.closed {
		return clock.Never
	}
	d := c.connDeadline()
	for _, l := range c.resting {
		d = min(d, l.resumeAt)
	}
	if c.conn.phase == phaseOpen && c.fifo.len() < requestsMax { // else an answer comes first
		for _, k := range c.calls {
			if !k.inFlight {
				d = min(d, k.due)
			}
		}
		for _, s := range c.consumers {
			d = min(d, c.consumerDeadline(s))
		}
	}
	return d
}

// close ends everything (C1, C10).
func (c *Core) close() {
	if c.conn.id != 0 {
		c.flush()
		c.out.Requests = append(c.out.Requests, net.Request{Kind: net.RequestClose, Conn: c.conn.id})
	}
	c.endAll(Err{Reason: ReasonClosed})
	c.conn = connection{phase: phaseClosed}
	c.closed = true
	c.event(Event{Kind: EventClosed})
}

// fail ends what is under way because the broker refuses this client for good.
func (c *Core) fail(err Err) {
	c.fatal = err
	c.hangUp()
	c.conn.phase = phaseFailed
	c.event(Event{Kind: EventFailed, Err: err})
	c.endAll(err)
}

// endAll gives everything that waits its outcome.
func (c *Core) endAll(err Err) {
	calls := c.calls
	c.calls = nil
	for _, k := range calls {
		e := err
		e.Unknown = k.uncertain || k.inFlight
		c.callDone(k, wire.DeclareResult{}, e)
	}
	for _, p := range c.producers {
		c.endProducer(p, err)
	}
	c.producers = c.producers[:0]
	for _, s := range c.consumers {
		c.endConsumer(s, err)
	}
	c.consumers = c.consumers[:0]
	c.fifo.clear()
	c.ready, c.resting = laneQueue{}, nil
	c.pubs, c.pubBytes = 0, 0
}

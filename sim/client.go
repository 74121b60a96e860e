package sim

import (
	"fmt"

	"github.com/mortarmq/mortarmq/checker"
	"github.com/mortarmq/mortarmq/client/core"
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/sim/prng"
	"github.com/mortarmq/mortarmq/sim/simnet"
	"github.com/mortarmq/mortarmq/wire"
)

// client is a process that uses the real client core: a producer or a consumer.
type client struct {
	w    *world
	id   int
	rand *prng.Rand
	net  *simnet.Host
	kind int64
	spec Event

	core     *core.Core
	life     uint64
	in       []core.Input
	out      core.Effects
	events   []net.Event
	deadline clock.Instant
	turnAt   clock.Instant
	deafTill clock.Instant
	leaving  bool
	away     clock.Duration // comes back so long after it has left, 0: it does not leave
	joined   bool
	ready    bool

	producer producerSide
	consumer consumerSide
	tap      tap
}

// handle is what the one producer or consumer of a core is called.
const handle core.Handle = 1

// newClient makes the process that a client event asks for.
//
//	kind=producer topic= plain=0|1
//	kind=consumer topic= group= think= retry= reject= release= ignore= (permille)
//	              handout= strict=0|1 latest=0|1 twin=0|1
func newClient(w *world, id int, e *Event) *client {
	c := &client{w: w, id: id, rand: prng.New(e.Seed), kind: e.Int("kind", 0), spec: *e, deadline: clock.Never, turnAt: clock.Never}
	c.net = w.net.Host(fmt.Sprintf("client%d", id))
	c.start()
	return c
}

func (c *client) place() *simnet.Host { return c.net }

// start begins a life of the process.
func (c *client) start() {
	if c.leaving || c.core != nil {
		return
	}
	c.life++
	c.ready, c.joined, c.away = false, false, 0
	o := core.Options{Addrs: []string{nodeAddr}, Seed: prng.Mix(c.spec.Seed, c.life), FirstConn: net.ConnID(c.life << 32)}
	if c.w.plan.Knob("tokens") != 0 {
		o.Token = []byte(token)
	}
	c.core = core.New(o)
	c.net.Restart()
	c.w.note("client start", uint64(c.id), c.life)
	c.deadline = c.w.now
	c.open()
}

// open asks for the producer or consumer, once the topics are there.
func (c *client) open() {
	if c.core == nil {
		return
	}
	if !c.w.ready {
		core := c.core
		c.w.after(10*clock.Millisecond, func() {
			if c.core == core {
				c.open()
			}
		})
		return
	}
	t := c.w.plan.Topics[c.spec.Int("topic", 0)].Name
	if c.kind == clientProducer {
		c.input(core.Input{Kind: core.InputProducer, Handle: handle, Topic: t, Producer: &core.ProducerOptions{Plain: c.spec.Int("plain", 0) != 0, MustExist: true}})
		return
	}
	if c.spec.Int("twin", 0) != 0 {
		t += ".dlq"
	}
	p := c.w.plan
	c.input(core.Input{Kind: core.InputConsumer, Handle: handle, Topic: t, Group: c.group(), Consumer: &core.ConsumerOptions{
		MustExist: true, Latest: c.spec.Int("latest", 0) != 0,
		CreditCount: uint16(p.Knob("credit_count")), CreditBytes: uint32(p.Knob("credit_bytes")),
		HandOut: int(c.spec.Int("handout", 1)), StrictOrder: c.spec.Int("strict", 0) != 0,
		Lease: p.Span("lease"), MaxAttempts: int(p.Knob("attempts")), RetryBackoffMax: p.Span("backoff_max"),
	}})
}

func (c *client) group() string {
	if c.kind == clientProducer {
		return ""
	}
	return groupName(&c.spec)
}

// input queues something for the next turn.
func (c *client) input(in core.Input) {
	c.in = append(c.in, in)
	c.want()
}

func (c *client) want() {
	if c.turnAt == clock.Never {
		c.turnAt = c.w.now.Add(clock.Duration(c.rand.Range(0, int64(20*clock.Microsecond))))
	}
}

func (c *client) due() clock.Instant {
	if c.core == nil {
		return clock.Never
	}
	at := min(c.deadline, c.turnAt)
	if c.net.Pending() {
		at = min(at, c.w.now)
	}
	return max(at, c.deafTill)
}

// turn gives the core one.
func (c *client) turn() {
	c.turnAt = clock.Never
	c.events = c.net.Poll(c.events[:0], 64<<10)
	for i := range c.events {
		c.tap.take(c, &c.events[i])
		c.in = append(c.in, core.Input{Kind: core.InputNet, Net: c.events[i]})
	}
	if !c.guarded(func() { c.core.Turn(c.w.now, c.in, &c.out) }) {
		return
	}
	clear(c.in)
	c.in = c.in[:0]
	c.deadline = c.out.Deadline
	for i := range c.out.Requests {
		r := &c.out.Requests[i]
		c.w.note("client "+netKind(r.Kind), uint64(c.id), uint64(r.Conn), sum(r.Data))
		if r.Kind == net.RequestSend && r.Conn == c.tap.conn {
			c.tap.credit.sent(r)
		}
	}
	c.net.Submit(c.out.Requests)
	for i := range c.out.Published {
		c.producer.outcome(c, &c.out.Published[i])
	}
	for i := range c.out.Deliveries {
		c.consumer.delivery(c, &c.out.Deliveries[i])
	}
	for i := range c.out.Settled {
		c.consumer.settled(c, &c.out.Settled[i])
	}
	for i := range c.out.Events {
		c.event(&c.out.Events[i])
	}
	if c.kind == clientProducer && c.core != nil {
		c.producer.pump(c)
	}
}

func (c *client) guarded(f func()) (ok bool) {
	if c.w.options.Panics {
		f()
		return true
	}
	defer func() {
		if r := recover(); r != nil {
			c.w.finding(PropertyPanic, "client %d panicked: %v", c.id, r)
			ok = false
		}
	}()
	f()
	return true
}

func (c *client) event(e *core.Event) {
	c.w.tell("client %d: event %d %s%s", c.id, e.Kind, e.Text, e.Err.Message)
	switch e.Kind {
	case core.EventProducerReady:
		c.ready = true
	case core.EventJoined:
		c.joined = true
	case core.EventProducerFailed, core.EventConsumerFailed:
		if c.core != nil && !c.leaving {
			c.w.after(100*clock.Millisecond, func() { c.crash(50 * clock.Millisecond) })
		}
	case core.EventFailed:
		c.w.finding(PropertyProtocol, "client %d was refused for good: %s", c.id, e.Err.Message)
	case core.EventDisconnected:
		if e.Err.Reason == core.ReasonDisconnected && isProtocol(e.Err.Message) {
			c.w.finding(PropertyProtocol, "client %d: %s", c.id, e.Err.Message)
		}
	case core.EventRevoked:
		c.w.marks.Mark("sim.revoked")
	case core.EventStopped:
		c.input(core.Input{Kind: core.InputClose})
	case core.EventClosed:
		c.core = nil
		c.deadline = clock.Never
		if c.away > 0 && !c.leaving {
			c.w.after(c.away, c.start)
		}
	}
}

// isProtocol says whether a core gave its connection up because of what it was
// sent.
func isProtocol(message string) bool {
	return len(message) > 15 && (message[:15] == "the broker sent")
}

func (c *client) carryOut(e *Event) {
	if e.Kind == "publish" && c.kind == clientProducer {
		c.producer.ask(c, e)
	}
}

// crash ends the process: nobody hears of what it had under way.
func (c *client) crash(after clock.Duration) {
	if c.core == nil {
		return
	}
	c.w.note("client crash", uint64(c.id))
	c.core = nil
	clear(c.in)
	c.in = c.in[:0]
	c.net.Crash(simnet.Kill)
	c.deadline, c.turnAt, c.deafTill = clock.Never, clock.Never, 0
	c.producer.lost()
	c.consumer.lost()
	if !c.leaving {
		c.w.after(after, c.start)
	}
}

// depart leaves the group in good order and comes back later.
func (c *client) depart(span clock.Duration) {
	if c.kind != clientConsumer || c.core == nil || !c.joined || c.leaving || c.away > 0 {
		return
	}
	c.w.marks.Mark("sim.left")
	c.away = max(span, 1)
	c.input(core.Input{Kind: core.InputStopConsumer, Handle: handle})
}

func (c *client) stall(until clock.Instant) { c.deafTill = until }

func (c *client) calm() {
	c.deafTill = 0
	c.consumer.calm = true
	c.producer.gap = 0
	if c.kind == clientProducer && c.core != nil {
		c.want()
	}
}

func (c *client) busy() string {
	if c.kind == clientProducer {
		return c.producer.busy(c)
	}
	if c.core != nil && !c.joined {
		return fmt.Sprintf("client %d has not joined its group", c.id)
	}
	return ""
}

func (c *client) leave() {
	if c.leaving {
		return
	}
	c.leaving = true
	if c.core == nil {
		return
	}
	if c.away > 0 { // on its way already
		return
	}
	if c.kind == clientConsumer && c.joined {
		c.input(core.Input{Kind: core.InputStopConsumer, Handle: handle})
		return
	}
	c.input(core.Input{Kind: core.InputClose})
}

// partitionOf names the partition of the client's topic.
func (c *client) partitionOf(topic, p uint16) checker.Partition {
	return checker.Partition{Topic: topic, Partition: p}
}

// topicID is the id of the client's topic: the topics are declared in the plan's
// order, before everything else.
func (c *client) topicID() uint16 {
	id := c.w.admin.topicID(int(c.spec.Int("topic", 0)))
	if c.spec.Int("twin", 0) != 0 {
		id++
	}
	return id
}

// codeOutcome is what a code says of a request that it answers.
func codeOutcome(code wire.Code) checker.Outcome {
	if info, ok := code.Info(); ok && info.Outcome != wire.OutcomeUnknown {
		return checker.Refused
	}
	return checker.Unknown
}

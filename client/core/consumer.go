package core

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
)

type memberState uint8

const (
	stateResolving   memberState = iota // its topic is looked up
	stateJoining                        // SUB is due at joinAt
	stateSubscribing                    // SUB is sent
	stateMember
	stateLeaving // LEAVE is sent
	stateEnded
)

// consumer is one subscription, over all its memberships. A membership lasts from SUB's OK until it is lost or left;
// generation counts them, so that what belongs to an earlier one is recognised.
type consumer struct {
	handle   Handle
	opt      ConsumerOptions
	group    string
	state    memberState
	stopping bool
	leaveDue bool // LEAVE is to be sent
	paused   bool

	topicID    uint16
	parts      []part // by partition
	generation uint32
	everJoined bool

	sub        uint16
	member     uint64
	membership uint32
	assignment uint32
	told       uint64 // counts SUB's OK and NOTICEs: what the epochs are of
	stale      int    // refusals in a row for epochs that are not older than what was told
	joinAt     clock.Instant
	joinFails  int
	lastSent   clock.Instant // of a request that names the subscription
	renewAt    clock.Instant // when to look which leases to renew
	trouble    string        // the last text of an INTERNAL that was told; "" since messages came

	outbox  outbox
	delayed []delayedReply
	open    int // replies of this membership that are queued, delayed or unanswered

	credit window
	pulls  pulls
}

func (c *Core) newConsumer(in *Input) {
	opt := in.Consumer
	if opt == nil {
		opt = &ConsumerOptions{}
	}
	assert(c.consumer(in.Handle) == nil, "a consumer handle is used twice")
	s := &consumer{handle: in.Handle, opt: opt.withDefaults(), group: in.Group}
	s.paused = opt.Paused
	if c.fatal.Failed() {
		c.event(Event{Kind: EventConsumerFailed, Handle: s.handle, Err: c.fatal})
		return
	}
	if err := wire.CheckGroupName([]byte(in.Group)); err != nil {
		c.event(Event{Kind: EventConsumerFailed, Handle: s.handle, Err: Err{Reason: ReasonRefused, Op: wire.OpSub,
			Code: wire.CodeMalformedPayload, Message: err.Error()}})
		return
	}
	c.consumers = append(c.consumers, s)
	c.addCall(&call{consumer: s, name: in.Topic, lookup: opt.MustExist})
}

func (c *Core) consumer(h Handle) *consumer {
	for _, s := range c.consumers {
		if s.handle == h {
			return s
		}
	}
	return nil
}

func (c *Core) consumerResolved(s *consumer, res wire.DeclareResult, err Err) {
	if err.Failed() {
		c.consumerFailed(s, err)
		return
	}
	s.topicID = res.TopicID
	s.parts = make([]part, res.PartitionCount)
	for i := range s.parts {
		s.parts[i].number = uint16(i)
	}
	s.state, s.joinAt = stateJoining, c.now
}

func (c *Core) takeConsumer(in *Input) {
	if in.Kind == InputConsumer {
		c.newConsumer(in)
		return
	}
	s := c.consumer(in.Handle)
	if s == nil {
		if in.Kind == InputStopConsumer {
			c.event(Event{Kind: EventStopped, Handle: in.Handle})
		}
		return
	}
	switch in.Kind {
	case InputSettle:
		c.settle(s, in)
	case InputProgress:
		c.progress(s, in)
	case InputConfirmRevoke:
		c.confirmRevoke(s, in.Partition, in.Ref)
	case InputPause:
		c.pause(s)
	case InputResume:
		s.paused = false
		for i := range s.parts {
			c.touch(s, &s.parts[i])
		}
	case InputStopConsumer:
		c.stop(s)
	default:
		assert(false, "an input of no kind")
	}
}

// pause pulls and hands out nothing more. What is queued, and what a PULL that is under way still brings, is released: a
// resume begins where the handlers stopped, and meanwhile it is others' to have.
func (c *Core) pause(s *consumer) {
	s.paused = true
	for i := range s.parts {
		c.releaseQueue(s, &s.parts[i])
	}
}

// releaseQueue gives back what waits, free of charge.
func (c *Core) releaseQueue(s *consumer, p *part) {
	for p.queue.n > 0 {
		d := p.queue.pop()
		s.credit.giveBack(c.now, 1, uint32(len(d.Value)))
		c.queueSettle(s, p, SettleRelease, d.Sequence, d.DeliveryID)
	}
}

// stop hands out nothing more. What is queued goes back with the membership.
func (c *Core) stop(s *consumer) {
	s.stopping = true
	for i := range s.parts {
		c.dropQueue(s, &s.parts[i])
	}
	c.checkStop(s)
}

// checkStop goes on with a stop when nothing is with the application and every answer has come: LEAVE, and the end.
func (c *Core) checkStop(s *consumer) {
	if !s.stopping || s.state == stateLeaving || s.state == stateSubscribing {
		return
	}
	for i := range s.parts {
		if len(s.parts[i].handed) > 0 {
			return
		}
	}
	if s.state == stateMember {
		if s.open == 0 && c.giveUpAll(s) {
			s.state = stateLeaving
			s.leaveDue = true
		}
		return
	}
	c.endConsumer(s, Err{})
	c.removeConsumer(s)
	c.event(Event{Kind: EventStopped, Handle: s.handle})
}

func (c *Core) removeConsumer(s *consumer) {
	for i, other := range c.consumers {
		if other == s {
			c.consumers = append(c.consumers[:i], c.consumers[i+1:]...)
			return
		}
	}
}

// consumerFailed ends a consumer by a refusal that is not repeated.
func (c *Core) consumerFailed(s *consumer, err Err) {
	if s.state == stateMember {
		c.sendHeartbeat(s, wire.HeartbeatLeave)
	}
	c.endConsumer(s, err)
	c.removeConsumer(s)
}

// endConsumer forgets a consumer that the caller takes out of the list.
func (c *Core) endConsumer(s *consumer, err Err) {
	c.forgetCalls(nil, s)
	c.dropMembership(s)
	s.state = stateEnded
	if err.Failed() {
		c.event(Event{Kind: EventConsumerFailed, Handle: s.handle, Err: err})
	}
}

// memberLost is the end of a membership that nobody asked for: the consumer joins again.
func (c *Core) memberLost(s *consumer) {
	switch s.state {
	case stateSubscribing, stateMember, stateLeaving:
		c.dropMembership(s)
		s.state, s.joinAt = stateJoining, c.now
		c.checkStop(s)
	}
}

// dropMembership forgets everything that a membership was told. What was handed out is settled into nothing from now on.
func (c *Core) dropMembership(s *consumer) {
	for i := range s.parts {
		p := &s.parts[i]
		c.tellLost(s, p)
		p.lose()
	}
	c.dropReplies(s)
	s.generation++
	s.open, s.stale = 0, 0
	s.credit = window{}
	s.pulls = pulls{}
}

func (c *Core) consumerTimers() {
	for _, s := range c.consumers {
		if s.state != stateMember {
			continue
		}
		c.wakeReplies(s)
		for i := range s.parts {
			if p := &s.parts[i]; p.hold.seq != 0 && c.now >= p.hold.until {
				p.hold = hold{}
				c.touch(s, p)
			}
		}
		if c.now >= s.renewAt {
			c.renew(s)
		}
	}
}

func (c *Core) consumerDeadline(s *consumer) clock.Instant {
	switch s.state {
	case stateJoining:
		if s.stopping {
			return clock.Never
		}
		return s.joinAt
	case stateMember:
	default:
		return clock.Never
	}
	d := min(s.lastSent.Add(s.opt.Heartbeat), s.credit.deadline())
	if s.pulls.at > c.now && c.mayPull(s) {
		d = min(d, s.pulls.at)
	}
	for _, r := range s.delayed {
		d = min(d, r.due)
	}
	for i := range s.parts {
		p := &s.parts[i]
		if p.hold.seq != 0 {
			d = min(d, p.hold.until)
		}
		if p.queue.n > 0 || len(p.handed) > 0 {
			d = min(d, s.renewAt)
		}
	}
	return d
}

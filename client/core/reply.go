package core

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
)

type replyKind uint8

const (
	replySettle replyKind = iota
	replyProgress
	replyControl
)

// reply is an ACK, NACK, PROGRESS or CONTROL_ACK from its cause to its answer.
type reply struct {
	kind       replyKind
	settle     Settle
	hasDelay   bool
	result     wire.ControlResult
	inFlight   bool
	delayMs    uint32
	generation uint32
	consumer   *consumer
	part       *part // nil for a CONTROL_ACK
	seq        uint64
	id         uint64
	epoch      uint64
	notice     wire.Notice
	failures   int
	next       int32 // in the free list
}

// replies is a slab with a free list.
type replies struct {
	slab []reply
	free int32
}

func (s *replies) init() { s.free = none }

func (s *replies) at(i int32) *reply { return &s.slab[i] }

func (s *replies) take() int32 {
	if s.free == none {
		s.slab = append(s.slab, reply{})
		return int32(len(s.slab) - 1)
	}
	i := s.free
	s.free = s.slab[i].next
	s.slab[i] = reply{}
	return i
}

func (s *replies) put(i int32) {
	s.slab[i] = reply{next: s.free}
	s.free = i
}

// outbox is a queue of replies that are to be sent, in the order in which they must be (C7).
type outbox struct {
	slots []int32
	head  int
}

func (o *outbox) len() int { return len(o.slots) - o.head }

func (o *outbox) push(i int32) {
	if o.head > 0 && o.head == len(o.slots) {
		o.slots, o.head = o.slots[:0], 0
	}
	o.slots = append(o.slots, i)
}

func (o *outbox) pop() int32 {
	i := o.slots[o.head]
	o.head++
	return i
}

// delayedReply waits for its backoff.
type delayedReply struct {
	slot int32
	due  clock.Instant
}

func (c *Core) queueReply(s *consumer, i int32) {
	r := c.replies.at(i)
	r.consumer, r.generation = s, s.generation
	s.open++
	s.outbox.push(i)
}

func (c *Core) sendReplies() {
	for _, s := range c.consumers {
		for s.outbox.len() > 0 && c.fifo.len() < requestsMax {
			c.sendReply(s, s.outbox.pop())
		}
	}
}

func (c *Core) sendReply(s *consumer, i int32) {
	r := c.replies.at(i)
	r.inFlight = true
	kind := wire.OpAck
	switch {
	case r.kind == replyControl:
		m := wire.ControlAck{NoticeID: r.notice.NoticeID, NoticeKind: r.notice.Kind, GroupID: r.notice.GroupID,
			MembershipEpoch: r.notice.MembershipEpoch, AssignmentEpoch: r.notice.AssignmentEpoch,
			OwnershipEpoch: r.notice.OwnershipEpoch, Result: r.result}
		c.wbuf = m.Append(c.wbuf)
		kind = wire.OpControlAck
	case r.kind == replyProgress || r.settle == SettleAck:
		m := wire.Ack{SubscriptionID: s.sub, TopicID: s.topicID, Partition: r.part.number, Seq: r.seq, DeliveryID: r.id, OwnershipEpoch: r.epoch}
		if r.kind == replyProgress {
			m.Flags = wire.FlagAckProgress
		}
		c.wbuf = m.Append(c.wbuf)
	default:
		m := wire.Nack{SubscriptionID: s.sub, TopicID: s.topicID, Partition: r.part.number, Seq: r.seq, DeliveryID: r.id, OwnershipEpoch: r.epoch,
			Reason: nackReason(r.settle)}
		if r.hasDelay {
			m.Flags, m.DelayMs = wire.FlagNackDelay, r.delayMs
		}
		c.wbuf = m.Append(c.wbuf)
		kind = wire.OpNack
	}
	c.memberRequest(s, request{op: kind, slot: i})
}

func nackReason(s Settle) wire.NackReason {
	switch s {
	case SettleReject:
		return wire.NackReject
	case SettleRelease:
		return wire.NackRelease
	}
	return wire.NackRetry
}

// replyDone takes a reply that has been answered out of the books and says whether its membership and ownership still are.
func (c *Core) replyDone(i int32) (reply, bool) {
	r := *c.replies.at(i)
	c.replies.put(i)
	s := r.consumer
	if s.state == stateEnded || r.generation != s.generation {
		return r, false
	}
	if r.part == nil {
		s.open--
		return r, true
	}
	if !r.part.owned || r.part.epoch != r.epoch {
		return r, true // its ownership ended, and open was told then
	}
	s.open--
	r.part.settling--
	return r, true
}

func (c *Core) replyOK(i int32) {
	r, now := c.replyDone(i)
	if r.kind == replySettle {
		r.consumer.stale = 0
	}
	c.settled(&r, wire.CodeOK, false)
	if now {
		c.afterReply(&r)
	}
}

// afterReply lets go on what waited for an answer.
func (c *Core) afterReply(r *reply) {
	if r.part != nil {
		c.touch(r.consumer, r.part)
		c.checkRevoke(r.consumer, r.part)
	}
	c.checkStop(r.consumer)
}

func (c *Core) replyErr(i int32, err Err, info wire.CodeInfo) {
	r := c.replies.at(i)
	s := r.consumer
	current := s.state != stateEnded && r.generation == s.generation
	owned := r.part == nil || r.part.owned && r.part.epoch == r.epoch
	if (info.Retry == wire.RetryBackoff || info.Retry == wire.RetryLeader) && current && owned && r.kind != replyProgress {
		r.inFlight = false
		r.failures++
		s.delayed = append(s.delayed, delayedReply{slot: i, due: c.now.Add(c.backoff(r.failures))})
		return
	}
	done, now := c.replyDone(i)
	c.settled(&done, err.Code, false)
	if !now {
		return
	}
	if done.kind == replyProgress {
		c.dropExpired(s, &done)
	}
	if err.Code == wire.CodeUnknownMember {
		c.rejoin(s)
		return
	}
	c.afterReply(&done)
}

// dropExpired lets go a queued delivery that the broker would not renew: it comes again.
func (c *Core) dropExpired(s *consumer, r *reply) {
	if i := r.part.queue.find(r.seq); i >= 0 && r.part.queue.at(i).DeliveryID == r.id {
		s.credit.giveBack(c.now, 1, uint32(len(r.part.queue.at(i).Value)))
		r.part.queue.cut(i)
	}
}

// wakeReplies queues again what has waited for its backoff.
func (c *Core) wakeReplies(s *consumer) {
	kept := s.delayed[:0]
	for _, d := range s.delayed {
		switch r := c.replies.at(d.slot); {
		case c.now < d.due:
			kept = append(kept, d)
		case r.part != nil && (!r.part.owned || r.part.epoch != r.epoch):
			c.settled(r, wire.CodeOK, true)
			c.replies.put(d.slot) // its ownership has ended meanwhile
		default:
			s.outbox.push(d.slot)
		}
	}
	s.delayed = kept
}

// dropReplies forgets the replies of a membership that are not in flight.
func (c *Core) dropReplies(s *consumer) {
	for s.outbox.len() > 0 {
		c.dropReply(s.outbox.pop())
	}
	for _, d := range s.delayed {
		c.dropReply(d.slot)
	}
	s.outbox, s.delayed = outbox{}, nil
}

func (c *Core) dropReply(i int32) {
	c.settled(c.replies.at(i), wire.CodeOK, true)
	c.replies.put(i)
}

// replyLost is a reply whose answer will not come.
func (c *Core) replyLost(i int32) {
	r, _ := c.replyDone(i)
	c.settled(&r, wire.CodeOK, true)
}

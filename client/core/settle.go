package core

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
)

// settle takes the application's answer to a delivery.
func (c *Core) settle(s *consumer, in *Input) {
	if int(in.Partition) >= len(s.parts) {
		return
	}
	p := &s.parts[in.Partition]
	for i := range p.handed {
		if p.handed[i].id != in.Delivery {
			continue
		}
		h := p.handed[i]
		p.handed = append(p.handed[:i], p.handed[i+1:]...)
		if h.joined == s.generation {
			s.credit.giveBack(c.now, 1, h.bytes)
		}
		if h.lost {
			c.out.Settled = append(c.out.Settled, Settled{Consumer: s.handle, Partition: p.number, Settle: in.Settle, Lost: true,
				Sequence: h.seq, DeliveryID: h.id})
		} else {
			c.answer(s, p, &h, in)
		}
		c.touch(s, p)
		c.checkRevoke(s, p)
		c.checkStop(s)
		return
	}
}

// answer queues the ACK or NACK.
func (c *Core) answer(s *consumer, p *part, h *handed, in *Input) {
	kind := in.Settle
	if kind == SettleDrop {
		if p.revoking || s.stopping {
			return // goes back with the ownership
		}
		kind = SettleRelease
	}
	r := c.queueSettle(s, p, kind, h.seq, h.id)
	if in.HasDelay && (kind == SettleRetry || kind == SettleRelease) {
		r.hasDelay, r.delayMs = true, uint32(min(max(in.Delay.Millis(), 0), delayMaxMs))
	}
	if s.opt.StrictOrder {
		c.holdFor(s, p, r)
	}
	c.ackTwin(s, p, h, kind)
}

// queueSettle queues an ACK or NACK. The reply is good until the next one is taken.
func (c *Core) queueSettle(s *consumer, p *part, kind Settle, seq, id uint64) *reply {
	i := c.replies.take()
	r := c.replies.at(i)
	r.kind, r.settle, r.part, r.seq, r.id, r.epoch = replySettle, kind, p, seq, id, p.epoch
	p.settling++
	c.queueReply(s, i)
	return r
}

// delayMaxMs is 24 h, where the broker cuts a delay.
const delayMaxMs = 24 * 3600 * 1000

// holdFor makes a strictly ordered partition wait for what was given back. The broker says nothing when it makes a dead letter
// of it instead, so the wait ends: at once behind the last attempt, if all were this consumer's, else after the longest backoff.
func (c *Core) holdFor(s *consumer, p *part, r *reply) {
	if p.hold.seq != r.seq {
		p.hold = hold{}
	}
	if r.settle != SettleRetry && r.settle != SettleRelease {
		p.hold = hold{}
		return
	}
	if r.settle == SettleRetry {
		p.hold.fails++
	}
	if p.hold.fails >= s.opt.MaxAttempts {
		p.hold = hold{}
		return
	}
	wait := s.opt.RetryBackoffMax + s.opt.RetryBackoffMax/4
	if r.hasDelay {
		wait = clock.Duration(r.delayMs) * clock.Millisecond
	}
	p.hold.seq, p.hold.until = r.seq, c.now.Add(wait+holdGrace)
}

// holdGrace is for the redelivery to be pulled once it is due.
const holdGrace = 10 * clock.Second

// ackTwin settles a redelivery that came while the handler was at work on the message: its lease had run out, so the ACK of
// the first may count for nothing, and the message is done with.
func (c *Core) ackTwin(s *consumer, p *part, h *handed, kind Settle) {
	if kind != SettleAck || !p.twins {
		return
	}
	p.twins = p.queue.n > 0
	at := p.queue.find(h.seq)
	if at < 0 {
		return
	}
	d := p.queue.at(at)
	s.credit.giveBack(c.now, 1, uint32(len(d.Value)))
	c.queueSettle(s, p, SettleAck, d.Sequence, d.DeliveryID)
	p.queue.cut(at)
}

// progress renews the lease of a delivery that the application has.
func (c *Core) progress(s *consumer, in *Input) {
	if int(in.Partition) >= len(s.parts) {
		return
	}
	p := &s.parts[in.Partition]
	for i := range p.handed {
		if h := &p.handed[i]; h.id == in.Delivery && !h.lost {
			h.renewed = c.now
			c.queueProgress(s, p, h.seq, h.id)
			return
		}
	}
}

func (c *Core) queueProgress(s *consumer, p *part, seq, id uint64) {
	i := c.replies.take()
	r := c.replies.at(i)
	r.kind, r.part, r.seq, r.id, r.epoch = replyProgress, p, seq, id, p.epoch
	p.settling++
	c.queueReply(s, i)
}

// settled tells what became of a settlement.
func (c *Core) settled(r *reply, code wire.Code, lost bool) {
	if r.kind == replySettle {
		c.out.Settled = append(c.out.Settled, Settled{Consumer: r.consumer.handle, Partition: r.part.number, Settle: r.settle, Lost: lost,
			Code: code, Sequence: r.seq, DeliveryID: r.id, OwnershipEpoch: r.epoch})
	}
}

package core

import "github.com/mortarmq/mortarmq/wire"

func (c *Core) onNotice(m *wire.Notice) {
	s := c.byMember(m.MemberID)
	if s == nil || int(m.Partition) >= len(s.parts) || m.TopicID != s.topicID {
		return // of a membership that this side has given up: the broker will find out
	}
	s.membership, s.assignment = m.MembershipEpoch, m.AssignmentEpoch
	s.told++
	p := &s.parts[m.Partition]
	if m.Kind == wire.NoticeAssign {
		c.assigned(s, p, m)
		return
	}
	if !p.owned || p.epoch != m.OwnershipEpoch || p.revoking {
		c.control(s, m, wire.ControlStale)
		return
	}
	p.revoking, p.notice = true, *m
	if p.asked {
		return // a stop is giving it up already
	}
	c.dropQueue(s, p)
	p.hold = hold{}
	c.event(Event{Kind: EventRevoking, Handle: s.handle, Partition: p.number, Epoch: p.epoch})
	c.checkRevoke(s, p)
}

func (c *Core) byMember(id uint64) *consumer {
	for _, s := range c.consumers {
		if s.member == id && (s.state == stateMember || s.state == stateLeaving) {
			return s
		}
	}
	return nil
}

// assigned takes over a partition. Where it is this member's already, under an older epoch, a revoke has timed out: what is
// left of the old ownership settles into nothing.
func (c *Core) assigned(s *consumer, p *part, m *wire.Notice) {
	if p.owned {
		c.tellLost(s, p)
		c.dropQueue(s, p)
		s.open -= p.settling
		p.lose()
	}
	p.owned, p.epoch = true, m.OwnershipEpoch
	c.event(Event{Kind: EventAssigned, Handle: s.handle, Partition: p.number, Epoch: p.epoch})
	c.control(s, m, wire.ControlOK)
}

// tellLost tells that a partition is gone, unless the application has been told to give it back.
func (c *Core) tellLost(s *consumer, p *part) {
	if p.owned && !p.asked {
		c.event(Event{Kind: EventLost, Handle: s.handle, Partition: p.number, Epoch: p.epoch})
	}
}

// checkRevoke confirms a revoke when nothing of the partition is with the application or unanswered any more (C7).
func (c *Core) checkRevoke(s *consumer, p *part) {
	if !p.revoking || p.asked || len(p.handed) > 0 || p.settling > 0 {
		return
	}
	p.asked = true
	c.event(Event{Kind: EventRevoked, Handle: s.handle, Partition: p.number, Epoch: p.epoch})
	if !s.opt.ConfirmRevoke {
		c.confirmRevoke(s, p.number, p.epoch)
	}
}

// confirmRevoke takes the application's word, or what stands for it, that it is done with a partition.
func (c *Core) confirmRevoke(s *consumer, partition uint16, epoch uint64) {
	if int(partition) >= len(s.parts) {
		return
	}
	p := &s.parts[partition]
	if !p.asked || p.epoch != epoch {
		return
	}
	revoking, notice := p.revoking, p.notice
	p.lose()
	if revoking {
		c.control(s, &notice, wire.ControlOK)
	}
	c.checkStop(s)
}

// giveUpAll ends the ownership of everything before LEAVE, as a revoke of each partition would. It says whether that is done.
func (c *Core) giveUpAll(s *consumer) bool {
	done := true
	for i := range s.parts {
		p := &s.parts[i]
		if p.owned && !p.asked {
			p.asked = true
			c.event(Event{Kind: EventRevoked, Handle: s.handle, Partition: p.number, Epoch: p.epoch})
			if !s.opt.ConfirmRevoke && !p.revoking {
				p.lose()
			}
		}
		done = done && !p.owned
	}
	return done
}

func (c *Core) control(s *consumer, m *wire.Notice, result wire.ControlResult) {
	i := c.replies.take()
	r := c.replies.at(i)
	r.kind, r.notice, r.result = replyControl, *m, result
	c.queueReply(s, i)
}

package fakebroker

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
)

// handleMember carries out the requests of consumers.
func (s *Session) handleMember(f wire.Frame) error {
	switch f.Op {
	case wire.OpSub:
		var m wire.Sub
		if err := m.Decode(f.Payload); err != nil {
			return err
		}
		s.subscribe(&m)
	case wire.OpHeartbeat:
		var m wire.Heartbeat
		if err := m.Decode(f.Payload); err != nil {
			return err
		}
		s.heartbeat(&m)
	case wire.OpControlAck:
		var m wire.ControlAck
		if err := m.Decode(f.Payload); err != nil {
			return err
		}
		s.controlAck(&m)
	case wire.OpCredit:
		var m wire.Credit
		if err := m.Decode(f.Payload); err != nil {
			return err
		}
		s.credit(&m)
	case wire.OpPull:
		var m wire.Pull
		if err := m.Decode(f.Payload); err != nil {
			return err
		}
		s.pull(&m)
	case wire.OpAck:
		var m wire.Ack
		if err := m.Decode(f.Payload); err != nil {
			return err
		}
		n := wire.Nack{SubscriptionID: m.SubscriptionID, TopicID: m.TopicID, Partition: m.Partition, Seq: m.Seq, DeliveryID: m.DeliveryID,
			OwnershipEpoch: m.OwnershipEpoch, Reason: Acked}
		s.settle(f.Op, &n, m.Flags&wire.FlagAckProgress != 0)
	case wire.OpNack:
		var m wire.Nack
		if err := m.Decode(f.Payload); err != nil {
			return err
		}
		s.settle(f.Op, &m, false)
	}
	return nil
}

func (s *Session) subscribe(m *wire.Sub) {
	t := s.b.topicByID(m.TopicID)
	if t == nil {
		s.err(wire.OpSub, wire.CodeUnknownTopic, "")
		return
	}
	g := s.b.Group(string(m.Group))
	switch {
	case g == nil && m.Flags&wire.FlagSubMustExist != 0:
		s.err(wire.OpSub, wire.CodeUnknownGroup, "")
		return
	case g == nil:
		g = s.b.makeGroup(string(m.Group), t, m.StartPolicy == wire.StartLatest)
	case g.Topic != t:
		s.err(wire.OpSub, wire.CodeGroupExistsMismatch, "")
		return
	case len(g.members) >= wire.MaxGroupMembers:
		s.err(wire.OpSub, wire.CodeGroupMemberLimit, "")
		return
	}
	o := g.join(s, m)
	s.Out = (&wire.SubResult{SubscriptionID: o.sub, MemberID: o.id, MembershipEpoch: o.told[0], AssignmentEpoch: o.told[1]}).AppendOK(s.Out)
	g.rebalance()
}

// find is the member behind a subscription_id, or a refusal.
func (s *Session) find(op wire.Op, sub uint16) *member {
	if sub == 0 || int(sub) > len(s.members) || s.members[sub-1].gone {
		s.err(op, wire.CodeUnknownMember, "join again")
		return nil
	}
	m := s.members[sub-1]
	m.heard = s.b.Now
	return m
}

func (s *Session) heartbeat(m *wire.Heartbeat) {
	o := s.find(wire.OpHeartbeat, m.SubscriptionID)
	switch {
	case o == nil:
	case m.State == wire.HeartbeatLeave:
		o.leave(false)
		s.ok(wire.OpHeartbeat)
	case o.told != [2]uint32{m.MembershipEpoch, m.AssignmentEpoch}:
		s.err(wire.OpHeartbeat, wire.CodeStaleGeneration, "")
	default:
		s.ok(wire.OpHeartbeat)
	}
}

func (s *Session) controlAck(m *wire.ControlAck) {
	for _, o := range s.members {
		for _, c := range o.g.parts {
			if m.NoticeKind == wire.NoticeRevoke && c.owner == o && c.revoking && c.notice == m.NoticeID {
				o.confirmed[c.n] = c.epoch
				s.ok(wire.OpControlAck)
				o.g.revoked(c)
				return
			}
		}
	}
	if m.NoticeKind == wire.NoticeRevoke {
		s.err(wire.OpControlAck, wire.CodeStaleGeneration, "no such notice")
		return
	}
	s.ok(wire.OpControlAck)
}

func (s *Session) credit(m *wire.Credit) {
	o := s.find(wire.OpCredit, m.SubscriptionID)
	if o == nil {
		return
	}
	if o.told[0] != m.MembershipEpoch {
		s.err(wire.OpCredit, wire.CodeStaleGeneration, "")
		return
	}
	o.taken[0] -= int64(m.CreditCount)
	o.taken[1] -= int64(m.CreditBytes)
	o.balance[0] += int64(m.CreditCount)
	o.balance[1] += int64(m.CreditBytes)
	if o.taken[0] < 0 || o.taken[1] < 0 {
		s.b.broke("C9: credit given back that was not taken: %v", o.taken)
	}
	res := wire.CreditResult{GrantedCount: uint16(o.balance[0]), GrantedBytes: uint32(o.balance[1])}
	s.Out = res.AppendOK(s.Out)
}

func (s *Session) settle(op wire.Op, m *wire.Nack, progress bool) {
	o := s.find(op, m.SubscriptionID)
	if o == nil {
		return
	}
	if int(m.Partition) >= len(o.g.parts) || m.TopicID != o.g.Topic.ID {
		s.b.broke("settles partition %d of topic %d", m.Partition, m.TopicID)
		s.err(op, wire.CodeUnknownPartition, "")
		return
	}
	if o.confirmed[m.Partition] >= m.OwnershipEpoch {
		s.b.broke("C7: %v of partition %d after its revoke was confirmed", op, m.Partition)
	}
	c := o.g.parts[m.Partition]
	if c.owner != o || c.epoch != m.OwnershipEpoch {
		s.err(op, wire.CodeStaleOwner, "")
		return
	}
	for _, e := range c.open {
		if e.seq != m.Seq || e.id != m.DeliveryID || !e.out && m.Reason != Acked {
			continue
		}
		switch {
		case progress:
			e.lease = s.b.Now.Add(o.g.Lease)
		case m.Reason == wire.NackRelease:
			e.out, e.due = false, s.b.Now.Add(clock.Duration(m.DelayMs)*clock.Millisecond)
		case m.Reason == wire.NackRetry && m.Flags&wire.FlagNackDelay != 0:
			o.g.charge(c, e, clock.Duration(m.DelayMs)*clock.Millisecond)
		case m.Reason == wire.NackRetry:
			o.g.charge(c, e, s.b.RetryBackoff)
		default:
			o.g.settle(c, e, m.Reason)
		}
		s.ok(op)
		return
	}
	s.err(op, wire.CodeUnknownDelivery, "")
}

package fakebroker

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
)

func (s *Session) pull(m *wire.Pull) {
	o := s.find(wire.OpPull, m.SubscriptionID)
	switch {
	case o == nil:
		return
	case o.id != m.MemberID:
		s.err(wire.OpPull, wire.CodeUnknownMember, "")
		return
	case o.told != [2]uint32{m.MembershipEpoch, m.AssignmentEpoch}:
		s.err(wire.OpPull, wire.CodeStaleGeneration, "")
		return
	case !o.owns(m.OwnershipEpochs):
		s.err(wire.OpPull, wire.CodeNotOwner, "")
		return
	case len(s.pulls) >= wire.MaxWaitingPulls:
		s.b.broke("more than 8 PULLs wait")
		s.err(wire.OpPull, wire.CodeMaxWaitingPulls, "")
		return
	}
	req := *m
	req.OwnershipEpochs = nil // borrowed
	s.pulls = append(s.pulls, pull{m: o, req: req})
	s.servePulls(false)
}

func (m *member) owns(epochs wire.EpochList) bool {
	n := 0
	for _, c := range m.g.parts {
		if c.owner == m && !c.revoking {
			if n >= epochs.Len() || epochs.At(n) != c.epoch {
				return false
			}
			n++
		}
	}
	return n == epochs.Len()
}

func (b *Broker) serveAll() {
	for _, s := range b.Sessions {
		s.servePulls(false)
	}
}

// servePulls answers what can be answered; all of it where a request has come behind.
func (s *Session) servePulls(force bool) {
	for len(s.pulls) > 0 {
		p := &s.pulls[0]
		if !p.begun {
			p.begun, p.until = true, s.b.Now.Add(clock.Duration(p.req.WaitMs)*clock.Millisecond)
		}
		code := s.give(p.m, &p.req)
		switch {
		case p.m.gone:
			code = wire.CodeUnknownMember
		case code == wire.CodeOK && !p.given && !force && !s.b.NoWait && s.b.Now < p.until:
			return
		}
		s.pulls = s.pulls[1:]
		if code != wire.CodeOK {
			s.err(wire.OpPull, code, "")
		} else {
			s.ok(wire.OpPull)
		}
	}
}

// give sends what is due.
func (s *Session) give(m *member, req *wire.Pull) wire.Code {
	p := &s.pulls[0]
	if m.gone {
		return wire.CodeOK
	}
	if m.balance[0] == 0 || m.balance[1] == 0 {
		return wire.CodeNoCredit
	}
	left := int(req.MaxMsgs)
	for _, c := range m.g.parts {
		if c.owner != m || c.revoking {
			continue
		}
		for _, e := range c.open {
			if e.out || s.b.Now < e.due {
				continue
			}
			if left == 0 || !m.send(c, e) {
				return wire.CodeOK
			}
			left--
			p.given = true
		}
		for log := m.g.Topic.Partitions[c.n].Log; c.next <= uint64(len(log)); c.next++ {
			e := &entry{seq: c.next}
			if left == 0 || !m.send(c, e) {
				return wire.CodeOK
			}
			left--
			p.given = true
			c.open = append(c.open, e)
		}
	}
	return wire.CodeOK
}

// send sends a MSG if the balance allows it.
func (m *member) send(c *cursor, e *entry) bool {
	r := m.g.Topic.Partitions[c.n].Log[e.seq-1]
	n := int64(len(r.Value))
	if m.balance[0] < 1 || m.balance[1] < n {
		return false
	}
	m.balance[0]--
	m.balance[1] -= n
	m.taken[0]++
	m.taken[1] += n
	e.out, e.id, e.lease = true, m.g.b.nextID(), m.g.b.Now.Add(m.g.Lease)
	e.attempt++
	m.g.Delivered[c.n][e.seq]++
	msg := wire.Msg{SubscriptionID: m.sub, TopicID: m.g.Topic.ID, Partition: c.n, Sequence: e.seq, DeliveryID: e.id, Attempt: e.attempt,
		OwnershipEpoch: c.epoch, ProducerID: r.ProducerID, ProducerSeq: r.ProducerSeq, Key: []byte(r.Key), Value: []byte(r.Value)}
	if e.attempt > 1 {
		msg.Flags = wire.FlagMsgRedelivered
	}
	m.s.Out = msg.Append(m.s.Out)
	return true
}

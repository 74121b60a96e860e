package session

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// assignNotice tells a lane's owner that it owns it, once SUB's OK is out.
func (s *Sessions) assignNotice(gr *group, ln *lane) {
	u := s.groups.subs.at(ln.owner - 1)
	if !u.ready || u.leaving || u.conn == none {
		return
	}
	ln.told = true
	ln.assignID = s.notice(gr, ln, u, wire.NoticeAssign)
	s.wakeSub(u)
}

// revokeLane asks a lane's owner to give it up. One that was never told of it
// needs no asking.
func (s *Sessions) revokeLane(gr *group, l uint32, ln *lane) {
	ln.revoking = true
	u := s.groups.subs.at(ln.owner - 1)
	at := s.watch.now.Add(revokeTimeout)
	switch {
	case u.leaving || u.conn == none: // its Leave does it, or, in a drain, the next epoch
	case ln.told:
		ln.revokeID = s.notice(gr, ln, u, wire.NoticeRevoke)
	case s.proposeRevoked(gr.id, ln, op.CauseConfirmed) != wire.CodeOK:
		at = s.watch.now
	}
	s.addRevoke(revoke{gr.id, ln.part, ln.epoch, at})
}

// addRevoke keeps in mind when a revoke ends by itself. Those that have ended
// otherwise are thrown out before they can pile up.
func (s *Sessions) addRevoke(r revoke) {
	g := &s.groups
	if len(g.revokes) >= 2*g.lanes.inUse()+64 {
		kept := g.revokes[:0]
		for _, k := range g.revokes {
			if _, ok := g.pending(k); ok {
				kept = append(kept, k)
			}
		}
		g.revokes = kept
	}
	if !fault.On("revoke_without_end") {
		g.revokes = append(g.revokes, r)
	}
}

// pending gives the lane of a revoke that has not ended.
func (g *groups) pending(r revoke) (*lane, bool) {
	_, ln, ok := g.laneOf(r.group, r.part)
	return ln, ok && ln.epoch == r.epoch && ln.revoking && !ln.revoked
}

// notice sends a NOTICE and gives its id.
func (s *Sessions) notice(gr *group, ln *lane, u *sub, kind wire.NoticeKind) uint64 {
	c := s.conns.at(u.conn)
	u.membership, u.assignment = gr.membership, gr.assignment
	c.noticeLast++
	ln.noticed[kind] = [2]uint32{gr.membership, gr.assignment}
	m := wire.Notice{
		NoticeID: c.noticeLast, Kind: kind, GroupID: uint16(gr.id),
		MembershipEpoch: gr.membership, AssignmentEpoch: gr.assignment, OwnershipEpoch: uint64(ln.epoch),
		TopicID: uint16(gr.topic), Partition: uint16(ln.part), MemberID: uint64(u.member),
	}
	if c.state != connClosing {
		c.out = m.Append(s.output(u.conn, c))
	}
	return c.noticeLast
}

// controlAck carries out CONTROL_ACK. Any result ends a REVOKE; an ASSIGN needs
// no confirmation.
func (s *Sessions) controlAck(i uint32, c *conn, n uint64, payload []byte) {
	var m wire.ControlAck
	if err := m.Decode(payload); err != nil {
		s.refuseBad(i, c, n, err)
		return
	}
	gr, ln, u := s.noticed(c, &m)
	if ln == nil {
		s.refuse(i, c, n, wire.CodeStaleGeneration, "no such NOTICE waits for its CONTROL_ACK on this connection: it was answered, or its time is over")
		return
	}
	s.heard(u)
	if m.NoticeKind == wire.NoticeAssign {
		if m.Result == wire.ControlOK {
			u.installed = max(u.installed, m.AssignmentEpoch)
		}
		ln.assignID = 0
		s.ok(i, c, n)
		return
	}
	if !ln.revoked {
		if code := s.proposeRevoked(gr.id, ln, op.CauseConfirmed); code != wire.CodeOK {
			s.refuse(i, c, n, code, "")
			return
		}
	}
	ln.revokeID = 0
	s.ok(i, c, n)
}

// noticed finds what a CONTROL_ACK of this connection answers.
func (s *Sessions) noticed(c *conn, m *wire.ControlAck) (*group, *lane, *sub) {
	if m.NoticeID == 0 || m.NoticeID > c.noticeLast {
		return nil, nil, nil
	}
	for _, cs := range c.subs {
		u := s.groups.subs.at(cs.sub)
		if u.group != op.GroupID(m.GroupID) || u.gone {
			continue
		}
		for _, l := range u.lanes {
			ln := s.groups.lanes.at(l)
			id := ln.assignID
			if m.NoticeKind == wire.NoticeRevoke {
				id = ln.revokeID
			}
			if id == m.NoticeID && uint64(ln.epoch) == m.OwnershipEpoch && ln.noticed[m.NoticeKind] == [2]uint32{m.MembershipEpoch, m.AssignmentEpoch} {
				return s.groups.groups.at(ln.group), ln, u
			}
		}
	}
	return nil, nil, nil
}

func (s *Sessions) proposeRevoked(id op.GroupID, ln *lane, cause uint8) wire.Code {
	s.o = op.Op{Kind: op.KindRevoked, Group: id, Partition: ln.part, Member: ln.member, Cause: cause}
	code := s.broker.Propose(&s.o, Ref{})
	ln.revoked = code == wire.CodeOK
	return code
}

// expireRevokes ends the revokes whose owner did not answer in time.
func (s *Sessions) expireRevokes() {
	g := &s.groups
	done := 0
	for ; done < len(g.revokes) && g.revokes[done].at <= s.watch.now; done++ {
		r := g.revokes[done]
		ln, ok := g.pending(r)
		if ok && s.proposeRevoked(r.group, ln, op.CauseTimeout) != wire.CodeOK {
			g.revokes[done].at = s.watch.now.Add(retryPause)
			break
		}
	}
	g.revokes = append(g.revokes[:0], g.revokes[done:]...)
}

// confirmed takes note of an applied Revoked or Assign; where it came to nothing
// it is tried again.
func (s *Sessions) confirmed(o *op.Op, res *machine.Result) {
	if res.Code == wire.CodeOK {
		return
	}
	if o.Kind == op.KindAssign {
		if v, ok := s.view.Group(o.Group); ok && v.HoldUntil != 0 {
			s.holdGroup(o.Group, v.HoldUntil)
		}
		return
	}
	if _, ln, ok := s.groups.laneOf(o.Group, o.Partition); ok && ln.revoking && ln.revoked && ln.member == o.Member {
		ln.revoked = false
		s.addRevoke(revoke{o.Group, o.Partition, ln.epoch, s.watch.now.Add(revokeTimeout)})
	}
}

// holdGroup keeps in mind that a group's first assignment of the epoch is due at
// a log time.
func (s *Sessions) holdGroup(id op.GroupID, until op.LogMillis) {
	g := &s.groups
	g.holdAt = min(g.holdAt, s.instantOf(until))
	for _, h := range g.holds {
		if h == id {
			return
		}
	}
	g.holds = append(g.holds, id)
}

// runHolds proposes Assign for the groups whose members have had their time to
// come back.
func (s *Sessions) runHolds() {
	g := &s.groups
	if s.now < g.holdAt {
		return
	}
	g.holdAt = clock.Never
	kept := g.holds[:0]
	for _, id := range g.holds {
		v, ok := s.view.Group(id)
		if !ok || v.HoldUntil == 0 {
			continue
		}
		if s.broker.LogTime() >= v.HoldUntil {
			s.o = op.Op{Kind: op.KindAssign, Group: id}
			if s.broker.Propose(&s.o, Ref{}) == wire.CodeOK {
				continue
			}
			g.holdAt = min(g.holdAt, s.now.Add(retryPause))
		} else {
			g.holdAt = min(g.holdAt, s.instantOf(v.HoldUntil))
		}
		kept = append(kept, id)
	}
	g.holds = kept
}

// instantOf is the instant at which log time reaches t, as far as can be told.
func (s *Sessions) instantOf(t op.LogMillis) clock.Instant {
	now := s.broker.LogTime()
	if t <= now {
		return s.now
	}
	const longest = op.LogMillis(1 << 40) // whoever waits looks again then
	return s.now.Add(clock.Duration(min(t-now, longest)) * clock.Millisecond)
}

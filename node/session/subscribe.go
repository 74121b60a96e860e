package session

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// subscribe carries out SUB. The window that it asks for rides in the request's
// place in the ring, whose a and b are free until the Join is applied.
func (s *Sessions) subscribe(i uint32, c *conn, n uint64, payload []byte) {
	var m wire.Sub
	if err := m.Decode(payload); err != nil {
		s.refuseBad(i, c, n, err)
		return
	}
	if _, ok := s.view.Topic(op.TopicID(m.TopicID)); !ok {
		s.refuse(i, c, n, wire.CodeUnknownTopic, "no topic has this id: declare it first (mortarmq topics create NAME)")
		return
	}
	if len(c.subs) >= wire.MaxSubscriptionsPerConn || c.nextSub == 1<<16-1 {
		s.refuse(i, c, n, wire.CodeGroupAssignmentLimit, "this connection has 64 subscriptions: use another one for more")
		return
	}
	if s.memberCount >= idsMax {
		s.refuse(i, c, n, wire.CodeMetadataReadOnly, "the leader epoch has no ids left and gives way to the next: try again")
		return
	}
	w := s.firstWindow(m.CreditCount, m.CreditBytes)
	r := c.ring.at(n)
	r.a, r.b = uint64(w.count), w.bytes
	s.memberCount++
	s.o = op.Op{
		Kind: op.KindJoin, Topic: op.TopicID(m.TopicID), Name: m.Group, StartPolicy: uint8(m.StartPolicy),
		Member: op.MemberID(op.MakeID(s.epoch, s.memberCount)),
	}
	if m.Flags&wire.FlagSubMustExist != 0 {
		s.o.Flags = op.FlagMustExist
	}
	s.proposeBarrier(i, c, n)
}

// joined makes the subscription of an applied Join.
func (s *Sessions) joined(o *op.Op, res *machine.Result, ref Ref) {
	i, c, ok := s.waiting(ref)
	if res.Code != wire.CodeOK {
		if ok {
			s.refuse(i, c, ref.Arg, res.Code, res.Message)
		}
		return
	}
	if !ok {
		// Nobody will use this membership: the connection is gone, or it was told
		// that the outcome is unknown (cluster.md, "A SUB that commits after").
		if _, _, known := s.memberByID(res.Group, o.Member); !known {
			s.giveUp(orphan{res.Group, o.Member, op.CauseVanished})
		}
		return
	}
	g := &s.groups
	_, gr, ok := s.ensureGroup(res.Group)
	if !ok {
		panic("session: a group that was just joined is not there")
	}
	r := c.ring.at(ref.Arg)
	c.nextSub++
	k, u := g.subs.take()
	*u = sub{
		conn: i, id: c.nextSub, group: res.Group, topic: gr.topic, member: o.Member,
		membership: res.MembershipEpoch, assignment: res.AssignmentEpoch,
		lastSeen: s.watch.now, lanes: u.lanes[:0], served: -1,
		window: credit{uint32(r.a), r.b},
	}
	gr.members = append(gr.members, k)
	c.subs = append(c.subs, connSub{u.id, k})
	g.silence.lower(k, s.watch.now.Add(memberSilence))
	r.kind, r.small = answerSub, u.id
	r.a, r.b, r.c = uint64(u.member), uint64(u.membership), uint64(u.assignment)
	s.decided(i, c, ref.Arg)
}

// toldSub lets the notices of a subscription go: its SUB's OK is written.
func (s *Sessions) toldSub(i uint32, c *conn, id uint16) {
	_, u, ok := s.subOf(c, id)
	if !ok {
		return
	}
	u.ready = true
	_, gr, ok := s.groups.groupOf(u.group)
	if !ok {
		return
	}
	for _, l := range u.lanes {
		if ln := s.groups.lanes.at(l); !ln.told && !ln.revoking {
			s.assignNotice(gr, ln)
		}
	}
}

// heartbeat carries out HEARTBEAT, and LEAVE, which is a state of it.
func (s *Sessions) heartbeat(i uint32, c *conn, n uint64, payload []byte) {
	var m wire.Heartbeat
	if err := m.Decode(payload); err != nil {
		s.refuseBad(i, c, n, err)
		return
	}
	k, u, ok := s.subOf(c, m.SubscriptionID)
	if !ok || u.leaving || u.member != op.MemberID(m.MemberID) {
		s.refuse(i, c, n, wire.CodeUnknownMember, textNoSub)
		return
	}
	if m.State == wire.HeartbeatLeave {
		s.leave(i, c, n, k, u)
		return
	}
	if u.gone {
		s.refuse(i, c, n, wire.CodeUnknownTopic, textTopicGone)
		return
	}
	s.heard(u)
	if m.MembershipEpoch != u.membership || m.AssignmentEpoch != u.assignment {
		s.refuse(i, c, n, wire.CodeStaleGeneration, textStale)
		return
	}
	s.ok(i, c, n)
}

// leave ends a membership at its own wish.
func (s *Sessions) leave(i uint32, c *conn, n uint64, k uint32, u *sub) {
	if u.gone {
		s.removeSub(k, u)
		s.ok(i, c, n)
		return
	}
	s.o = op.Op{Kind: op.KindLeave, Group: u.group, Member: u.member, Cause: op.CauseLeave}
	s.proposeBarrier(i, c, n)
	u.leaving = c.ring.holds(n) && c.ring.at(n).kind == answerNone
}

// abandon gives up a subscription whose connection is gone.
func (s *Sessions) abandon(k uint32) {
	u := s.groups.subs.at(k)
	u.conn = none
	switch {
	case u.gone:
		s.removeSub(k, u)
	case s.stopping || u.leaving || fault.On("vanished_member_kept"):
		// A stop charges nobody: the next epoch drops the members (broker.md).
		u.leaving = true
	default:
		u.leaving = true
		s.giveUp(orphan{u.group, u.member, op.CauseVanished})
	}
}

// giveUp proposes the Leave of a membership, and keeps it in mind where that is
// refused.
func (s *Sessions) giveUp(p orphan) {
	s.o = op.Op{Kind: op.KindLeave, Group: p.group, Member: p.member, Cause: p.cause}
	if s.broker.Propose(&s.o, Ref{}) != wire.CodeOK {
		s.groups.orphans = append(s.groups.orphans, p)
		s.retrySoon()
	}
}

// giveUpOrphans tries again.
func (s *Sessions) giveUpOrphans() {
	pending := s.groups.orphans
	s.groups.orphans = nil
	for _, p := range pending {
		s.giveUp(p)
	}
}

// expireMembers gives up members that were silent for too long.
func (s *Sessions) expireMembers() {
	g := &s.groups
	for {
		k, ok := g.silence.due(s.watch.now)
		if !ok {
			return
		}
		u := g.subs.at(k)
		if u.leaving || u.gone {
			continue
		}
		if at := u.lastSeen.Add(memberSilence); at > s.watch.now {
			g.silence.lower(k, at)
			continue
		}
		u.leaving = true
		s.stats.Silenced++
		s.giveUp(orphan{u.group, u.member, op.CauseVanished})
	}
}

// memberByID finds the subscription of a member.
func (s *Sessions) memberByID(id op.GroupID, m op.MemberID) (uint32, *sub, bool) {
	_, gr, ok := s.groups.groupOf(id)
	if !ok {
		return none, nil, false
	}
	k, ok := s.memberOf(gr, m)
	if !ok {
		return none, nil, false
	}
	return k, s.groups.subs.at(k), true
}

// left ends the subscription of an applied Leave.
func (s *Sessions) left(o *op.Op, res *machine.Result) {
	k, u, ok := s.memberByID(o.Group, o.Member)
	switch res.Code {
	case wire.CodeOK, wire.CodeUnknownMember, wire.CodeUnknownGroup:
		if ok {
			s.removeSub(k, u)
		}
		if res.Dead {
			s.checkDeadGroup(o.Group)
		}
	default:
		// Its fate is unknown, or it was not taken. Who was given up stays given
		// up: had the member been served again, its Deliver ops could follow a
		// Leave that commits after all.
		s.groups.orphans = append(s.groups.orphans, orphan{o.Group, o.Member, o.Cause})
		s.retrySoon()
	}
}

// removeSub forgets a subscription and all that hangs on it.
func (s *Sessions) removeSub(k uint32, u *sub) {
	g := &s.groups
	s.detachSub(k, u)
	if u.conn != none {
		c := s.conns.at(u.conn)
		for j := range c.subs {
			if c.subs[j].sub == k {
				c.subs = append(c.subs[:j], c.subs[j+1:]...)
				break
			}
		}
		s.subGone(u.conn, c, u.id, wire.CodeUnknownMember, textNoSub)
	}
	lanes := u.lanes[:0]
	if cap(lanes) > 64 {
		lanes = nil
	}
	*u = sub{conn: none, lanes: lanes}
	g.subs.release(k)
}

// detachSub takes a subscription out of its group.
func (s *Sessions) detachSub(k uint32, u *sub) {
	g := &s.groups
	g.silence.remove(k)
	for len(u.lanes) > 0 {
		l := u.lanes[len(u.lanes)-1]
		s.endLane(l, g.lanes.at(l))
	}
	i, gr, ok := g.groupOf(u.group)
	if !ok || u.gone {
		return
	}
	for j, m := range gr.members {
		if m == k {
			gr.members = append(gr.members[:j], gr.members[j+1:]...)
			break
		}
	}
	if len(gr.members) == 0 {
		s.dropGroup(i, gr)
	}
}

// topicDeleted ends what reads a topic or its twin: the subscriptions stay, and
// say so.
func (s *Sessions) topicDeleted(res *machine.Result) {
	if res.Code != wire.CodeOK || res.Created != machine.CreatedDeleted {
		return
	}
	for _, id := range [2]op.TopicID{res.TopicID, res.TopicID + 1} {
		t := s.topic(id)
		for t.group != 0 {
			i := t.group - 1
			gr := s.groups.groups.at(i)
			for len(gr.members) > 0 {
				s.loseTopic(gr.members[len(gr.members)-1])
			}
			if t.group == i+1 { // it had no member left to take it along
				s.dropGroup(i, gr)
			}
		}
	}
}

// loseTopic makes a subscription one without a topic.
func (s *Sessions) loseTopic(k uint32) {
	u := s.groups.subs.at(k)
	s.detachSub(k, u)
	u.gone, u.leaving = true, false
	if u.conn == none {
		s.removeSub(k, u)
		return
	}
	s.subGone(u.conn, s.conns.at(u.conn), u.id, wire.CodeUnknownTopic, textTopicGone)
}

// retrySoon makes Tick come back to what was refused.
func (s *Sessions) retrySoon() { s.jobs.retryAt = min(s.jobs.retryAt, s.now.Add(retryPause)) }

// patientDeadline is the first deadline on the patient clock.
func (s *Sessions) patientDeadline() clock.Instant {
	g := &s.groups
	at := g.silence.earliest()
	if s.now >= g.pause {
		at = min(at, g.leases.earliest())
	}
	if len(g.revokes) > 0 {
		at = min(at, g.revokes[0].at)
	}
	return at
}

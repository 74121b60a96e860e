package session

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/node/op"
)

// groups holds what is volatile about consumer groups: those that have a member
// here, their lanes, subscriptions and deliveries.
type groups struct {
	groups slab[group]
	byID   []uint32 // by group id: index plus one
	lanes  slab[lane]
	subs   slab[sub]

	entries slab[entry]
	table   table
	leases  deadlines // lanes, by the first lease to end, on the patient clock
	silence deadlines // subscriptions, by when silence ends them, patient

	revokes []revoke     // in rising order of deadline
	orphans []orphan     // memberships to give up that could not be yet
	holds   []op.GroupID // groups that wait for Assign
	holdAt  clock.Instant
	pause   clock.Instant // Expire was refused: not again before this
}

// group is a consumer group with members here.
type group struct {
	id         op.GroupID
	topic      op.TopicID
	next       uint32 // group of the same topic, plus one
	members    []uint32
	lanes      []uint32 // by partition
	membership uint32
	assignment uint32
}

// lane is one partition of a group: what its owner is being sent.
//
// Invariants:
//
//  1. Every handed and unsettled sequence of the partition has exactly one entry:
//     out entries are in the lease list, waiting and
//     dead ones in due.
//  2. next is above every sequence that has an entry or ever was handed out.
//  3. Without an owner there are no entries.
type lane struct {
	group uint32
	part  op.PartitionID
	owner uint32 // subscription plus one, 0: nobody
	epoch op.OwnershipEpoch

	member   op.MemberID // of the owner, as the machine says
	told     bool        // ASSIGN was sent under this epoch
	revoking bool        // REVOKE was sent or is not needed: nothing more is delivered
	assignID uint64      // notice ids; they mean something to the owner's connection
	revokeID uint64
	noticed  [2][2]uint32 // membership and assignment epochs in them, by kind
	revoked  bool         // Revoked is in the log's queue

	next    op.Sequence
	entries uint32   // handed and unsettled
	out     list     // entries under a lease
	due     []uint32 // heap of waiting and dead entries by due time

	reading   bool          // a record is being read: OnRecords follows
	stuck     op.Sequence   // a record that is due and cannot be read, 0: none
	oversized clock.Instant // since when a message beyond the window is next, 0: it is not
}

// revoke is a partition that its owner was asked to give up.
type revoke struct {
	group op.GroupID
	part  op.PartitionID
	epoch op.OwnershipEpoch
	at    clock.Instant // patient
}

// orphan is a membership whose connection is gone, or that must not be.
type orphan struct {
	group  op.GroupID
	member op.MemberID
	cause  uint8
}

// groupOf finds a group that has members here.
func (g *groups) groupOf(id op.GroupID) (uint32, *group, bool) {
	if int(id) >= len(g.byID) || g.byID[id] == 0 {
		return none, nil, false
	}
	i := g.byID[id] - 1
	return i, g.groups.at(i), true
}

// laneOf finds a lane.
func (g *groups) laneOf(id op.GroupID, p op.PartitionID) (uint32, *lane, bool) {
	_, gr, ok := g.groupOf(id)
	if !ok || int(p) >= len(gr.lanes) {
		return none, nil, false
	}
	return gr.lanes[p], g.lanes.at(gr.lanes[p]), true
}

// ensureGroup gives the group, made from the machine's state if it has no
// members here yet.
func (s *Sessions) ensureGroup(id op.GroupID) (uint32, *group, bool) {
	g := &s.groups
	if i, gr, ok := g.groupOf(id); ok {
		return i, gr, true
	}
	v, ok := s.view.Group(id)
	if !ok {
		return none, nil, false
	}
	i, gr := g.groups.take()
	*gr = group{id: id, topic: v.Topic, members: gr.members[:0], lanes: gr.lanes[:0]}
	for p := range v.Partitions {
		l, ln := g.lanes.take()
		*ln = lane{group: i, part: op.PartitionID(p), out: emptyList, due: ln.due[:0]}
		gr.lanes = append(gr.lanes, l)
	}
	for int(id) >= len(g.byID) {
		g.byID = append(g.byID, 0)
	}
	g.byID[id] = i + 1
	t := s.topic(v.Topic)
	gr.next, t.group = t.group, i+1
	return i, gr, true
}

// dropGroup forgets a group without members.
func (s *Sessions) dropGroup(i uint32, gr *group) {
	g := &s.groups
	for _, l := range gr.lanes {
		ln := g.lanes.at(l)
		s.endLane(l, ln)
		g.leases.remove(l)
		if cap(ln.due) > 64 {
			ln.due = nil
		}
		g.lanes.release(l)
	}
	for at := &s.topic(gr.topic).group; *at != 0; at = &g.groups.at(*at - 1).next {
		if *at == i+1 {
			*at = gr.next
			break
		}
	}
	g.byID[gr.id] = 0
	*gr = group{members: gr.members[:0], lanes: gr.lanes[:0]}
	g.groups.release(i)
}

// forgetGroups forgets all groups and subscriptions: their epoch is over.
func (s *Sessions) forgetGroups() {
	for i := range s.conns.used {
		c := s.conns.at(i)
		if c.state == connFree {
			continue
		}
		c.subs = nil
		s.forgetPulls(i, c)
	}
	s.forgetRejects()
	for id := range s.topics {
		s.topics[id].group = 0
	}
	s.groups = groups{holdAt: clock.Never}
	s.jobs = jobs{retryAt: clock.Never}
}

// syncGroup compares what the members were told with the machine's state, and
// tells them the difference.
func (s *Sessions) syncGroup(id op.GroupID) {
	g := &s.groups
	i, gr, ok := g.groupOf(id)
	if !ok {
		return
	}
	v, ok := s.view.Group(id)
	if !ok {
		return // its topic goes: topicDeleted follows
	}
	gr.membership, gr.assignment = v.MembershipEpoch, v.AssignmentEpoch
	if v.HoldUntil != 0 {
		s.holdGroup(id, v.HoldUntil)
	}
	for _, l := range gr.lanes {
		s.syncLane(gr, l, g.lanes.at(l))
	}
	if len(gr.members) == 0 {
		s.dropGroup(i, gr)
	}
}

// syncLane brings one lane up to the machine's state.
func (s *Sessions) syncLane(gr *group, l uint32, ln *lane) {
	o, ok := s.view.Owner(gr.id, ln.part)
	if !ok {
		return
	}
	if o.Epoch != ln.epoch || o.Member != ln.member {
		s.endLane(l, ln)
		ln.epoch, ln.member = o.Epoch, o.Member
		if m, found := s.memberOf(gr, o.Member); found {
			s.startLane(gr, l, ln, m)
		}
		s.checkDead(gr.id, ln.part)
	}
	if o.Revoking && !ln.revoking && ln.owner != 0 {
		s.revokeLane(gr, l, ln)
	}
	if ln.owner != 0 && !ln.told && !ln.revoking {
		s.assignNotice(gr, ln)
	}
}

// memberOf finds the subscription that is a member.
func (s *Sessions) memberOf(gr *group, m op.MemberID) (uint32, bool) {
	if m == 0 {
		return none, false
	}
	for _, u := range gr.members {
		if s.groups.subs.at(u).member == m {
			return u, true
		}
	}
	return none, false
}

// startLane gives a lane to its owner: it goes on where the machine says.
func (s *Sessions) startLane(gr *group, l uint32, ln *lane, m uint32) {
	u := s.groups.subs.at(m)
	ln.owner = m + 1
	u.own(l, ln.part, &s.groups.lanes)
	cv, _ := s.view.Cursor(gr.id, ln.part)
	ln.next, ln.stuck = cv.NextFirst, 0
	if cv.Handed > 0 {
		s.loadLane(gr, l, ln)
	}
	s.wakeSub(u)
}

// endLane takes a lane from its owner, and all its deliveries with it.
func (s *Sessions) endLane(l uint32, ln *lane) {
	if ln.owner != 0 && ln.revoking && fault.On("credit_lost_on_revoke") {
		u := s.groups.subs.at(ln.owner - 1)
		u.window.count -= min(u.window.count, u.outLen)
	}
	s.clearLane(l, ln)
	if ln.owner != 0 {
		s.groups.subs.at(ln.owner - 1).disown(l)
	}
	*ln = lane{group: ln.group, part: ln.part, out: emptyList, due: ln.due[:0]}
}

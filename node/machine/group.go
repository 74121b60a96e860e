package machine

import (
	"slices"

	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

const (
	maxMembers = wire.MaxGroupMembers
	// MaxGroups bounds the groups of a cluster: ids are 16 bits and 0 is none.
	MaxGroups = 65_535
)

// Start policies of a group, as in SUB.
const (
	startEarliest uint8 = 0
	startLatest   uint8 = 1
)

// epochs are those of a group, or floors for the next one.
type epochs struct {
	membership uint32
	assignment uint32
	ownership  op.OwnershipEpoch
}

// group is a consumer group on one topic or twin.
type group struct {
	id              op.GroupID
	topic           op.TopicID
	startPolicy     uint8
	name            string
	membershipEpoch uint32
	assignmentEpoch uint32
	holdUntil       op.LogMillis // 0: partitions are assigned as members come
	memberCount     int
	revokes         int                     // owners that are revoking
	member          [maxMembers]op.MemberID // in rising order
	owners          []ownership             // by partition
	cursors         []cursor                // by partition
}

func (g *group) members() []op.MemberID { return g.member[:g.memberCount] }

// group finds a group; nil where there is none.
func (m *Machine) group(id op.GroupID) *group {
	if int(id) >= len(m.groups) {
		return nil
	}
	return m.groups[id]
}

// join is SUB: it adds a member and makes the group if need be.
func (m *Machine) join(o *op.Op, res *Result) {
	t, _ := m.topic(o.Topic)
	switch {
	case t == nil:
		res.refuse(wire.CodeUnknownTopic, "no such topic: declare it first")
		return
	case len(o.Name) == 0 || len(o.Name) > wire.MaxGroupLen || o.StartPolicy > startLatest || o.Member == 0:
		res.refuse(wire.CodeMalformedPayload, "the group's name or start policy breaks a rule")
		return
	}
	g := m.group(m.groupByName[string(o.Name)])
	switch {
	case g == nil && o.Flags&op.FlagMustExist != 0:
		res.refuse(wire.CodeUnknownGroup, "no such group: subscribe without MUST_EXIST to make it")
		return
	case g == nil && m.groupsLive >= MaxGroups:
		res.refuse(wire.CodeQuotaExceeded, "there are 65535 groups: delete one first")
		return
	case g != nil && g.topic != o.Topic:
		res.refuse(wire.CodeGroupExistsMismatch, m.View().ReadsAnother(g.topic))
		return
	case g != nil && g.memberCount == maxMembers:
		res.refuse(wire.CodeGroupMemberLimit, "the group has 10 members already")
		return
	case g != nil && memberIndex(g.members(), o.Member) >= 0:
		res.refuse(wire.CodeMalformedPayload, "the member id is taken")
		return
	}
	if g == nil {
		g = m.makeGroup(o, t)
	}
	at, _ := slices.BinarySearch(g.members(), o.Member)
	copy(g.member[at+1:g.memberCount+1], g.member[at:g.memberCount])
	g.member[at] = o.Member
	g.memberCount++
	g.membershipEpoch++
	if g.holdUntil == 0 {
		m.retarget(g)
	}
	m.mutation++
	g.report(o.Member, res)
}

// makeGroup makes an empty group with cursors at its start policy.
func (m *Machine) makeGroup(o *op.Op, t *topic) *group {
	id := m.lastGroup
	for {
		if id++; id == 0 {
			id = 1
		}
		if m.group(id) == nil {
			break
		}
	}
	m.lastGroup = id
	g := &group{
		id: id, topic: o.Topic, startPolicy: o.StartPolicy, name: string(o.Name),
		membershipEpoch: m.epochFloor.membership,
		assignmentEpoch: m.epochFloor.assignment,
	}
	m.addGroup(g, t.partitions)
	for p := range g.owners {
		g.owners[p].epoch = m.epochFloor.ownership + 1
		c := &g.cursors[p]
		if o.StartPolicy == startLatest {
			c.start = int64(m.lastSeq(g.topic, op.PartitionID(p)))
		}
		c.next = op.Sequence(c.start + 1)
	}
	return g
}

// addGroup puts g into its place.
func (m *Machine) addGroup(g *group, partitions uint16) {
	g.owners = make([]ownership, partitions)
	g.cursors = make([]cursor, partitions)
	for i := range g.cursors {
		g.cursors[i].next = 1
		g.cursors[i].saved = m.ckpt.generation
	}
	for len(m.groups) <= int(g.id) {
		m.groups = append(m.groups, nil)
	}
	m.groups[g.id] = g
	m.groupByName[g.name] = g.id
	m.groupsLive++
}

// leave removes a member. If it vanished, it is charged for what it was most
// likely working on.
func (m *Machine) leave(o *op.Op, res *Result) {
	g := m.group(o.Group)
	if g == nil {
		// Its topic was deleted in between: leaving is never refused.
		res.Group, res.Member = o.Group, o.Member
		return
	}
	at := memberIndex(g.members(), o.Member)
	if at < 0 {
		res.refuse(wire.CodeUnknownMember, "the member left already")
		return
	}
	if o.Cause == op.CauseVanished {
		res.Dead = m.chargeSuspects(g, o.Member)
	}
	copy(g.member[at:], g.member[at+1:g.memberCount])
	g.memberCount--
	g.member[g.memberCount] = 0
	g.membershipEpoch++
	if g.holdUntil == 0 {
		m.retarget(g)
	}
	m.mutation++
	g.report(o.Member, res)
}

// groupDelete removes a group without members.
func (m *Machine) groupDelete(o *op.Op, res *Result) {
	g := m.idleGroup(o.Group, res)
	if g == nil {
		return
	}
	m.removeGroup(g)
	m.mutation++
	res.Group = o.Group
}

// groupReset moves floor and start of a partition so that o.Sequence, cut to
// what exists, is delivered next. The counters stay, so start gives way.
func (m *Machine) groupReset(o *op.Op, res *Result) {
	g := m.idleGroup(o.Group, res)
	if g == nil {
		return
	}
	if int(o.Partition) >= len(g.cursors) {
		res.refuse(wire.CodeUnknownPartition, "the topic has fewer partitions")
		return
	}
	m.mutation++
	if m.metadataOnly {
		return
	}
	c := &g.cursors[o.Partition]
	m.keepCursor(g, o.Partition)
	if !fault.On("reset_keeps_entries") {
		m.clearLedger(g, o.Partition)
	}
	c.next = min(max(o.Sequence, 1), m.lastSeq(g.topic, o.Partition)+1)
	c.start = int64(c.next) - 1 - int64(c.delivered) - int64(c.dropped)
	res.Group, res.Sequence = o.Group, c.next
}

// idleGroup finds a group without members, or refuses.
func (m *Machine) idleGroup(id op.GroupID, res *Result) *group {
	g := m.group(id)
	switch {
	case g == nil:
		res.refuse(wire.CodeUnknownGroup, "no such group")
		return nil
	case g.memberCount > 0:
		res.refuse(wire.CodeGroupMemberLimit, "the group has members: stop its consumers first")
		return nil
	}
	return g
}

// removeGroup frees a group and raises the floors of later ones above it (M9).
func (m *Machine) removeGroup(g *group) {
	f := &m.epochFloor
	f.membership = max(f.membership, g.membershipEpoch)
	f.assignment = max(f.assignment, g.assignmentEpoch)
	for p := range g.owners {
		if !fault.On("epochs_restart_with_group") {
			f.ownership = max(f.ownership, g.owners[p].epoch)
		}
		m.keepCursor(g, op.PartitionID(p))
		m.clearLedger(g, op.PartitionID(p))
	}
	delete(m.groupByName, g.name)
	m.groups[g.id] = nil
	m.groupsLive--
}

// report fills in what SUB and LEAVE answer.
func (g *group) report(member op.MemberID, res *Result) {
	res.Group, res.Member, res.GroupChanged = g.id, member, g.id
	res.MembershipEpoch, res.AssignmentEpoch = g.membershipEpoch, g.assignmentEpoch
}

package fakebroker

import (
	"slices"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
)

const (
	revokeTimeout = 10 * clock.Second
	attemptsMax   = 5
)

// Group is one consumer group.
type Group struct {
	b       *Broker
	Name    string
	Topic   *Topic
	Lease   clock.Duration // default 30 s
	members []*member
	parts   []*cursor

	membership, assignment uint32

	// Settled says how each message ended, by partition and sequence.
	Settled []map[uint64]wire.NackReason // NackReason 0xFF: ACK
	// Delivered counts the MSGs of each message.
	Delivered []map[uint64]int
}

// Acked is what Settled holds for a message that was acknowledged.
const Acked wire.NackReason = 0xFF

// cursor is a partition of a group.
type cursor struct {
	n        uint16
	epoch    uint64
	owner    *member
	revoking bool
	notice   uint64
	deadline clock.Instant
	next     uint64 // the next first delivery
	open     []*entry
}

// entry is a delivered message that is not settled.
type entry struct {
	seq     uint64
	id      uint64
	attempt uint16
	charges int
	out     bool
	lease   clock.Instant
	due     clock.Instant
}

type member struct {
	g       *Group
	s       *Session
	sub     uint16
	id      uint64
	heard   clock.Instant
	told    [2]uint32
	gone    bool
	balance [2]int64
	taken   [2]int64
	// confirmed are ownership epochs whose REVOKE it has confirmed, by partition.
	confirmed map[uint16]uint64
}

// Group finds a group by name, nil where there is none.
func (b *Broker) Group(name string) *Group {
	for _, g := range b.Groups {
		if g.Name == name {
			return g
		}
	}
	return nil
}

func (b *Broker) makeGroup(name string, t *Topic, latest bool) *Group {
	g := &Group{b: b, Name: name, Topic: t, Lease: 30 * clock.Second}
	for i, p := range t.Partitions {
		c := &cursor{n: uint16(i), next: 1}
		if latest {
			c.next = uint64(len(p.Log) + 1)
		}
		g.parts = append(g.parts, c)
		g.Settled = append(g.Settled, map[uint64]wire.NackReason{})
		g.Delivered = append(g.Delivered, map[uint64]int{})
	}
	b.Groups = append(b.Groups, g)
	return g
}

// Members counts them.
func (g *Group) Members() int { return len(g.members) }

// Unsettled counts the messages of the topic that are not settled.
func (g *Group) Unsettled() int {
	n := 0
	for i, p := range g.Topic.Partitions {
		n += len(p.Log) - len(g.Settled[i])
	}
	return n
}

// Out counts the deliveries that are out.
func (g *Group) Out() int {
	n := 0
	for _, c := range g.parts {
		for _, e := range c.open {
			if e.out {
				n++
			}
		}
	}
	return n
}

func (g *Group) join(s *Session, m *wire.Sub) *member {
	o := &member{g: g, s: s, sub: uint16(len(s.members) + 1), id: g.b.nextID(), heard: g.b.Now, confirmed: map[uint16]uint64{}}
	o.balance = [2]int64{int64(m.CreditCount), int64(m.CreditBytes)}
	g.members = append(g.members, o)
	s.members = append(s.members, o)
	g.membership++
	o.told = [2]uint32{g.membership, g.assignment}
	return o
}

// leave ends a membership; vanished charges the oldest delivery of each partition.
func (m *member) leave(vanished bool) {
	if m.gone {
		return
	}
	m.gone = true
	g := m.g
	g.members = slices.DeleteFunc(g.members, func(o *member) bool { return o == m })
	g.membership++
	for _, c := range g.parts {
		if c.owner == m {
			g.release(c, vanished)
		}
	}
	g.rebalance()
}

// release takes a partition from its owner.
func (g *Group) release(c *cursor, charge bool) {
	c.owner, c.revoking = nil, false
	for _, e := range slices.Clone(c.open) {
		if e.out {
			e.out, e.due = false, g.b.Now
			if charge {
				charge = false
				g.charge(c, e, g.b.RetryBackoff)
			}
		}
	}
}

// charge spends an attempt.
func (g *Group) charge(c *cursor, e *entry, delay clock.Duration) {
	e.out = false
	e.charges++
	e.due = g.b.Now.Add(delay)
	if e.charges >= attemptsMax {
		g.settle(c, e, wire.NackReject)
	}
}

func (g *Group) settle(c *cursor, e *entry, how wire.NackReason) {
	g.Settled[c.n][e.seq] = how
	c.open = slices.DeleteFunc(c.open, func(o *entry) bool { return o == e })
}

// rebalance moves partitions to where they should be: by turns.
func (g *Group) rebalance() {
	if len(g.members) == 0 {
		return
	}
	g.assignment++
	for _, c := range g.parts {
		want := g.members[int(c.n)%len(g.members)]
		switch {
		case c.owner == want && !c.revoking:
		case c.owner == nil:
			g.assign(c, want)
		case !c.revoking:
			c.revoking, c.deadline = true, g.b.Now.Add(revokeTimeout)
			c.notice = g.notify(c, wire.NoticeRevoke)
		}
	}
}

func (g *Group) assign(c *cursor, to *member) {
	c.owner = to
	c.epoch++
	g.notify(c, wire.NoticeAssign)
}

func (g *Group) notify(c *cursor, kind wire.NoticeKind) uint64 {
	o := c.owner
	o.told = [2]uint32{g.membership, g.assignment}
	m := wire.Notice{NoticeID: g.b.nextID(), Kind: kind, GroupID: 1, MembershipEpoch: g.membership, AssignmentEpoch: g.assignment,
		OwnershipEpoch: c.epoch, TopicID: g.Topic.ID, Partition: c.n, MemberID: o.id}
	o.s.Out = m.Append(o.s.Out)
	return m.NoticeID
}

// revoked is the end of a REVOKE.
func (g *Group) revoked(c *cursor) {
	g.release(c, false)
	if len(g.members) > 0 {
		g.assign(c, g.members[int(c.n)%len(g.members)])
	}
}

// tick runs out leases, revokes and members.
func (g *Group) tick() {
	for _, c := range g.parts {
		if c.revoking && g.b.Now >= c.deadline {
			g.revoked(c)
		}
		for _, e := range slices.Clone(c.open) {
			if e.out && g.b.Now >= e.lease {
				g.charge(c, e, g.b.RetryBackoff)
			}
		}
	}
	for _, m := range slices.Clone(g.members) {
		if g.b.Now >= m.heard.Add(10*clock.Second) {
			m.leave(true)
		}
	}
}

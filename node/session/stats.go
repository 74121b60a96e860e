package session

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// Stats sums up what goes on, for the admin port.
type Stats struct {
	Connections   int // open now
	Unanswered    int // requests without an answer
	WaitingPulls  int
	Subscriptions int
	Deliveries    int // handed out or to be redelivered, over all lanes

	Refused        uint64 // connections turned away
	Messages       uint64 // MSG sent
	Expired        uint64 // leases that ended
	Silenced       uint64 // members given up because they were silent
	Unreadable     uint64 // records that could not be read when they were due
	DeliverRefused uint64 // Deliver ops that came to nothing
	// Rejected counts ERR frames by code. Borrowed until the next turn.
	Rejected map[wire.Code]uint64
}

// Stats gives the sums. It walks the connections: it is for people, not for
// every turn.
func (s *Sessions) Stats() Stats {
	out := s.stats
	out.Connections = s.conns.inUse()
	for i := range s.conns.used {
		c := s.conns.at(i)
		out.Unanswered += c.ring.len()
		if c.pulls != nil {
			out.WaitingPulls += c.pulls.n
		}
	}
	out.Subscriptions = s.groups.subs.inUse()
	out.Deliveries = s.groups.entries.inUse()
	return out
}

// Explain says what a partition of a group waits for here.
type Explain struct {
	Owned       bool
	Member      op.MemberID
	Told        bool // the owner was told that it owns the partition
	Revoking    bool
	Leaving     bool // the owner is being given up
	Out         uint32
	Waiting     int            // deliveries that wait for their due time, dead ones included
	NextDue     op.LogMillis   // of the earliest of them, 0: none
	NextFirst   op.Sequence    // next first delivery
	LeaseEnds   clock.Duration // until the first lease ends, 0: none
	Full        bool           // 65 536 handed out and unsettled
	Reading     bool           // a record is being read
	Stuck       bool           // a record cannot be read
	Oversized   bool           // the next message is larger than the window
	Pulling     bool           // the owner has a PULL waiting
	Behind      bool           // its connection does not take what it was sent
	WindowCount uint32         // the owner's credit
	WindowBytes uint64         //
	LeftCount   uint32         // its balance
	LeftBytes   uint64         //
	Installed   uint32         // last assignment_epoch that the owner confirmed
	LastHeard   clock.Duration // since the owner was last heard of
}

// Explain looks at one partition of a group.
func (s *Sessions) Explain(id op.GroupID, part op.PartitionID) Explain {
	g := &s.groups
	_, ln, ok := g.laneOf(id, part)
	if !ok {
		return Explain{}
	}
	x := Explain{
		Owned: ln.owner != 0, Member: ln.member, Told: ln.told, Revoking: ln.revoking, Waiting: len(ln.due),
		NextFirst: ln.next, Full: ln.entries >= maxUnsettled, Reading: ln.reading, Stuck: ln.stuck != 0, Oversized: ln.oversized != 0,
	}
	x.Out = ln.entries - uint32(len(ln.due))
	if len(ln.due) > 0 {
		if at := g.entries.at(ln.due[0]).at; at != never {
			x.NextDue = op.LogMillis(at)
		}
	}
	if ln.out.head != none {
		x.LeaseEnds = max(0, clock.Instant(g.entries.at(ln.out.head).at).Sub(s.watch.now))
	}
	if ln.owner == 0 {
		return x
	}
	u := g.subs.at(ln.owner - 1)
	b := u.balance()
	x.Leaving, x.Installed, x.LastHeard = u.leaving, u.installed, s.watch.now.Sub(u.lastSeen)
	x.WindowCount, x.WindowBytes, x.LeftCount, x.LeftBytes = u.window.count, u.window.bytes, b.count, b.bytes
	if u.conn != none {
		c := s.conns.at(u.conn)
		x.Behind = s.outputFull(c)
		x.Pulling = c.pulls != nil && c.pulls.n > 0 && c.pulls.q[0].sub == u.id
	}
	return x
}

// IDsUsedUp says that this epoch has no delivery ids left (broker.md,
// "Delivery"): the leader must start a new one.
func (s *Sessions) IDsUsedUp() bool { return s.given >= idsMax || s.memberCount >= idsMax }

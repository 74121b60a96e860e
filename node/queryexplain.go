package node

import (
	"strconv"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/session"
	"github.com/mortarmq/mortarmq/wire"
)

// Hold is the one thing that keeps a partition of a group from moving on.
type Hold string

// The holds, in the order in which they are looked for: what stops everything
// comes first, then what the lowest unsettled message waits for.
const (
	HoldDiskFull   Hold = "disk_full"         // nothing is acknowledged
	HoldNoGroup    Hold = "no_group"          // nobody reads the topic
	HoldNothing    Hold = "nothing"           // everything is settled
	HoldReturning  Hold = "members_return"    // after a restart: they have a second
	HoldNoMembers  Hold = "no_members"        //
	HoldRevoking   Hold = "revoking"          // the partition is being moved
	HoldLeaving    Hold = "owner_leaving"     // its owner is being given up
	HoldUntold     Hold = "owner_not_told"    // its owner has just got it
	HoldWindowFull Hold = "window_full"       // 65 536 handed out and unsettled
	HoldDeadLetter Hold = "dead_letter"       // it waits for its dead letter
	HoldLease      Hold = "leased"            // its consumer has it
	HoldBackoff    Hold = "backoff"           // its next delivery is not due yet
	HoldUnreadable Hold = "unreadable"        // it cannot be read
	HoldTooLarge   Hold = "message_too_large" // it is larger than the owner's window
	HoldNoCredit   Hold = "no_credit"         // the owner gave back too little credit
	HoldNoPull     Hold = "no_pull"           // the owner does not ask for more
	HoldReading    Hold = "reading"           // it is being read from disk
	HoldBehind     Hold = "client_behind"     // the owner's connection does not take what it was sent
	HoldPullWaits  Hold = "pull_waits"        // a PULL waits for its min_bytes
)

// Explanation says why a partition of a group does not move. Group is empty
// where nobody reads the topic.
type Explanation struct {
	Topic     string
	Partition uint16
	Group     string
	State     string
	LastSeq   uint64
	Holds     Hold
	Why       string
	Sequence  uint64 // the lowest unsettled message, 0 for none
	Cursor    machine.CursorView
	Owner     machine.OwnerView
	Session   session.Explain
	NextDue   clock.WallMillis // of the earliest redelivery, 0: none
	Damage    *DamageInfo      // of the partition, nil: it is whole
}

// explain answers for one group, or for all that read the topic.
func (n *Node) explain(q *waitingQuery, a *Answer) {
	t, ok := n.view.TopicByName([]byte(q.Topic))
	if !ok {
		a.refuse(wire.CodeUnknownTopic, textNoTopic)
		return
	}
	if q.Partition >= t.Partitions {
		a.refuse(wire.CodeUnknownPartition, "the topic has "+strconv.Itoa(int(t.Partitions))+" partitions, counted from 0")
		return
	}
	if q.Group != "" {
		g, ok := n.view.GroupByName([]byte(q.Group))
		switch {
		case !ok:
			a.refuse(wire.CodeUnknownGroup, textNoGroup)
		case g.Topic != t.ID:
			a.refuse(wire.CodeGroupExistsMismatch, n.view.ReadsAnother(g.Topic))
		default:
			a.Explained = append(a.Explained, n.explainGroup(t, g, q.Partition))
		}
		return
	}
	for g, ok := n.view.NextGroup(0); ok; g, ok = n.view.NextGroup(g.ID) {
		if g.Topic == t.ID {
			a.Explained = append(a.Explained, n.explainGroup(t, g, q.Partition))
		}
	}
	if len(a.Explained) == 0 {
		a.Explained = append(a.Explained, Explanation{
			Damage: n.damageOf(t.ID, op.PartitionID(q.Partition)), Topic: t.Name, Partition: q.Partition, LastSeq: uint64(n.view.LastSeq(t.ID, op.PartitionID(q.Partition))),
			Holds: HoldNoGroup, Why: "no group reads the topic",
		})
	}
}

func (n *Node) explainGroup(t machine.TopicView, g machine.GroupView, p uint16) Explanation {
	part := op.PartitionID(p)
	c, _ := n.view.Cursor(g.ID, part)
	o, _ := n.view.Owner(g.ID, part)
	x := Explanation{
		Topic: t.Name, Partition: p, Group: g.Name, State: stateName(n.groupState(g)), LastSeq: uint64(c.LastSeq),
		Cursor: c, Owner: o, Session: n.sessions.Explain(g.ID, part), Damage: n.damageOf(t.ID, part),
	}
	if d := x.Session.NextDue; d != 0 {
		x.NextDue = n.wallAt(d)
	}
	if c.Unsettled > 0 {
		x.Sequence = uint64(c.Floor) + 1
	}
	x.Holds, x.Why = n.hold(g, &x)
	return x
}

// hold finds what stops everything, else what the lowest unsettled message waits
// for.
func (n *Node) hold(g machine.GroupView, x *Explanation) (Hold, string) {
	s := &x.Session
	switch {
	case n.stalled:
		return HoldDiskFull, "the disk is full: nothing is acknowledged until space is freed"
	case x.Sequence == 0:
		return HoldNothing, "everything is settled"
	case n.groupState(g) == machine.GroupHeld:
		return HoldReturning, "the broker started: the group's members have a second to come back"
	case len(g.Members) == 0:
		return HoldNoMembers, "the group has no members: start a consumer"
	case s.Leaving:
		return HoldLeaving, "its owner was silent or lost its connection and is being given up"
	case x.Owner.Revoking:
		return HoldRevoking, "the partition moves from member " + utoa(uint64(x.Owner.Member)) + " to " + utoa(uint64(x.Owner.Target)) + ", which waits for the old owner's CONTROL_ACK, at most 10 s"
	case !s.Owned || !s.Told:
		return HoldUntold, "member " + utoa(uint64(x.Owner.Member)) + " owns the partition and was not told yet: its SUB is being answered"
	case s.Full:
		return HoldWindowFull, "65536 messages are handed out and unsettled: settle some of them"
	}
	d, ok := n.view.Delivery(g.ID, op.PartitionID(x.Partition), op.Sequence(x.Sequence))
	if !ok && op.Sequence(x.Sequence) < s.NextFirst {
		// It was sent, and its Deliver is not applied yet.
		d, ok = machine.DeliveryView{Attempts: 1, State: machine.DeliveryOut}, true
	}
	if ok {
		if h, why := n.holdDelivered(&d, x); h != "" {
			return h, why
		}
	}
	return n.holdDue(g, x)
}

// holdDelivered looks at a message that was delivered before; it finds nothing
// if that is due again.
func (n *Node) holdDelivered(d *machine.DeliveryView, x *Explanation) (Hold, string) {
	message := "message " + utoa(x.Sequence)
	state := d.State
	if state == machine.DeliveryWaiting && x.Session.Waiting == 0 && x.Session.Out > 0 {
		state = machine.DeliveryOut // sent again, as above
	}
	switch state {
	case machine.DeliveryDead:
		why := message + " has used up its attempts and waits for its dead letter to be written"
		if n.space.low {
			why += ": free space is below storage_reserve"
		}
		return HoldDeadLetter, why
	case machine.DeliveryOut:
		why := message + " is with member " + utoa(uint64(x.Owner.Member)) + ", delivery " + utoa(uint64(d.Attempts)) + " of it, and is not acknowledged"
		if x.Session.LeaseEnds > 0 {
			why += "; the first lease of the partition ends in " + millis(x.Session.LeaseEnds)
		}
		return HoldLease, why
	case machine.DeliveryWaiting:
		if now := n.replica.LogTime(n.now.Mono); d.Due > now {
			return HoldBackoff, message + " was given back or its lease ran out (" + utoa(uint64(d.Charges)) + " attempts are charged); its next delivery is due in " +
				millis(clock.Duration(d.Due-now)*clock.Millisecond)
		}
	}
	return "", ""
}

// holdDue looks for what keeps a message that is due from its owner.
func (n *Node) holdDue(g machine.GroupView, x *Explanation) (Hold, string) {
	s := &x.Session
	message := "message " + utoa(x.Sequence)
	rec, found := n.record(g.Topic, op.PartitionID(x.Partition), op.Sequence(x.Sequence))
	size := uint64(len(rec.Value))
	switch {
	case s.Stuck || found == session.LookupDamaged || found == session.LookupMissing:
		return HoldUnreadable, message + " cannot be read: run mortarmq verify on the stopped broker"
	case size > s.WindowBytes || s.Oversized:
		return HoldTooLarge, message + " has " + utoa(size) + " bytes, its owner's window " + utoa(s.WindowBytes) + ": raise credit_bytes"
	case s.LeftCount == 0 || s.LeftBytes == 0 || size > s.LeftBytes:
		return HoldNoCredit, "member " + utoa(uint64(x.Owner.Member)) + " has credit for " + utoa(uint64(s.LeftCount)) + " messages and " + utoa(s.LeftBytes) + " bytes left: it gave back too little"
	case !s.Pulling:
		return HoldNoPull, "member " + utoa(uint64(x.Owner.Member)) + " does not ask for more; it was heard " + millis(s.LastHeard) + " ago"
	case s.Behind:
		return HoldBehind, "member " + utoa(uint64(x.Owner.Member)) + " does not read what it was sent: its connection is full"
	case s.Reading || found == session.LookupPending:
		return HoldReading, message + " is being read from disk"
	}
	return HoldPullWaits, "a PULL of member " + utoa(uint64(x.Owner.Member)) + " waits for more: there are fewer than its min_bytes"
}

// wallAt gives wall-clock time at a log time, as far as can be told.
func (n *Node) wallAt(t op.LogMillis) clock.WallMillis {
	now := n.replica.LogTime(n.now.Mono)
	if t < now {
		return n.now.Wall
	}
	return n.now.Wall + clock.WallMillis(t-now)
}

func utoa(v uint64) string { return strconv.FormatUint(v, 10) }

func millis(d clock.Duration) string { return strconv.FormatInt(d.Millis(), 10) + " ms" }

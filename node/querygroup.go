package node

import (
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// GroupInfo is a line of `groups list`; Partitions are the lines of `groups
// describe` and stand only in the answer to QueryGroup.
type GroupInfo struct {
	ID              uint16
	Name            string
	Topic           string
	State           string
	Members         int
	MembershipEpoch uint32
	AssignmentEpoch uint32
	Lag             uint64
	Partitions      []GroupPartition
}

// GroupPartition is one partition of a group. Member is 0 where nobody owns it.
type GroupPartition struct {
	Partition      uint16
	Member         uint64
	OwnershipEpoch uint64
	Revoking       bool
	Cursor         machine.CursorView
}

// groupState gives a group's state. One whose members had their time to come
// back after a restart, and did not, is empty: it stays held until one comes.
func (n *Node) groupState(g machine.GroupView) machine.GroupState {
	if g.State == machine.GroupHeld && len(g.Members) == 0 && n.replica.LogTime(n.now.Mono) >= g.HoldUntil {
		return machine.GroupEmpty
	}
	return g.State
}

// stateName names a group's state, as the command line and /stats do.
func stateName(s machine.GroupState) string {
	switch s {
	case machine.GroupHeld:
		return "held"
	case machine.GroupRebalancing:
		return "rebalancing"
	case machine.GroupStable:
		return "stable"
	case machine.GroupEmpty:
	}
	return "empty"
}

func (n *Node) answerGroups(q *waitingQuery, a *Answer) {
	if q.Kind == QueryGroup {
		g, ok := n.view.GroupByName([]byte(q.Group))
		if !ok {
			a.refuse(wire.CodeUnknownGroup, textNoGroup)
			return
		}
		a.Groups = append(a.Groups, n.groupInfo(g, true))
		return
	}
	only := op.TopicID(0)
	if q.Topic != "" {
		t, ok := n.view.TopicByName([]byte(q.Topic))
		if !ok {
			a.refuse(wire.CodeUnknownTopic, textNoTopic)
			return
		}
		only = t.ID
	}
	for g, ok := n.view.NextGroup(0); ok; g, ok = n.view.NextGroup(g.ID) {
		if only == 0 || g.Topic == only {
			a.Groups = append(a.Groups, n.groupInfo(g, false))
		}
	}
}

const textNoGroup = "no such group: mortarmq groups list names them"

// groupInfo sums a group up, with a line per partition if each is set.
func (n *Node) groupInfo(g machine.GroupView, each bool) GroupInfo {
	info := GroupInfo{
		ID: uint16(g.ID), Name: g.Name, State: stateName(n.groupState(g)), Members: len(g.Members),
		MembershipEpoch: g.MembershipEpoch, AssignmentEpoch: g.AssignmentEpoch,
	}
	if t, ok := n.view.Topic(g.Topic); ok {
		info.Topic = t.Name
	}
	for p := range g.Partitions {
		c, _ := n.view.Cursor(g.ID, op.PartitionID(p))
		info.Lag += c.Unsettled
		if !each {
			continue
		}
		o, _ := n.view.Owner(g.ID, op.PartitionID(p))
		info.Partitions = append(info.Partitions, GroupPartition{
			Partition: p, Member: uint64(o.Member), OwnershipEpoch: uint64(o.Epoch), Revoking: o.Revoking, Cursor: c,
		})
	}
	return info
}

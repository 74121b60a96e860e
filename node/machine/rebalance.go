package machine

import (
	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// ownership says who owns a partition within a group, and who shall.
//
// Invariants (M7, M8):
//
//  1. owner is 0 or a member; so is target.
//  2. Unless revoking, owner == target.
//  3. While revoking, owner is a member: it was told to give the partition up,
//     and loses it by Revoked or Leave even if target is owner again.
//  4. epoch has had no owner but owner; where owner is 0 it has had none.
type ownership struct {
	owner    op.MemberID
	target   op.MemberID
	epoch    op.OwnershipEpoch
	revoking bool
}

// retarget computes the group's target assignment from its members and carries
// out what needs nobody's consent. The assignment before, which assign moves as
// little of as it can, is that of the last targets: a move under way goes on
// unless its target left.
func (m *Machine) retarget(g *group) {
	var buf [wire.MaxPartitions]op.MemberID
	targets := buf[:len(g.owners)]
	for p := range g.owners {
		targets[p] = g.owners[p].target
	}
	assign(g.members(), targets)
	changed := false
	g.revokes = 0
	for p := range g.owners {
		w := &g.owners[p]
		if w.target != targets[p] {
			w.target, changed = targets[p], true
		}
		switch {
		case w.owner == 0:
			w.owner = w.target
		case memberIndex(g.members(), w.owner) < 0:
			w.handOver()
		case w.owner != w.target:
			w.revoking = true
		}
		if w.revoking {
			g.revokes++
		}
	}
	if changed {
		g.assignmentEpoch++
	}
}

// handOver ends the owner's time and starts the target's. Everything delivered
// under the epoch that ends is due again by that alone (ledger.go).
func (w *ownership) handOver() {
	if !fault.On("ownership_epoch_not_raised") || w.target == 0 {
		w.epoch++
		assert(w.epoch != 0, 7)
	}
	w.owner, w.revoking = w.target, false
}

// revoked ends a revoke: the owner confirmed it, or did not answer in time.
func (m *Machine) revoked(o *op.Op, res *Result) {
	g := m.group(o.Group)
	switch {
	case g == nil:
		res.refuse(wire.CodeUnknownTopic, "the group's topic was deleted")
		return
	case int(o.Partition) >= len(g.owners):
		res.refuse(wire.CodeUnknownPartition, "the topic has fewer partitions")
		return
	}
	w := &g.owners[o.Partition]
	if !w.revoking || w.owner != o.Member {
		res.refuse(wire.CodeStaleOwner, "nothing is being revoked from this member")
		return
	}
	w.handOver()
	g.revokes--
	m.mutation++
	g.report(o.Member, res)
}

// assignHeld ends the wait of a group for its members after EpochStart.
func (m *Machine) assignHeld(o *op.Op, res *Result) {
	g := m.group(o.Group)
	switch {
	case g == nil:
		res.refuse(wire.CodeUnknownTopic, "the group's topic was deleted")
		return
	case g.holdUntil == 0 || m.logTime < g.holdUntil:
		res.refuse(wire.CodeStaleGeneration, "the group is not held, or not long enough yet")
		return
	}
	g.holdUntil = 0
	m.retarget(g)
	m.mutation++
	g.report(0, res)
}

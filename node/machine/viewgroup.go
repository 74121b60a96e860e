package machine

import "github.com/mortarmq/mortarmq/node/op"

// GroupByName finds a group.
func (v View) GroupByName(name []byte) (GroupView, bool) {
	return v.Group(v.m.groupByName[string(name)])
}

// Group finds a group by id.
func (v View) Group(id op.GroupID) (GroupView, bool) {
	g := v.m.group(id)
	if g == nil {
		return GroupView{}, false
	}
	return GroupView{
		ID: g.id, Name: g.name, Topic: g.topic, Partitions: uint16(len(g.owners)),
		MembershipEpoch: g.membershipEpoch, AssignmentEpoch: g.assignmentEpoch,
		HoldUntil: g.holdUntil, State: g.state(), StartPolicy: g.startPolicy, Members: g.members(),
	}, true
}

func (g *group) state() GroupState {
	switch {
	case g.holdUntil != 0:
		return GroupHeld
	case g.memberCount == 0:
		return GroupEmpty
	case g.revokes > 0:
		return GroupRebalancing
	}
	return GroupStable
}

// NextGroup gives the group with the lowest id above after.
func (v View) NextGroup(after op.GroupID) (GroupView, bool) {
	for id := int(after) + 1; id < len(v.m.groups); id++ {
		if v.m.groups[id] != nil {
			return v.Group(op.GroupID(id))
		}
	}
	return GroupView{}, false
}

// Groups gives the number of groups.
func (v View) Groups() int { return v.m.groupsLive }

// Owner says who owns a partition.
func (v View) Owner(id op.GroupID, p op.PartitionID) (OwnerView, bool) {
	g := v.m.group(id)
	if g == nil || int(p) >= len(g.owners) {
		return OwnerView{}, false
	}
	w := &g.owners[p]
	return OwnerView{Member: w.owner, Target: w.target, Epoch: w.epoch, Revoking: w.revoking}, true
}

// cursor finds a cursor; nil where there is none.
func (v View) cursor(id op.GroupID, p op.PartitionID) (*group, *cursor) {
	g := v.m.group(id)
	if g == nil || int(p) >= len(g.cursors) {
		return nil, nil
	}
	return g, &g.cursors[p]
}

// Cursor says how far a group is with a partition.
func (v View) Cursor(id op.GroupID, p op.PartitionID) (CursorView, bool) {
	g, c := v.cursor(id, p)
	if c == nil {
		return CursorView{}, false
	}
	last := v.m.lastSeq(g.topic, p)
	return CursorView{
		Floor: v.m.floor(c), NextFirst: c.next, LastSeq: last, Start: c.start,
		Unsettled: uint64(last+1-c.next) + uint64(c.count), Handed: c.count, Dead: c.dead,
		Delivered: c.delivered, Dropped: c.dropped, DLQ: c.dlq, Quarantined: c.quarantined, Retries: c.retries,
	}, true
}

// Delivery gives the ledger's entry of a sequence that was delivered and is not
// settled.
func (v View) Delivery(id op.GroupID, p op.PartitionID, s op.Sequence) (DeliveryView, bool) {
	g, c := v.cursor(id, p)
	if c == nil {
		return DeliveryView{}, false
	}
	n := v.m.findEntry(c, s)
	if n == 0 {
		return DeliveryView{}, false
	}
	return v.m.ledger.at(n).view(g.owners[p].epoch), true
}

// NextDelivery gives the entry with the lowest sequence above after. Walking on
// from an entry takes constant time; from elsewhere the list is searched.
func (v View) NextDelivery(id op.GroupID, p op.PartitionID, after op.Sequence) (DeliveryView, bool) {
	g, c := v.cursor(id, p)
	if c == nil {
		return DeliveryView{}, false
	}
	n := c.head
	if at := v.m.findEntry(c, after); at != 0 {
		n = v.m.ledger.at(at).next
	}
	for n != 0 && v.m.ledger.at(n).seq <= after {
		n = v.m.ledger.at(n).next
	}
	if n == 0 {
		return DeliveryView{}, false
	}
	return v.m.ledger.at(n).view(g.owners[p].epoch), true
}

// Settled says whether the group has settled s.
func (v View) Settled(id op.GroupID, p op.PartitionID, s op.Sequence) bool {
	_, c := v.cursor(id, p)
	return c != nil && s > 0 && s < c.next && v.m.findEntry(c, s) == 0
}

func (e *entry) view(current op.OwnershipEpoch) DeliveryView {
	state, due := e.effective(current)
	return DeliveryView{
		Sequence: e.seq, Delivery: e.delivery, Ownership: e.ownership,
		Attempts: e.attempts, Charges: e.charges, State: state, Due: due,
	}
}

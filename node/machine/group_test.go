package machine

import (
	"fmt"
	"testing"

	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// Goal: SUB's refusals, and the start policy of the first SUB is kept.
func TestJoin(t *testing.T) {
	l := newLog(t, op.Settings{})
	a, b := l.topic("a", 2), l.topic("b", 1)
	l.publish(a, 1, 5)
	join := op.Op{Kind: op.KindJoin, Topic: a, Name: []byte("g"), Member: 1000, StartPolicy: startLatest}
	must := join
	must.Flags = op.FlagMustExist
	l.refused(wire.CodeUnknownGroup, must)
	unknown := join
	unknown.Topic = 9
	l.refused(wire.CodeUnknownTopic, unknown)
	r := l.must(join)
	if r.MembershipEpoch != 1 || r.AssignmentEpoch != 1 || r.GroupChanged != r.Group {
		t.Fatalf("%+v", r)
	}
	other := join
	other.Topic, other.Member = b, 1001
	l.refused(wire.CodeGroupExistsMismatch, other)
	for i := range 9 {
		must.Member, must.StartPolicy = op.MemberID(1001+i), startEarliest
		if r := l.must(must); int(r.MembershipEpoch) != 2+i {
			t.Fatalf("%+v", r)
		}
	}
	must.Member = 2000
	l.refused(wire.CodeGroupMemberLimit, must)
	if c := l.cursor(r.Group, 1); c.Start != 5 || c.NextFirst != 6 || c.Floor != 5 || c.Unsettled != 0 {
		t.Fatalf("%+v", c)
	}
	l.publish(a, 1, 2)
	if c := l.cursor(r.Group, 1); c.Unsettled != 2 {
		t.Fatalf("%+v", c)
	}
}

// Goal: what stays keeps its ownership epoch; what moves is revoked first, and
// its deliveries are fenced when it has moved; a member that left gives up at
// once, also in the middle of a revoke.
func TestRebalance(t *testing.T) {
	l := newLog(t, op.Settings{})
	id := l.topic("t", 4)
	l.publish(id, 2, 2)
	g, m1 := l.join("g", id)
	d, own := l.deliver(g, 2, 1, 2)
	_, m2 := l.join("g", id)
	owners := func() (s string) {
		for p := range op.PartitionID(4) {
			w, _ := l.v.Owner(g, p)
			s += fmt.Sprintf("%d>%d@%d", w.Member-m1+1, w.Target-m1+1, w.Epoch)
			if w.Revoking {
				s += "!"
			}
			s += " "
		}
		return s
	}
	x := m2 - m1 + 1
	if got, want := owners(), fmt.Sprintf("1>1@1 1>1@1 1>%d@1! 1>%d@1! ", x, x); got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	// Until the revoke ends, the old owner settles.
	l.must(op.Op{Kind: op.KindAck, Group: g, Partition: 2, Sequence: 1, Delivery: d, Ownership: own})
	revoked := op.Op{Kind: op.KindRevoked, Group: g, Partition: 2, Member: m1, Cause: op.CauseConfirmed}
	l.must(revoked)
	l.refused(wire.CodeStaleOwner, revoked)
	l.refused(wire.CodeStaleOwner, op.Op{Kind: op.KindAck, Group: g, Partition: 2, Sequence: 2, Delivery: d + 1, Ownership: own})
	l.refused(wire.CodeNotOwner, op.Op{Kind: op.KindAck, Group: g, Partition: 2, Sequence: 2, Delivery: d + 1, Ownership: own + 2})
	l.refused(wire.CodeStaleOwner, op.Op{Kind: op.KindAck, Group: g, Partition: 2, Sequence: 2, Delivery: d + 1, Ownership: own + 1})
	if v, _ := l.v.Delivery(g, 2, 2); v.State != DeliveryWaiting || v.Due != 0 || v.Charges != 0 {
		t.Fatalf("%+v", v)
	}
	if gv, _ := l.v.Group(g); gv.State != GroupRebalancing || gv.AssignmentEpoch != 2 {
		t.Fatalf("%+v", gv)
	}
	l.must(op.Op{Kind: op.KindLeave, Group: g, Member: m1})
	if got, want := owners(), fmt.Sprintf("%d>%d@2 %d>%d@2 %d>%d@2 %d>%d@2 ", x, x, x, x, x, x, x, x); got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	l.refused(wire.CodeUnknownMember, op.Op{Kind: op.KindLeave, Group: g, Member: m1})
}

// Goal: EpochStart drops the members, charges nobody, makes everything due, and
// the group waits a second for its members.
func TestEpochStart(t *testing.T) {
	l := newLog(t, op.Settings{})
	id := l.topic("t", 2)
	l.publish(id, 0, 3)
	g, member := l.join("g", id)
	empty, gone := l.join("empty", id)
	l.must(op.Op{Kind: op.KindLeave, Group: empty, Member: gone})
	d, own := l.deliver(g, 0, 1, 3)
	l.h.Epoch, l.h.LogTime = 2, 5000
	l.must(op.Op{Kind: op.KindEpochStart})
	gv, _ := l.v.Group(g)
	if len(gv.Members) != 0 || gv.HoldUntil != 6000 || gv.State != GroupHeld || gv.MembershipEpoch != 2 {
		t.Fatalf("%+v", gv)
	}
	if ev, _ := l.v.Group(empty); ev.HoldUntil != 0 || ev.State != GroupEmpty {
		t.Fatalf("%+v", ev)
	}
	l.refused(wire.CodeUnknownMember, op.Op{Kind: op.KindLeave, Group: g, Member: member})
	l.refused(wire.CodeStaleOwner, op.Op{Kind: op.KindAck, Group: g, Sequence: 1, Delivery: d, Ownership: own})
	for s := op.Sequence(1); s <= 3; s++ {
		if v, _ := l.v.Delivery(g, 0, s); v.State != DeliveryWaiting || v.Due != 0 || v.Charges != 0 || v.Attempts != 1 {
			t.Fatalf("%+v", v)
		}
	}
	_, m1 := l.join("g", id)
	l.join("g", id)
	if w, _ := l.v.Owner(g, 0); w.Member != 0 || w.Epoch != own+1 {
		t.Fatalf("%+v", w)
	}
	l.refused(wire.CodeStaleOwner, op.Op{Kind: op.KindDeliver, Group: g, Sequence: 1, Count: 1, Delivery: 9, Ownership: own + 1})
	l.refused(wire.CodeStaleGeneration, op.Op{Kind: op.KindAssign, Group: g})
	l.h.LogTime = 6000
	l.must(op.Op{Kind: op.KindAssign, Group: g})
	if w, _ := l.v.Owner(g, 0); w.Member != m1 || w.Epoch != own+1 {
		t.Fatalf("%+v", w)
	}
	l.deliver(g, 0, 1, 3)
}

// Goal: groups delete and reset work only without members; a reset keeps the
// books, with a start that may be negative.
func TestGroupResetDelete(t *testing.T) {
	l := newLog(t, op.Settings{})
	id := l.topic("t", 1)
	l.publish(id, 0, 10)
	g, member := l.join("g", id)
	d, own := l.deliver(g, 0, 1, 8)
	for i := range 6 {
		l.must(op.Op{Kind: op.KindAck, Group: g, Sequence: op.Sequence(i + 1), Delivery: d + op.DeliveryID(i), Ownership: own})
	}
	reset := op.Op{Kind: op.KindGroupReset, Group: g, Sequence: 1}
	l.refused(wire.CodeGroupMemberLimit, reset)
	l.refused(wire.CodeGroupMemberLimit, op.Op{Kind: op.KindGroupDelete, Group: g})
	l.must(op.Op{Kind: op.KindLeave, Group: g, Member: member})
	l.must(reset)
	if c := l.cursor(g, 0); c.Floor != 0 || c.Start != -6 || c.Delivered != 6 || c.Unsettled != 10 || c.Handed != 0 {
		t.Fatalf("%+v", c)
	}
	reset.Sequence = 99
	if r := l.must(reset); r.Sequence != 11 {
		t.Fatalf("%+v", r)
	}
	if c := l.cursor(g, 0); c.Floor != 10 || c.Start != 4 || c.Unsettled != 0 {
		t.Fatalf("%+v", c)
	}
	reset.Partition = 1
	l.refused(wire.CodeUnknownPartition, reset)
	l.must(op.Op{Kind: op.KindGroupDelete, Group: g})
	l.refused(wire.CodeUnknownGroup, op.Op{Kind: op.KindGroupDelete, Group: g})
	if l.v.Groups() != 0 {
		t.Fatal(l.v.Groups())
	}
}

// Goal: 65535 groups fit, one more is refused, and a deleted one makes room.
func TestGroupsEnd(t *testing.T) {
	l := newLog(t, op.Settings{})
	id := l.topic("t", 1)
	var res Result
	for i := range MaxGroups {
		l.m.Apply(&l.h, &op.Op{Kind: op.KindJoin, Topic: id, Name: fmt.Append(nil, i), Member: op.MemberID(i + 1)}, &res)
		if res.Code != wire.CodeOK || int(res.Group) != i+1 {
			t.Fatalf("%d: %+v", i, res)
		}
		l.m.Apply(&l.h, &op.Op{Kind: op.KindLeave, Group: res.Group, Member: op.MemberID(i + 1)}, &res)
	}
	one := op.Op{Kind: op.KindJoin, Topic: id, Name: []byte("one more"), Member: 1}
	l.m.Apply(&l.h, &one, &res)
	if res.Code != wire.CodeQuotaExceeded {
		t.Fatalf("%+v", res)
	}
	l.m.Apply(&l.h, &op.Op{Kind: op.KindGroupDelete, Group: 77}, &res)
	l.m.Apply(&l.h, &one, &res)
	if res.Code != wire.CodeOK || res.Group != 77 {
		t.Fatalf("%+v", res)
	}
}

// Goal: the view finds what there is, by name, by id and in order, and nothing
// else.
func TestView(t *testing.T) {
	l := newLog(t, op.Settings{})
	id := l.topic("t", 1)
	a, _ := l.join("a", id)
	b, _ := l.join("b", id)
	var ids []op.GroupID
	for g, ok := l.v.NextGroup(0); ok; g, ok = l.v.NextGroup(g.ID) {
		ids = append(ids, g.ID)
	}
	if len(ids) != 2 || ids[0] != a || ids[1] != b {
		t.Fatal(ids)
	}
	if g, ok := l.v.GroupByName([]byte("b")); !ok || g.ID != b || g.Name != "b" {
		t.Fatalf("%+v", g)
	}
	if _, ok := l.v.GroupByName([]byte("c")); ok {
		t.Fatal("found c")
	}
	if n, epoch, _ := l.v.Applied(); n != l.h.Number || epoch != 1 || l.v.Settings().DeliveryMaxAttempts != 5 {
		t.Fatal(n, epoch, l.v.Settings())
	}
	if _, ok := l.v.Cursor(a, 1); ok {
		t.Fatal("a cursor of no partition")
	}
	if _, ok := l.v.Owner(99, 0); ok {
		t.Fatal("an owner of no group")
	}
	if _, ok := l.v.Delivery(99, 0, 1); ok {
		t.Fatal("a delivery of no group")
	}
	if _, ok := l.v.NextDelivery(a, 9, 0); ok {
		t.Fatal("a delivery of no partition")
	}
	if _, ok := l.v.Partition(id, 1); ok || l.v.LastSeq(id, 1) != 0 {
		t.Fatal("no such partition")
	}
	if l.v.Settled(a, 0, 1) || l.v.Settled(a, 0, 0) {
		t.Fatal("settled, but not there")
	}
}

package node

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/wire"
)

// explained asks about partition 0 of orders for group g.
func (s *stage) explained() Explanation {
	s.t.Helper()
	return s.must(Query{Kind: QueryExplain, Topic: "orders", Group: "g"}).Explained[0]
}

func (s *stage) holds(want Hold, seq uint64, words string) Explanation {
	s.t.Helper()
	x := s.explained()
	if x.Holds != want || x.Sequence != seq || !strings.Contains(x.Why, words) {
		s.t.Fatalf("%s: %q (sequence %d), want %s %d %q", x.Holds, x.Why, x.Sequence, want, seq, words)
	}
	return x
}

// Goal: explain names the one thing that holds a partition up, in each case that
// can be set up with clients alone.
func TestExplainMember(t *testing.T) {
	s := newStage(t, func(c *Config) { c.Settings.DeliveryMaxAttempts = 5 })
	p := s.connect()
	orders := p.declare("orders", 1)
	x := s.must(Query{Kind: QueryExplain, Topic: "orders"}).Explained
	if len(x) != 1 || x[0].Holds != HoldNoGroup || x[0].Group != "" {
		t.Fatalf("%+v", x)
	}
	p.join(orders, "g", 1, 3)
	s.holds(HoldNothing, 0, "settled")
	p.publish(orders, 0, "a", "b", "c", "d")
	s.holds(HoldNoPull, 1, "does not ask")
	msgs := p.consume(3)
	s.holds(HoldLease, 1, "not acknowledged") // its Deliver is not applied yet
	s.pass(clock.Second)
	y := s.holds(HoldLease, 1, "not acknowledged")
	if y.Session.Out != 3 || y.Session.LeaseEnds != 29*clock.Second || uint64(y.Owner.Member) != p.sub.MemberID || y.Cursor.Handed != 3 {
		t.Fatalf("%+v", y)
	}
	p.nack(&msgs[0], wire.NackRetry, 5000)
	y = s.holds(HoldBackoff, 1, "due in 49")
	if in := y.NextDue - s.now.Wall; !strings.Contains(y.Why, fmt.Sprintf("due in %d ms", in)) {
		t.Fatalf("due in %d: %s", in, y.Why)
	}
	p.ack(&msgs[1])
	p.ack(&msgs[2])
	s.pass(5 * clock.Second)
	s.holds(HoldNoCredit, 1, "credit for 0 messages")
	p.ok((&wire.Credit{SubscriptionID: p.sub.SubscriptionID, MembershipEpoch: p.told.MembershipEpoch, Mode: wire.CreditAdd, CreditCount: 3, CreditBytes: 3}).Append(nil))
	p.pull(10, 5000, 1000)
	s.turn()
	s.holds(HoldPullWaits, 1, "min_bytes")
	s.in = append(s.in, Input{Kind: InputNet, Net: net.Event{Kind: net.EventProgress, Conn: p.id, Queued: 2 << 20}})
	s.turn()
	s.holds(HoldBehind, 1, "does not read")
	s.in = append(s.in, Input{Kind: InputNet, Net: net.Event{Kind: net.EventProgress, Conn: p.id}})
	s.pass(6 * clock.Second) // the PULL's time is over: it takes what there is
	p.result()
	if err := msgs[0].Decode(p.take(wire.OpMsg)); err != nil {
		t.Fatal(err)
	}
	s.holds(HoldLease, 1, "")
	p.nack(&msgs[0], wire.NackRelease, 60_000)
	s.holds(HoldBackoff, 1, "1 attempts are charged")
	p.leave()
	s.holds(HoldNoMembers, 1, "no members")

	q := s.connect()
	q.join(orders, "g", 1, 0)
	s.kill()
	s.holds(HoldReturning, 1, "come back")
	s.pass(2 * clock.Second)
	s.holds(HoldNoMembers, 1, "")
	for _, bad := range []Query{
		{Topic: "nothing"}, {Topic: "orders", Partition: 1}, {Topic: "orders", Group: "nobody"}, {Topic: "orders.dlq", Group: "g"},
	} {
		bad.Kind = QueryExplain
		if a := s.ask(bad); a.Code == wire.CodeOK {
			t.Fatalf("%+v", a)
		}
	}
}

// Goal: explain names a rebalance that waits, and an owner that is given up.
func TestExplainRebalance(t *testing.T) {
	s := newStage(t, nil)
	p, q := s.connect(), s.connect()
	orders := p.declare("orders", 2)
	p.publish(orders, 0, "a")
	p.publish(orders, 1, "b")
	p.join(orders, "g", 2, 0)
	q.ok((&wire.Sub{Group: []byte("g"), TopicID: orders, Partition: wire.PartitionAny}).Append(nil))
	moving := false
	for part := range uint16(2) {
		x := s.must(Query{Kind: QueryExplain, Topic: "orders", Partition: part, Group: "g"}).Explained[0]
		moving = moving || x.Holds == HoldRevoking && strings.Contains(x.Why, "CONTROL_ACK") && x.State == "rebalancing"
	}
	if !moving {
		t.Fatal("no partition is being revoked")
	}
	// A connection that breaks while the journal does not take its Leave.
	s.disk.StallUntil(disk.LaneJournal, s.now.Mono.Add(clock.Hour))
	p.drop()
	s.turn()
	leaving := false
	for part := range uint16(2) {
		leaving = leaving || s.must(Query{Kind: QueryExplain, Topic: "orders", Partition: part, Group: "g"}).Explained[0].Holds == HoldLeaving
	}
	if !leaving {
		t.Fatal("the owner that lost its connection is not told")
	}
}

// Goal: explain names a message beyond the window, one that waits for its dead
// letter, one that cannot be read, a full window and a full disk.
func TestExplainMessage(t *testing.T) {
	s := newStage(t, nil)
	p := s.connect()
	orders := p.declare("orders", 1)
	p.publish(orders, 0, strings.Repeat("x", 5000))
	m := wire.Sub{Group: []byte("g"), TopicID: orders, Partition: wire.PartitionAny, CreditCount: 5, CreditBytes: 4000}
	if err := p.sub.Decode(p.ok(m.Append(nil))); err != nil {
		t.Fatal(err)
	}
	p.take(wire.OpNotice)
	s.holds(HoldTooLarge, 1, "5000 bytes, its owner's window 4000")
	p.drop()
	s.until("the member's end", func() bool { return s.explained().Holds == HoldNoMembers })

	s.disk.SetCapacity(s.disk.Used() + 4096)
	s.until("low space", func() bool { return s.node.space.low })
	q := s.connect()
	q.join(orders, "g", 1, 0)
	msg := q.consume(1)[0]
	q.nack(&msg, wire.NackRetry, 0) // attempts are 1: it is dead, and cannot be buried
	s.holds(HoldDeadLetter, 1, "storage_reserve")
	s.disk.SetCapacity(1 << 40)
	s.until("the dead letter", func() bool { return s.explained().Holds == HoldNothing })

	s.disk.StallUntil(disk.LaneRead, s.now.Mono.Add(clock.Minute))
	q.publish(orders, 0, "y")
	s.disk.StallUntil(disk.LaneRead, 0)
	q.drop()
	s.forget()
	r := s.connect()
	r.join(orders, "g", 1, 0)
	s.disk.StallUntil(disk.LaneRead, s.now.Mono.Add(clock.Minute))
	r.pull(1, 5000, 1)
	s.turn()
	s.holds(HoldReading, 2, "being read")
	for _, path := range s.disk.Files() {
		if strings.HasPrefix(path, "topics/") && strings.HasSuffix(path, ".mqs") {
			s.disk.Rot(path, s.disk.Size(path)-3, []byte{0xFF})
		}
	}
	s.disk.StallUntil(disk.LaneRead, 0)
	s.until("the damage", func() bool { return s.explained().Holds == HoldUnreadable })
	s.holds(HoldUnreadable, 2, "verify")
}

// Goal: explain tells an owner that was not told yet: its SUB is answered behind
// a request that waits for a read.
func TestExplainUntold(t *testing.T) {
	s := newStage(t, func(c *Config) { c.Store.ReadCacheBytes = 256 << 10 })
	p := s.connect()
	orders, other := p.declare("orders", 1), p.declare("other", 1)
	p.publish(orders, 0, "a")
	for range 40 {
		p.publish(other, 0, strings.Repeat("x", 60_000))
	}
	s.forget()
	p = s.connect()
	p.join(orders, "g", 1, 0)
	m := p.consume(1)[0]
	for from := []uint64{1}; from[0] <= 40; { // its record leaves the cache
		from = s.must(Query{Kind: QueryTail, Topic: "other", From: from, Max: 4}).Next
	}
	s.disk.StallUntil(disk.LaneRead, s.now.Mono.Add(clock.Minute))
	reject := wire.Nack{SubscriptionID: m.SubscriptionID, TopicID: m.TopicID, Seq: m.Sequence, DeliveryID: m.DeliveryID, OwnershipEpoch: m.OwnershipEpoch, Reason: wire.NackReject}
	p.send((&wire.Sub{Group: []byte("h"), TopicID: orders, Partition: wire.PartitionAny}).Append(reject.Append(nil)))
	s.until("the second group", func() bool { return len(s.must(Query{Kind: QueryGroups, Topic: "orders"}).Groups) == 2 })
	x := s.must(Query{Kind: QueryExplain, Topic: "orders", Group: "h"}).Explained[0]
	if x.Holds != HoldUntold || x.Owner.Member == 0 || !strings.Contains(x.Why, "SUB is being answered") {
		t.Fatalf("%s: %s", x.Holds, x.Why)
	}
}

// Goal: explain says that a group has as many messages handed out as it may.
func TestExplainWindowFull(t *testing.T) {
	s := newStage(t, nil)
	p := s.connect()
	orders := p.declare("orders", 1)
	var batch []byte
	for range 512 {
		batch = (&wire.Pub{TopicID: orders, Value: []byte("v")}).Append(batch)
	}
	for range wire.MaxUnsettled/512 + 1 {
		p.send(batch)
		for range 512 {
			p.result()
		}
	}
	p.join(orders, "g", 1, 65535)
	p.consume(65535)
	p.ok((&wire.Credit{SubscriptionID: p.sub.SubscriptionID, MembershipEpoch: p.told.MembershipEpoch, Mode: wire.CreditAdd, CreditCount: 65535, CreditBytes: 1 << 20}).Append(nil))
	p.consume(1)
	s.holds(HoldWindowFull, 1, "65536")
}

// Goal: explain says that the disk is full before anything else.
func TestExplainDiskFull(t *testing.T) {
	s := newStage(t, nil)
	p := s.connect()
	orders := p.declare("orders", 1)
	p.join(orders, "g", 1, 0)
	p.publish(orders, 0, "v")
	s.disk.SetCapacity(s.disk.Used())
	pub := (&wire.Pub{TopicID: orders, Value: make([]byte, 1<<20)}).Append(nil)
	for range 16 {
		p.send(pub)
	}
	s.until("the stall", func() bool { return s.node.stalled })
	s.holds(HoldDiskFull, 1, "disk is full")
}

// Goal: docs/operations.md says what to do about each hold.
func TestExplainDocs(t *testing.T) {
	data, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []Hold{
		HoldDiskFull, HoldNoGroup, HoldNothing, HoldReturning, HoldNoMembers, HoldLeaving, HoldRevoking, HoldUntold, HoldWindowFull, HoldDeadLetter,
		HoldLease, HoldBackoff, HoldUnreadable, HoldTooLarge, HoldNoCredit, HoldNoPull, HoldReading, HoldBehind, HoldPullWaits,
	} {
		if !strings.Contains(string(data), "| `"+string(h)+"` |") {
			t.Errorf("docs/operations.md lacks %s", h)
		}
	}
}

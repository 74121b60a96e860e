package machine

import (
	"testing"

	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// Goal: ACK 1 and 3, the lease of 2 expires, 2 comes again, ACK 2: the floor
// reaches 3; and an ACK counts between expiry and the next delivery.
func TestFloor(t *testing.T) {
	l := newLog(t, op.Settings{})
	id := l.topic("t", 1)
	l.publish(id, 0, 4)
	g, _ := l.join("g", id)
	d, own := l.deliver(g, 0, 1, 3)
	settle := func(k op.Kind, seq op.Sequence, d op.DeliveryID) op.Op {
		return op.Op{Kind: k, Group: g, Sequence: seq, Delivery: d, Ownership: own}
	}
	l.must(settle(op.KindAck, 1, d))
	l.must(settle(op.KindAck, 3, d+2))
	l.refused(wire.CodeUnknownDelivery, settle(op.KindAck, 3, d+2))
	if c := l.cursor(g, 0); c.Floor != 1 || c.NextFirst != 4 || c.Handed != 1 || c.Unsettled != 2 {
		t.Fatalf("%+v", c)
	}
	l.h.LogTime = 30_000
	r := l.must(settle(op.KindExpire, 2, d+1))
	if r.Due < 30_900 || r.Due > 31_100 || r.Dead {
		t.Fatalf("%+v", r)
	}
	l.refused(wire.CodeUnknownDelivery, settle(op.KindExpire, 2, d+1))
	l.refused(wire.CodeUnknownDelivery, settle(op.KindNack, 2, d+1))
	d2, _ := l.deliver(g, 0, 2, 1)
	l.refused(wire.CodeUnknownDelivery, settle(op.KindAck, 2, d+1))
	if v, _ := l.v.Delivery(g, 0, 2); v.Attempts != 2 || v.Charges != 1 || v.State != DeliveryOut {
		t.Fatalf("%+v", v)
	}
	l.must(settle(op.KindExpire, 2, d2))
	l.must(settle(op.KindAck, 2, d2))
	if c := l.cursor(g, 0); c.Floor != 3 || c.Delivered != 3 || c.Retries != 1 {
		t.Fatalf("%+v", c)
	}
}

// delivered is a group on topic "t" with n messages handed out.
func delivered(t *testing.T, s op.Settings, n int) (l *log, o op.Op, member op.MemberID) {
	l = newLog(t, s)
	id := l.topic("t", 1)
	l.publish(id, 0, n)
	g, member := l.join("g", id)
	d, own := l.deliver(g, 0, 1, uint32(n))
	return l, op.Op{Group: g, Sequence: 1, Delivery: d, Ownership: own}, member
}

// Goal: NACK's reasons and delays: retry charges and backs off, release does
// neither, a delay replaces the backoff and is cut at 24 hours.
func TestNack(t *testing.T) {
	for _, c := range []struct {
		name    string
		reason  uint8
		flags   uint8
		delay   uint32
		from    op.LogMillis
		to      op.LogMillis
		charges uint16
	}{
		{"retry", op.NackRetry, 0, 0, 900, 1100, 1},
		{"retry with delay", op.NackRetry, op.FlagDelay, 7, 7, 7, 1},
		{"retry at once", op.NackRetry, op.FlagDelay, 0, 0, 0, 1},
		{"release", op.NackRelease, 0, 0, 0, 0, 0},
		{"release with delay", op.NackRelease, op.FlagDelay, 5000, 5000, 5000, 0},
		{"release for long", op.NackRelease, op.FlagDelay, 1 << 31, 86_400_000, 86_400_000, 0},
	} {
		l, o, _ := delivered(t, op.Settings{}, 1)
		l.h.LogTime = 100
		o.Kind, o.Reason, o.Flags, o.DelayMillis = op.KindNack, c.reason, c.flags, c.delay
		r := l.must(o)
		v, _ := l.v.Delivery(o.Group, 0, 1)
		if r.Due < 100+c.from || r.Due > 100+c.to || v.Due != r.Due || v.Charges != c.charges || v.State != DeliveryWaiting {
			t.Errorf("%s: %+v %+v", c.name, r, v)
		}
		l.refused(wire.CodeUnknownDelivery, o)
	}
}

// Goal: the backoff doubles from base to the maximum, give or take a tenth, and
// depends on nothing but charges and delivery id.
func TestBackoff(t *testing.T) {
	m := New()
	low, high := uint64(1<<62), uint64(0)
	for charges, want := range []uint64{1000, 2000, 4000, 8000, 16_000, 30_000, 30_000} {
		for id := range op.DeliveryID(500) {
			d := uint64(m.backoff(&entry{charges: uint16(charges), delivery: id}))
			if d < want*9/10 || d > min(want*11/10, 30_000) {
				t.Fatalf("%d ms after charge %d", d, charges+1)
			}
			if charges == 0 {
				low, high = min(low, d), max(high, d)
			}
		}
	}
	if low > 905 || high < 1095 {
		t.Fatalf("jitter from %d to %d", low, high)
	}
	m.settings.RetryBackoffBaseMs, m.settings.RetryBackoffMaxMs = 1<<32-1, 1<<32-1
	if d := m.backoff(&entry{charges: 65_535}); d != 1<<32-1 {
		t.Fatal(d)
	}
}

// Goal: a member that vanishes is charged for the lowest message that it holds
// and for nothing else; LEAVE and a stop charge nothing.
func TestLeaveCauses(t *testing.T) {
	for _, cause := range []uint8{op.CauseLeave, op.CauseVanished, op.CauseStop} {
		l, o, member := delivered(t, op.Settings{}, 4)
		ack := o
		ack.Kind = op.KindAck
		l.must(ack)
		nack := o
		nack.Kind, nack.Sequence, nack.Delivery = op.KindNack, 2, o.Delivery+1
		l.must(nack)
		l.h.LogTime = 10
		l.must(op.Op{Kind: op.KindLeave, Group: o.Group, Member: member, Cause: cause})
		for seq, charges := range map[op.Sequence]uint16{2: 1, 3: 0, 4: 0} {
			if cause == op.CauseVanished && seq == 3 {
				charges = 1
			}
			v, _ := l.v.Delivery(o.Group, 0, seq)
			if due := v.Due != 0; v.Charges != charges || v.State != DeliveryWaiting || due != (charges == 1) {
				t.Errorf("cause %d: %+v", cause, v)
			}
		}
	}
}

// Goal: five crashes of a consumer on one poison message dead-letter it and
// leave its 255 neighbours uncharged.
func TestPoison(t *testing.T) {
	l := newLog(t, op.Settings{})
	id := l.topic("t", 1)
	l.publish(id, 0, 256)
	for i := range 5 {
		g, member := l.join("g", id)
		l.deliver(g, 0, 1, 256)
		r := l.must(op.Op{Kind: op.KindLeave, Group: g, Member: member, Cause: op.CauseVanished})
		if r.Dead != (i == 4) {
			t.Fatalf("crash %d: %+v", i+1, r)
		}
		l.h.LogTime += 30_000
	}
	c := l.cursor(1, 0)
	if v, _ := l.v.Delivery(1, 0, 1); v.State != DeliveryDead || c.Dead != 1 || c.Handed != 256 {
		t.Fatalf("%+v %+v", v, c)
	}
	for v, ok := l.v.NextDelivery(1, 0, 1); ok; v, ok = l.v.NextDelivery(1, 0, v.Sequence) {
		if v.Charges != 0 || v.Attempts != 5 {
			t.Fatalf("%+v", v)
		}
	}
}

// Goal: at the bound of unsettled messages first deliveries wait, redeliveries do
// not, and any settle makes room; far settled ones cost nothing.
func TestUnsettledBound(t *testing.T) {
	l := newLog(t, op.Settings{})
	m := l.m
	id := l.topic("t", 1)
	g, _ := l.join("g", id)
	var res Result
	for range wire.MaxUnsettled + 1000 {
		m.Apply(&l.h, &op.Op{Kind: op.KindPublish, Topic: id}, &res)
	}
	deliver := func(seq op.Sequence, n uint32, d op.DeliveryID) uint64 {
		m.Apply(&l.h, &op.Op{Kind: op.KindDeliver, Group: g, Sequence: seq, Count: n, Delivery: d, Ownership: 1}, &res)
		return res.Count
	}
	settle := func(k op.Kind, seq op.Sequence, d op.DeliveryID) Result {
		m.Apply(&l.h, &op.Op{Kind: k, Group: g, Sequence: seq, Delivery: d, Ownership: 1}, &res)
		return res
	}
	if n := deliver(1, wire.MaxUnsettled, 1); n != wire.MaxUnsettled {
		t.Fatal(n)
	}
	if n := deliver(wire.MaxUnsettled+1, 5, 1<<20); n != 0 {
		t.Fatal(n)
	}
	settle(op.KindExpire, 40_000, 40_000)
	if n := deliver(40_000, 1, 1<<21); n != 1 {
		t.Fatal(n)
	}
	if r := settle(op.KindAck, 50_000, 50_000); r.Code != wire.CodeOK {
		t.Fatalf("%+v", r)
	}
	if n := deliver(wire.MaxUnsettled+1, 5, 1<<20); n != 1 {
		t.Fatal(n)
	}
	// Everything but the first is settled; new ones flow past it.
	for seq := op.Sequence(2); seq <= wire.MaxUnsettled; seq++ {
		d := op.DeliveryID(seq)
		if seq == 40_000 {
			d = 1 << 21
		}
		if r := settle(op.KindAck, seq, d); r.Code != wire.CodeOK && seq != 50_000 {
			t.Fatalf("%d: %+v", seq, r)
		}
	}
	if n := deliver(wire.MaxUnsettled+2, 900, 1<<22); n != 900 {
		t.Fatal(n)
	}
	if c := l.cursor(g, 0); c.Floor != 0 || c.Handed != 902 {
		t.Fatalf("%+v", c)
	}
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
}

// Goal: a Deliver that is stale, skips a sequence, or comes for what is settled
// does nothing; attempts count deliveries and stop at 65535.
func TestDeliver(t *testing.T) {
	l, o, _ := delivered(t, op.Settings{}, 3)
	l.publish(1, 0, 5)
	deliver := o
	deliver.Kind, deliver.Count = op.KindDeliver, 1
	deliver.Sequence, deliver.Delivery = 5, 900
	if r := l.must(deliver); r.Count != 0 {
		t.Fatalf("skips 4: %+v", r)
	}
	deliver.Sequence, deliver.Count = 4, 100
	if r := l.must(deliver); r.Count != 5 {
		t.Fatalf("beyond the log: %+v", r)
	}
	deliver.Ownership++
	l.refused(wire.CodeNotOwner, deliver)
	deliver.Ownership -= 2
	l.refused(wire.CodeStaleOwner, deliver)
	ack := o
	ack.Kind = op.KindAck
	l.must(ack)
	deliver = o
	deliver.Kind, deliver.Count, deliver.Delivery = op.KindDeliver, 2, 1000
	if r := l.must(deliver); r.Count != 1 {
		t.Fatalf("1 is settled: %+v", r)
	}
	l.m.ledger.at(l.m.findEntry(&l.m.group(o.Group).cursors[0], 2)).attempts = 65_534
	for range 3 {
		deliver.Delivery += 10
		l.must(deliver)
	}
	if v, _ := l.v.Delivery(o.Group, 0, 2); v.Attempts != 65_535 || v.Delivery != deliver.Delivery+1 {
		t.Fatalf("%+v", v)
	}
}

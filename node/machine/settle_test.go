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

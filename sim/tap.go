package sim

import (
	"github.com/mortarmq/mortarmq/checker"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/wire"
)

// tap reads what a client core is sent, before the core does: the history holds
// every MSG as it arrived, whatever the core makes of it (it queues, replaces
// and drops).
type tap struct {
	conn   net.ConnID
	reader wire.FrameReader
	member uint64 // of the core's one subscription
	credit allowance
}

// take notes what an event brings.
func (t *tap) take(c *client, e *net.Event) {
	switch e.Kind {
	case net.EventOpened:
		*t = tap{conn: e.Conn}
	case net.EventBytes:
		if e.Conn != t.conn {
			return
		}
		t.reader.Feed(e.Data)
		for {
			f, ok, err := t.reader.Next()
			if err != nil || !ok {
				return
			}
			t.frame(c, f)
		}
	}
}

func (t *tap) frame(c *client, f wire.Frame) {
	switch f.Op {
	case wire.OpErr:
		var e wire.Err
		if e.Decode(f.Payload) == nil && e.RequestOp != wire.OpNone {
			t.credit.answered(true)
		}
	case wire.OpOK:
		t.credit.answered(false)
		var ok wire.OK
		var sub wire.SubResult
		if ok.Decode(f.Payload) == nil && ok.RequestOp == wire.OpSub && sub.Decode(ok.Result) == nil {
			t.member = sub.MemberID
		}
	case wire.OpMsg:
		var m wire.Msg
		if m.Decode(f.Payload) != nil {
			return
		}
		if !t.credit.take(&m) {
			c.w.finding(PropertyCredit, "client %d was sent sequence %d beyond its credit: %d messages and %d bytes are left", c.id, m.Sequence, t.credit.count, t.credit.bytes)
			return
		}
		if m.Attempt > 1 {
			c.w.marks.Mark("sim.redelivered")
		}
		c.w.rec.h.Deliveries = append(c.w.rec.h.Deliveries, checker.Delivery{
			Client: c.id, Group: c.group(), Member: t.member, Partition: c.partitionOf(m.TopicID, m.Partition), Sequence: m.Sequence, DeliveryID: m.DeliveryID,
			Ownership: m.OwnershipEpoch, Attempt: m.Attempt, Payload: identity(m.Key, m.Value), At: checker.Time(c.w.now),
		})
	}
}

package sim

import (
	"github.com/mortarmq/mortarmq/checker"
	"github.com/mortarmq/mortarmq/client/core"
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/sim/prng"
	"github.com/mortarmq/mortarmq/wire"
)

// consumerSide is what a client does with what it is handed.
type consumerSide struct {
	calm bool
	// open are settlements that have no answer yet.
	open []openSettle
}

type openSettle struct {
	index    int // in the history
	delivery uint64
}

// delivery decides what becomes of what the core hands out: the chance is the
// message's and the attempt's own. (That it came is for tap.go to note.)
func (s *consumerSide) delivery(c *client, d *core.Delivery) {
	c.w.note("delivery", uint64(c.id), uint64(d.Partition), d.Sequence, d.DeliveryID)
	r := prng.New(prng.Mix(c.spec.Seed, d.Sequence<<16|uint64(d.Partition)<<8|uint64(d.Attempt)))
	settle, think := core.SettleAck, clock.Duration(0)
	if t := c.spec.Int("think", 0); t > 0 {
		think = clock.Duration(r.Range(0, 2*t))
	}
	draw := int64(r.Intn(1000))
	for _, choice := range [...]struct {
		name   string
		settle core.Settle
	}{{"retry", core.SettleRetry}, {"reject", core.SettleReject}, {"release", core.SettleRelease}, {"ignore", core.SettleDrop}} {
		if draw -= c.spec.Int(choice.name, 0); draw < 0 && draw >= -c.spec.Int(choice.name, 0) {
			settle = choice.settle
			break
		}
	}
	if s.calm && settle != core.SettleReject {
		settle, think = core.SettleAck, 0
	}
	if settle == core.SettleDrop { // past its lease, and only then an ACK
		settle, think = core.SettleAck, c.w.plan.Span("lease")+clock.Duration(r.Range(0, int64(clock.Second)))
	}
	s.later(c, *d, settle, think)
}

// later settles when the time of thinking is over, if the process still lives.
func (s *consumerSide) later(c *client, d core.Delivery, settle core.Settle, think clock.Duration) {
	life := c.life
	do := func() {
		if c.core == nil || c.life != life {
			return
		}
		kind := map[core.Settle]checker.SettleKind{core.SettleAck: checker.Ack, core.SettleRetry: checker.Retry, core.SettleReject: checker.Reject, core.SettleRelease: checker.Release}[settle]
		i := c.w.rec.settle(checker.Settle{Client: c.id, Group: c.group(), Kind: kind, Partition: c.partitionOf(c.topicID(), d.Partition),
			Sequence: d.Sequence, DeliveryID: d.DeliveryID, Ownership: d.OwnershipEpoch, Call: checker.Time(c.w.now)})
		s.open = append(s.open, openSettle{i, d.DeliveryID})
		if kind == checker.Retry || kind == checker.Release {
			c.w.host.leases.gave(d.DeliveryID, 0)
		}
		c.input(core.Input{Kind: core.InputSettle, Handle: handle, Partition: d.Partition, Delivery: d.DeliveryID, Settle: settle})
	}
	if think == 0 {
		do()
		return
	}
	c.w.after(think, do)
}

// settled takes the answer to a settlement. A core also settles by itself: a
// redelivery that came while the message was worked on, together with the first.
// That one gets its place in the history now.
func (s *consumerSide) settled(c *client, o *core.Settled) {
	index := -1
	for j := range s.open {
		if s.open[j].delivery == o.DeliveryID {
			index = s.open[j].index
			s.open = append(s.open[:j], s.open[j+1:]...)
			break
		}
	}
	if index < 0 {
		at := c.partitionOf(c.topicID(), o.Partition)
		index = c.w.rec.settle(checker.Settle{Client: c.id, Group: c.group(), Kind: checker.Ack, Partition: at, Sequence: o.Sequence,
			DeliveryID: o.DeliveryID, Ownership: o.OwnershipEpoch, Call: c.w.rec.lastCall(c.id, at, o.Sequence)})
	}
	h := &c.w.rec.h.Settles[index]
	switch {
	case o.Lost:
		return
	case o.Code == wire.CodeOK:
		h.Outcome = checker.OK
	case o.Code == wire.CodeUnknownDelivery:
		// It may be settled by the redelivery that the core acknowledged.
		h.Code = o.Code
		return
	default:
		h.Outcome, h.Code = codeOutcome(o.Code), o.Code
	}
	if h.Outcome != checker.Unknown {
		h.Return = checker.Time(c.w.now)
	}
}

func (s *consumerSide) lost() { s.open = s.open[:0] }

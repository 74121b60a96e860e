package machine

import (
	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// DelayMillisMax bounds the delay of a NACK: 24 hours.
const DelayMillisMax = 24 * 60 * 60 * 1000

// ack settles a message as delivered. It counts until the next Deliver, also
// after the lease has run out.
func (m *Machine) ack(o *op.Op, res *Result) {
	g, n := m.lastDelivery(o, res)
	if n == 0 {
		return
	}
	c := &g.cursors[o.Partition]
	m.keepCursor(g, o.Partition)
	c.delivered++
	next, before := m.ledger.at(n).next, m.ledger.at(n).prev
	m.dropEntry(c, n)
	if fault.On("floor_over_unsettled") && before != 0 && c.head == before {
		c.delivered++
		m.dropEntry(c, before)
	}
	if fault.On("ack_floor_off_by_one") && next != 0 && c.head == next && m.ledger.at(next).seq == o.Sequence+1 {
		m.dropEntry(c, next)
	}
}

// nack gives a message back: charged with a backoff, or released for free.
func (m *Machine) nack(o *op.Op, res *Result) {
	g, n := m.outDelivery(o, res)
	if n == 0 {
		return
	}
	delay := min(op.LogMillis(o.DelayMillis), DelayMillisMax)
	if o.Reason == op.NackRelease {
		m.keepEntry(n)
		e := m.ledger.at(n)
		if fault.On("release_charges") {
			e.charges++
		}
		e.state, e.due = DeliveryWaiting, m.logTime
		if o.Flags&op.FlagDelay != 0 {
			e.due += delay
		}
		res.Due = e.due
		return
	}
	if o.Flags&op.FlagDelay == 0 || fault.On("nack_delay_ignored") {
		delay = m.backoff(m.ledger.at(n))
	}
	m.charge(g, o.Partition, n, delay)
	res.Due, res.Dead = m.fate(n)
}

// expire says that a lease ran out.
func (m *Machine) expire(o *op.Op, res *Result) {
	g, n := m.outDelivery(o, res)
	if n == 0 {
		return
	}
	m.charge(g, o.Partition, n, m.backoff(m.ledger.at(n)))
	res.Due, res.Dead = m.fate(n)
}

// lastDelivery finds the entry that the op names, if it names its last delivery
// and that was under the current ownership epoch.
func (m *Machine) lastDelivery(o *op.Op, res *Result) (*group, uint32) {
	g := m.fenced(o, res)
	if g == nil {
		return nil, 0
	}
	n := m.findEntry(&g.cursors[o.Partition], o.Sequence)
	if n == 0 || m.ledger.at(n).delivery != o.Delivery && !fault.On("reused_delivery_accepts") {
		res.refuse(wire.CodeUnknownDelivery, "the message is settled, or was delivered again since")
		return nil, 0
	}
	if m.ledger.at(n).ownership != o.Ownership && !fault.On("stale_ack_accepted") {
		res.refuse(wire.CodeStaleOwner, "the delivery was under an older ownership epoch: drop it")
		return nil, 0
	}
	return g, n
}

// outDelivery is lastDelivery for what makes sense only while it is out.
func (m *Machine) outDelivery(o *op.Op, res *Result) (*group, uint32) {
	g, n := m.lastDelivery(o, res)
	if n != 0 && m.ledger.at(n).state != DeliveryOut {
		res.refuse(wire.CodeUnknownDelivery, "the delivery was given back, or its lease ran out")
		return nil, 0
	}
	return g, n
}

// chargeSuspects charges a member that vanished for the lowest message of each
// partition that it holds, and says whether that used attempts up. The others
// become due when the partition changes hands.
func (m *Machine) chargeSuspects(g *group, member op.MemberID) (dead bool) {
	for p := range g.owners {
		w := &g.owners[p]
		if w.owner != member {
			continue
		}
		for n := g.cursors[p].head; n != 0; {
			e := m.ledger.at(n)
			if e.state == DeliveryOut && e.ownership == w.epoch {
				m.charge(g, op.PartitionID(p), n, m.backoff(e))
				_, d := m.fate(n)
				dead = dead || d
				if fault.On("vanished_charged_for_all") {
					n = e.next
					continue
				}
				break
			}
			n = e.next
		}
	}
	return dead
}

// charge spends an attempt. The last one leaves the message dead, else it waits.
func (m *Machine) charge(g *group, p op.PartitionID, n uint32, delay op.LogMillis) {
	m.keepEntry(n)
	e := m.ledger.at(n)
	e.charges++
	if e.charges >= m.settings.DeliveryMaxAttempts {
		c := &g.cursors[p]
		c.dead++
		e.state, e.due = DeliveryDead, 0
		return
	}
	e.state, e.due = DeliveryWaiting, m.logTime+delay
}

// fate gives what a charge left an entry with.
func (m *Machine) fate(n uint32) (due op.LogMillis, dead bool) {
	e := m.ledger.at(n)
	return e.due, e.state == DeliveryDead
}

// backoff gives how long the entry waits if it is charged now: base x 2^(n-1)
// with n charges, give or take a tenth by its delivery id, up to the maximum.
func (m *Machine) backoff(e *entry) op.LogMillis {
	limit := uint64(m.settings.RetryBackoffMaxMs)
	d := uint64(m.settings.RetryBackoffBaseMs)
	for range e.charges {
		if d >= 2*limit {
			break
		}
		d *= 2
	}
	// From -10 % to +10 % in 1024 steps.
	steps := mix(uint64(e.delivery)) % 1025
	d = d - d/10 + d*steps/(5*1024)
	return op.LogMillis(min(d, limit))
}

// mix spreads the bits of an integer (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xBF58476D1CE4E5B9
	x ^= x >> 27
	x *= 0x94D049BB133111EB
	return x ^ x>>31
}

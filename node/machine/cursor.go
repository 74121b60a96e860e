package machine

import (
	"math"

	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// cursor is how far a group is with one partition.
//
// Invariants (M5, M6), with last the partition's last sequence:
//
//  1. 1 <= next <= last+1; every entry's sequence is below next.
//  2. next-1 - start == delivered + dropped + count. With the last+1-next that
//     were never delivered added on both sides this is M5.
//  3. dlq + quarantined <= dropped; count <= wire.MaxUnsettled.
//  4. The entries are a list from head to tail in rising order of sequence, and
//     index finds exactly them.
type cursor struct {
	next        op.Sequence // lowest that was never delivered
	start       int64
	delivered   uint64
	dropped     uint64
	dlq         uint64
	quarantined uint64
	retries     uint64
	index       []uint32 // see ledger.go
	count       uint32   // entries
	dead        uint32   // entries that wait for DeadLetter
	head, tail  uint32
	saved       uint32 // checkpoint that needs nothing more of it but its entries
}

// floor is the highest sequence up to which everything is settled.
func (m *Machine) floor(c *cursor) op.Sequence {
	if c.head == 0 {
		return c.next - 1
	}
	return m.ledger.at(c.head).seq - 1
}

// deliver notes that a run was handed to the partition's owner. What is settled
// stays so, what skips over a sequence or comes under another ownership epoch
// does nothing, and so does what does not fit the bound.
func (m *Machine) deliver(o *op.Op, res *Result) {
	g := m.fenced(o, res)
	if g == nil {
		return
	}
	if g.owners[o.Partition].owner == 0 {
		res.refuse(wire.CodeStaleOwner, "nobody owns the partition")
		return
	}
	c := &g.cursors[o.Partition]
	last := m.lastSeq(g.topic, o.Partition)
	m.keepCursor(g, o.Partition)
	for i := range op.Sequence(min(o.Count, wire.MaxUnsettled)) {
		seq := o.Sequence + i
		if seq == 0 || seq > last || seq > c.next {
			break
		}
		var e *entry
		if seq == c.next {
			if c.count == wire.MaxUnsettled {
				break
			}
			e = m.addEntry(g, o.Partition, seq)
			c.next++
		} else {
			n := m.findEntry(c, seq)
			if n == 0 || m.ledger.at(n).state == DeliveryDead {
				continue
			}
			m.keepEntry(n)
			e = m.ledger.at(n)
			c.retries++
		}
		if e.attempts < math.MaxUint16 {
			e.attempts++
		}
		e.delivery, e.ownership = o.Delivery+op.DeliveryID(i), o.Ownership
		e.state, e.due = DeliveryOut, 0
		res.Count++
	}
}

// fenced finds the group of an op about a delivery, if the op's ownership epoch
// is the current one.
func (m *Machine) fenced(o *op.Op, res *Result) *group {
	g := m.group(o.Group)
	switch {
	case g == nil:
		res.refuse(wire.CodeUnknownTopic, "the topic was deleted")
		return nil
	case int(o.Partition) >= len(g.owners):
		res.refuse(wire.CodeUnknownPartition, "the topic has fewer partitions")
		return nil
	case o.Ownership < g.owners[o.Partition].epoch:
		res.refuse(wire.CodeStaleOwner, "another member has the partition now: drop the delivery")
		return nil
	case o.Ownership > g.owners[o.Partition].epoch:
		res.refuse(wire.CodeNotOwner, "the partition was never owned under this epoch")
		return nil
	}
	return g
}

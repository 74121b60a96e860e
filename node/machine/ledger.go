package machine

import (
	"math/bits"

	"github.com/mortarmq/mortarmq/node/op"
)

// entry is one message that was delivered to a group and is not settled. All
// entries of all cursors share one slab. state is as the last op left it: an
// entry that is Out under an ownership epoch that is over is due (effective).
type entry struct {
	seq        op.Sequence
	delivery   op.DeliveryID
	ownership  op.OwnershipEpoch
	due        op.LogMillis // while waiting
	prev, next uint32       // neighbours in the cursor, by sequence
	saved      uint32       // checkpoint that needs nothing more of it
	group      op.GroupID
	partition  op.PartitionID
	attempts   uint16
	charges    uint16
	state      DeliveryState
	live       bool
}

// A cursor's index is a hash table of entry numbers by sequence: open
// addressing, linear probing, deletion by shifting back, never more than half
// full. It has at most 2 * wire.MaxUnsettled slots, so growing it at once stalls
// nobody. Once empty, a table of more than indexKeep slots is given up.
const (
	indexMin  = 8
	indexKeep = 4096
)

// slotOf gives a sequence's first slot. Neighbouring sequences are spread
// (Fibonacci hashing): kept together they would form the long clusters that a
// window full of delayed messages then makes every new one probe through.
func slotOf(seq op.Sequence, size int) uint32 {
	return uint32(uint64(seq) * 0x9E3779B97F4A7C15 >> (64 - uint(bits.TrailingZeros32(uint32(size)))))
}

// findEntry gives the entry of seq, 0 where there is none.
func (m *Machine) findEntry(c *cursor, seq op.Sequence) uint32 {
	if len(c.index) == 0 {
		return 0
	}
	mask := uint32(len(c.index) - 1)
	for s := slotOf(seq, len(c.index)); ; s = (s + 1) & mask {
		n := c.index[s]
		if n == 0 || m.ledger.at(n).seq == seq {
			return n
		}
	}
}

// indexEntry puts entry n, which is not in it, into the index.
func (m *Machine) indexEntry(c *cursor, n uint32) {
	mask := uint32(len(c.index) - 1)
	s := slotOf(m.ledger.at(n).seq, len(c.index))
	for c.index[s] != 0 {
		s = (s + 1) & mask
	}
	c.index[s] = n
}

// unindexEntry takes out the entry of seq and closes the gap.
func (m *Machine) unindexEntry(c *cursor, seq op.Sequence) {
	mask := uint32(len(c.index) - 1)
	s := slotOf(seq, len(c.index))
	for m.ledger.at(c.index[s]).seq != seq {
		s = (s + 1) & mask
	}
	for hole := s; ; {
		c.index[hole] = 0
		for {
			s = (s + 1) & mask
			n := c.index[s]
			if n == 0 {
				return
			}
			// n may move into the hole unless its first slot lies between the two.
			home := slotOf(m.ledger.at(n).seq, len(c.index))
			if (s-home)&mask >= (s-hole)&mask {
				c.index[hole] = n
				hole = s
				break
			}
		}
	}
}

// reindex gives the index room for twice count entries and fills it again.
func (m *Machine) reindex(c *cursor, count uint32) {
	size := indexMin
	for size < 2*int(count) {
		size *= 2
	}
	c.index = make([]uint32, size)
	for n := c.head; n != 0; n = m.ledger.at(n).next {
		m.indexEntry(c, n)
	}
}

// addEntry makes the entry of seq, which is above all others of the cursor.
func (m *Machine) addEntry(g *group, p op.PartitionID, seq op.Sequence) *entry {
	c := &g.cursors[p]
	if 2*int(c.count+1) > len(c.index) {
		m.reindex(c, c.count+1)
	}
	n := m.ledger.get()
	e := m.ledger.at(n)
	*e = entry{seq: seq, group: g.id, partition: p, saved: m.ckpt.generation, prev: c.tail, live: true}
	if c.tail != 0 {
		m.ledger.at(c.tail).next = n
	} else {
		c.head = n
	}
	c.tail = n
	c.count++
	m.indexEntry(c, n)
	return e
}

// dropEntry removes entry n: its message is settled.
func (m *Machine) dropEntry(c *cursor, n uint32) {
	m.keepEntry(n)
	e := m.ledger.at(n)
	m.unindexEntry(c, e.seq)
	if e.prev != 0 {
		m.ledger.at(e.prev).next = e.next
	} else {
		c.head = e.next
	}
	if e.next != 0 {
		m.ledger.at(e.next).prev = e.prev
	} else {
		c.tail = e.prev
	}
	if e.state == DeliveryDead {
		c.dead--
	}
	c.count--
	m.ledger.put(n)
	if c.count == 0 && len(c.index) > indexKeep {
		c.index = nil
	}
}

// clearLedger drops all entries of a cursor.
func (m *Machine) clearLedger(g *group, p op.PartitionID) {
	c := &g.cursors[p]
	for n := c.head; n != 0; {
		m.keepEntry(n)
		next := m.ledger.at(n).next
		m.ledger.put(n)
		n = next
	}
	c.index, c.head, c.tail, c.count, c.dead = nil, 0, 0, 0, 0
}

// effective gives the entry's state and due time under the partition's current
// ownership epoch.
func (e *entry) effective(current op.OwnershipEpoch) (DeliveryState, op.LogMillis) {
	if e.state == DeliveryOut && e.ownership != current {
		return DeliveryWaiting, 0
	}
	return e.state, e.due
}

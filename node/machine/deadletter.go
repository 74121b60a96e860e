package machine

import (
	"slices"

	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// marks are the dead letters of a twin's partition that were redriven, as ranges
// in rising order with gaps between them. They outlive a purge, which is about
// the live ones. A redrive takes the live ones in order, so purges make the gaps:
// 16 bytes for each that an operator asks for.
type marks struct {
	ranges []seqRange
	count  uint64
}

// seqRange is a row of sequences, both ends included.
type seqRange struct{ from, to op.Sequence }

// deadLetter settles a message as dropped and, unless it is a dead letter
// already, appends it to the twin: one op, so both or neither (M10).
func (m *Machine) deadLetter(o *op.Op, res *Result) {
	t, twin := m.topic(o.Topic)
	g := m.group(o.Group)
	switch {
	case t == nil, g == nil, g.topic != o.Topic:
		res.refuse(wire.CodeUnknownTopic, "the topic was deleted")
		return
	case uint16(o.Partition) >= t.partitions:
		res.refuse(wire.CodeUnknownPartition, "the topic has fewer partitions")
		return
	}
	c := &g.cursors[o.Partition]
	n := m.dying(g, c, o, res)
	if n == 0 {
		return
	}
	m.keepCursor(g, o.Partition)
	if fault.On("dead_letter_forgotten") && twin == 0 && o.Cause == op.CauseReject {
		c.dropped++
		m.dropEntry(c, n)
		return
	}
	if twin != 0 {
		c.dropped++
		c.quarantined++
		m.dropEntry(c, n)
		res.Code, res.Message = wire.CodeDLQPathOverflow, "a dead letter died again: it is settled and stays in the twin"
		return
	}
	m.appendRecord(m.extend(t, 1, o.Topic+1, o.Partition), o, o.Topic+1, res)
	res.LeaderEpoch = m.epoch
	if e := m.ledger.at(n); fault.On("dead_letter_twice") && e.state == DeliveryDead && e.due == 0 {
		e.due = 1
		return
	}
	c.dropped++
	c.dlq++
	m.dropEntry(c, n)
}

// dying finds the entry that a DeadLetter is about: one that its owner rejects,
// or one whose attempts are used up, whoever owns the partition now.
func (m *Machine) dying(g *group, c *cursor, o *op.Op, res *Result) uint32 {
	if o.Cause == op.CauseReject {
		_, n := m.outDelivery(o, res)
		return n
	}
	n := m.findEntry(c, o.Sequence)
	if n == 0 || m.ledger.at(n).state != DeliveryDead || m.ledger.at(n).delivery != o.Delivery {
		res.refuse(wire.CodeUnknownDelivery, "the message is settled, or not dead")
		return 0
	}
	return n
}

// redrive appends a dead letter to its source again, once.
func (m *Machine) redrive(o *op.Op, res *Result) {
	t := m.twin(o, res)
	if t == nil {
		return
	}
	key := partitionKey{o.Topic, o.Partition}
	switch m.deadLetterState(key, o.Sequence) {
	case DeadLetterNone:
		res.refuse(wire.CodeUnknownDelivery, "no such dead letter")
		return
	case DeadLetterPurged:
		res.refuse(wire.CodeUnknownDelivery, "the dead letter was purged")
		return
	case DeadLetterRedriven:
		res.Deduplicated = true
		return
	}
	m.keepPartition(key, m.partition(o.Topic, o.Partition))
	k := m.marks[key]
	if k == nil {
		k = &marks{}
		m.marks[key] = k
	}
	if !fault.On("redrive_twice") {
		k.add(o.Sequence)
	}
	m.appendRecord(m.extend(t, 0, o.Topic-1, o.Partition), o, o.Topic-1, res)
	res.LeaderEpoch, res.CommitSeq = m.epoch, res.Sequence
}

// purge marks the live dead letters up to a sequence as purged.
func (m *Machine) purge(o *op.Op, res *Result) {
	if m.twin(o, res) == nil {
		return
	}
	p := m.partition(o.Topic, o.Partition)
	if p == nil {
		return
	}
	upTo := min(o.Sequence, p.last)
	if upTo <= p.purged {
		return
	}
	key := partitionKey{o.Topic, o.Partition}
	m.keepPartition(key, p)
	res.Count = uint64(upTo - p.purged)
	if k := m.marks[key]; k != nil {
		res.Count -= k.upTo(upTo) - k.upTo(p.purged)
	}
	p.purged = upTo
}

// twin finds the pair of an op about dead letters, or refuses.
func (m *Machine) twin(o *op.Op, res *Result) *topic {
	t, twin := m.topic(o.Topic)
	switch {
	case t == nil:
		res.refuse(wire.CodeUnknownTopic, "no such topic")
		return nil
	case twin == 0:
		res.refuse(wire.CodeInvalidTopic, "only a dead-letter twin has dead letters")
		return nil
	case uint16(o.Partition) >= t.partitions:
		res.refuse(wire.CodeUnknownPartition, "the topic has fewer partitions")
		return nil
	}
	return t
}

func (m *Machine) deadLetterState(key partitionKey, s op.Sequence) DeadLetterState {
	p := m.partition(key.topic, key.partition)
	switch {
	case p == nil || s == 0 || s > p.last:
		return DeadLetterNone
	case m.marks[key].has(s):
		return DeadLetterRedriven
	case s <= p.purged:
		return DeadLetterPurged
	}
	return DeadLetterLive
}

// find gives the index of the first range that ends at or behind s.
func (k *marks) find(s op.Sequence) int {
	i, _ := slices.BinarySearchFunc(k.ranges, s, func(r seqRange, s op.Sequence) int {
		if r.to < s {
			return -1
		}
		return 1
	})
	return i
}

func (k *marks) has(s op.Sequence) bool {
	if k == nil {
		return false
	}
	i := k.find(s)
	return i < len(k.ranges) && k.ranges[i].from <= s
}

// add marks s, which is not marked.
func (k *marks) add(s op.Sequence) {
	k.count++
	i := k.find(s)
	before := i > 0 && k.ranges[i-1].to+1 == s
	behind := i < len(k.ranges) && k.ranges[i].from == s+1
	switch {
	case before && behind:
		k.ranges[i-1].to = k.ranges[i].to
		k.ranges = slices.Delete(k.ranges, i, i+1)
	case before:
		k.ranges[i-1].to = s
	case behind:
		k.ranges[i].from = s
	default:
		k.ranges = slices.Insert(k.ranges, i, seqRange{s, s})
	}
}

// upTo counts the marks up to s.
func (k *marks) upTo(s op.Sequence) (n uint64) {
	for _, r := range k.ranges {
		if r.from > s {
			break
		}
		n += uint64(min(r.to, s) - r.from + 1)
	}
	return n
}

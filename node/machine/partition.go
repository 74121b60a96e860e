package machine

import (
	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// partition is the log of one partition, as far as it is replicated state. It
// holds no pointers.
type partition struct {
	last      op.Sequence
	timestamp uint64 // Unix ms of record last
	bytes     uint64 // keys and values ever appended
	plain     uint64 // publishes without producer id
	purged    op.Sequence
	windows   uint32 // first of the partition's producer windows
	saved     uint32 // checkpoint that needs nothing more of it
}

// publish appends a record or says why not.
func (m *Machine) publish(o *op.Op, res *Result) {
	t, twin := m.topic(o.Topic)
	switch {
	case t == nil:
		res.refuse(wire.CodeUnknownTopic, "no such topic: declare it first")
		return
	case twin != 0:
		res.refuse(wire.CodeInvalidTopic, "a dead-letter twin takes no publishes")
		return
	case uint16(o.Partition) >= t.partitions:
		res.refuse(wire.CodeUnknownPartition, "the topic has fewer partitions")
		return
	case (o.ProducerID == 0) != (o.ProducerSeq == 0):
		res.refuse(wire.CodeProducerSeqInvalid, "producer_id and producer_seq are both 0 or both not")
		return
	}
	w := uint32(0)
	if o.ProducerID != 0 {
		var fresh bool
		if w, fresh = m.admit(o, res); !fresh {
			if res.Code == wire.CodeOK {
				res.CommitSeq = m.lastSeq(o.Topic, o.Partition)
			}
			return
		}
	}
	p := m.extend(t, 0, o.Topic, o.Partition)
	m.appendRecord(p, o, o.Topic, res)
	if o.ProducerID == 0 {
		p.plain++
	} else {
		m.accept(p, w, o, res.Sequence)
	}
	res.LeaderEpoch, res.CommitSeq = m.epoch, res.Sequence
}

// admit judges a producer sequence. fresh says that it is to be appended, to
// window w, or to a new one if w is 0; otherwise res has the answer.
func (m *Machine) admit(o *op.Op, res *Result) (w uint32, fresh bool) {
	w, d := m.dedup(windowKey{o.ProducerID, o.Topic, o.Partition}, o.ProducerSeq)
	switch d.Verdict {
	case VerdictNew:
		if !m.affordable(o, w) {
			res.refuse(wire.CodeQuotaExceeded, "too many producers are active: producer_window_bytes is used up")
			return 0, false
		}
		return w, true
	case VerdictDuplicate:
		res.Sequence, res.LeaderEpoch, res.Deduplicated = d.Sequence, d.Epoch, true
	case VerdictGap:
		if fault.On("dedup_entry_for_refused_publish") && w != 0 {
			m.accept(m.partition(o.Topic, o.Partition), w, o, m.lastSeq(o.Topic, o.Partition))
		}
		res.refuse(wire.CodeSeqGap, "producer_seq skips ahead: publish what is missing, or take a new producer_id")
	case VerdictExpired:
		res.refuse(wire.CodeSeqExpired, "producer_seq is below the window: take a new producer_id")
	case VerdictUnknown:
		res.refuse(wire.CodeSeqExpired, "the producer is not known here: take a new producer_id and start at 1")
	}
	return 0, false
}

// extend finds a partition that is about to get a record.
func (m *Machine) extend(t *topic, twin int, id op.TopicID, p op.PartitionID) *partition {
	if t.parts[twin] == nil {
		parts := make([]partition, t.partitions)
		for i := range parts {
			parts[i].saved = m.ckpt.generation
		}
		t.parts[twin] = parts
	}
	part := &t.parts[twin][p]
	m.keepPartition(partitionKey{id, p}, part)
	return part
}

// appendRecord gives the op's record the next place in p, a partition of topic
// id, and tells the node to store it.
func (m *Machine) appendRecord(p *partition, o *op.Op, id op.TopicID, res *Result) {
	p.last++
	assert(p.last != 0, 3)
	p.timestamp = max(p.timestamp, o.Timestamp)
	p.bytes += uint64(len(o.Key)) + uint64(len(o.Value))
	kind := RecordLocal
	switch {
	case o.Kind == op.KindDeadLetter:
		kind = RecordDeadLetter
	case o.Flags&op.FlagQuorum != 0:
		kind = RecordQuorum
	}
	res.Sequence = p.last
	res.Append = Append{
		Present: true, Kind: kind, Topic: id, Partition: o.Partition,
		Sequence: p.last, Timestamp: p.timestamp, LeaderEpoch: m.epoch,
		ProducerID: o.ProducerID, ProducerSeq: o.ProducerSeq,
	}
}

// removePartition frees what a partition of a deleted topic holds.
func (m *Machine) removePartition(key partitionKey, p *partition) {
	m.keepPartition(key, p)
	for p.windows != 0 {
		m.removeWindow(p, p.windows)
	}
	delete(m.marks, key)
}

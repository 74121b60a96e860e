package machine

import (
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// View reads the applied state and changes nothing. It is a small value; what
// its methods return is borrowed until the next Apply where it says so.
type View struct{ m *Machine }

// View gives the read-only side of m.
func (m *Machine) View() View { return View{m} }

// Applied gives number, epoch and log time of the entry applied last.
func (v View) Applied() (op.Number, op.Epoch, op.LogMillis) {
	return v.m.number, v.m.epoch, v.m.logTime
}

// Settings gives those that the last EpochStart installed.
func (v View) Settings() op.Settings { return v.m.settings }

// MutationID counts the metadata ops that took effect.
func (v View) MutationID() uint64 { return v.m.mutation }

// TopicByName finds a topic, or a twin by its ".dlq" name.
func (v View) TopicByName(name []byte) (TopicView, bool) {
	twin := op.TopicID(0)
	if source, ok := wire.DLQSource(name); ok {
		name, twin = source, 1
	}
	pair, ok := v.m.topicByName[string(name)]
	if !ok {
		return TopicView{}, false
	}
	return v.Topic(sourceID(int(pair)) + twin)
}

// Topic finds a topic or twin by id.
func (v View) Topic(id op.TopicID) (TopicView, bool) {
	t, twin := v.m.topic(id)
	if t == nil {
		return TopicView{}, false
	}
	tv := TopicView{ID: id, Name: t.name, Partitions: t.partitions, CreatedEpoch: t.createdEpoch, IsTwin: twin != 0}
	if tv.IsTwin {
		tv.Name = t.twinName
	}
	return tv, true
}

// ReadsAnother is the text for who wants a group on another topic than id, which it
// reads.
func (v View) ReadsAnother(id op.TopicID) string {
	t, _ := v.Topic(id) // a group goes with its topic
	return "the group reads topic " + t.Name + ": take another name, or delete the group first (mortarmq groups delete)"
}

// NextTopic gives the topic or twin with the lowest id above after.
func (v View) NextTopic(after op.TopicID) (TopicView, bool) {
	for id := int(after) + 1; id <= 2*len(v.m.topics); id++ {
		if t, ok := v.Topic(op.TopicID(id)); ok {
			return t, true
		}
	}
	return TopicView{}, false
}

// Topics gives the number of topics, twins not counted.
func (v View) Topics() int { return v.m.topicsLive }

// LastSeq gives the last committed sequence of a partition, 0 for none.
func (v View) LastSeq(t op.TopicID, p op.PartitionID) op.Sequence { return v.m.lastSeq(t, p) }

// Partition gives a partition's log position and counters.
func (v View) Partition(t op.TopicID, p op.PartitionID) (PartitionView, bool) {
	tp, _ := v.m.topic(t)
	if tp == nil || uint16(p) >= tp.partitions {
		return PartitionView{}, false
	}
	part := v.m.partition(t, p)
	if part == nil {
		return PartitionView{}, true
	}
	pv := PartitionView{LastSeq: part.last, LastTimestamp: part.timestamp, Bytes: part.bytes, Plain: part.plain, PurgedTo: part.purged, Purged: uint64(part.purged)}
	if k := v.m.marks[partitionKey{t, p}]; k != nil {
		pv.Redriven = k.count
		pv.Purged -= k.upTo(part.purged)
	}
	return pv, true
}

// Dedup asks the producer's window about a sequence, which is not 0.
func (v View) Dedup(t op.TopicID, p op.PartitionID, producer, seq uint64) DedupView {
	_, d := v.m.dedup(windowKey{producer, t, p}, seq)
	return d
}

// Producers gives the number of producer windows.
func (v View) Producers() int { return len(v.m.windows.index) }

// WindowBytes gives what all producer windows cost of ProducerWindowBytes.
func (v View) WindowBytes() uint64 { return v.m.windows.cost() }

// ForgetCandidate gives the producer that ForgetProducer should name next, if
// the budget is nearly used and the longest idle producer was idle long enough
// at now.
func (v View) ForgetCandidate(now op.LogMillis) (t op.TopicID, p op.PartitionID, producer uint64, ok bool) {
	key, ok := v.m.forgetCandidate(now)
	return key.topic, key.partition, key.producer, ok
}

// DeadLetter says what became of record s of twin t.
func (v View) DeadLetter(t op.TopicID, p op.PartitionID, s op.Sequence) DeadLetterState {
	if _, twin := v.m.topic(t); twin == 0 {
		return DeadLetterNone
	}
	return v.m.deadLetterState(partitionKey{t, p}, s)
}

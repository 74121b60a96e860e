package store

import (
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store/segment"
)

// replayDirtyMax is how many bytes of records may wait to be written while the
// journal is replayed; beyond it the replay waits for the disk.
const replayDirtyMax = 64 << 20

// newSegments makes the set, once the cluster is known.
func (s *Store) newSegments() {
	s.segments = segment.New(segment.Options{
		SegmentMaxBytes: s.options.SegmentMaxBytes, TailBytesMax: s.options.TailBytesMax, ReadCacheBytes: s.options.ReadCacheBytes,
		ScrubBytesPerSecond: s.options.ScrubBytesPerSecond, Owner: ownerSegments, ClusterID: s.identity.ClusterID,
	})
	s.segments.Tick(s.now)
}

// recoverSegments cuts all partitions back to the checkpoint's positions, and
// removes what it does not know: the metadata was read and is whole.
func (s *Store) recoverSegments() {
	positions := make([]segment.Position, len(s.loader.positions))
	for i, p := range s.loader.positions {
		positions[i] = segment.Position{Topic: p.Topic, Partition: p.Partition, Last: p.Last, Base: p.Base, Offset: p.Offset}
	}
	s.loader.positions = nil
	s.segments.Recover(positions, true)
	s.pumpSegments()
}

// pumpSegments takes over the set's events.
func (s *Store) pumpSegments() {
	var se segment.Event
	for s.state != stateEnded && s.segments != nil && s.segments.Next(&se) {
		switch se.Kind {
		case segment.EventRecovered:
			s.recoverSegmentsDone()
		case segment.EventFlushed:
			s.checkpointer.flushed = max(s.checkpointer.flushed, se.Token)
			s.checkpointGo()
		case segment.EventReadReady:
			s.emit(Event{Kind: EventReadReady, Topic: se.Topic, Partition: se.Partition, Sequence: uint64(se.Sequence)})
		case segment.EventStalled:
			s.emit(Event{Kind: EventSegmentStalled, Err: se.Err, Topic: se.Topic, Partition: se.Partition, Path: se.Path})
		case segment.EventResumed:
			s.emit(Event{Kind: EventSegmentResumed, Topic: se.Topic, Partition: se.Partition})
		case segment.EventDamage:
			s.damage(Event{Topic: se.Topic, Partition: se.Partition, Path: se.Path, Offset: se.Offset, Sequence: uint64(se.Sequence), What: se.Damage.What})
		case segment.EventFailed:
			s.fail(se.Err, se.Path)
		case segment.EventUnlinked:
			s.cleaner.unlinking = false
			s.cleanGo()
		case segment.EventIndexRebuilt, segment.EventCut:
			s.emit(Event{Kind: EventRepaired, Topic: se.Topic, Partition: se.Partition, Path: se.Path, Offset: se.Offset})
		}
	}
}

// CreatePartition makes a partition known. Its files come with its first record.
// Before CheckpointLoaded it does nothing: the checkpoint has the partitions.
func (s *Store) CreatePartition(topic op.TopicID, partition op.PartitionID) {
	if s.loading() {
		return
	}
	s.segments.CreatePartition(topic, partition)
}

// DropTopic stops serving the partitions of topic. Their files are unlinked
// after a checkpoint that does not name them is durable. Before CheckpointLoaded
// it does nothing.
func (s *Store) DropTopic(topic op.TopicID) {
	if s.loading() {
		return
	}
	s.segments.DropTopic(topic)
	s.cleaner.dropped = true
	s.pumpSegments()
}

// AppendRecord copies rec, whose sequence is the one after the partition's last,
// to the end of its partition, which is known.
func (s *Store) AppendRecord(topic op.TopicID, partition op.PartitionID, rec *format.Record) op.Sequence {
	before := s.segments.DirtyBytes()
	sequence := s.segments.Append(topic, partition, rec)
	s.spacePromise(s.segments.DirtyBytes() - before)
	return sequence
}

// Read gives a record, from memory or, later, from its segment: with
// segment.Pending, EventReadReady says when to read again. A hit is borrowed
// until Take.
func (s *Store) Read(topic op.TopicID, partition op.PartitionID, sequence op.Sequence) (format.Record, segment.Status) {
	return s.segments.Read(topic, partition, sequence)
}

// LastSequence gives the last sequence of a partition, 0 for none.
func (s *Store) LastSequence(topic op.TopicID, partition op.PartitionID) op.Sequence {
	return s.segments.Last(topic, partition)
}

// DamageOf gives what damage is known of a partition. It is borrowed until the
// next call.
func (s *Store) DamageOf(topic op.TopicID, partition op.PartitionID) []segment.Damage {
	return s.segments.Damage(topic, partition)
}

// DirtyBytes gives how many bytes of records are not yet written: the space that
// they will take.
func (s *Store) DirtyBytes() int64 { return s.segments.DirtyBytes() }

// loading says whether recovery has yet to hand out entries.
func (s *Store) loading() bool {
	return s.state == stateRecovering && s.recoverer.stage < recoverStream
}

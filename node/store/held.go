package store

import (
	"slices"

	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

// What a damaged partition holds back (segment, invariant 9) goes from checkpoint to
// checkpoint, as part of the log's file, until a start finds the partition whole.

// checkpointHeld puts it into the log's file. b is a buffer.
func (s *Store) checkpointHeld(b []byte) {
	const most = format.BlockBytesMax - format.HeldHeaderSize
	s.segments.Held(func(topic op.TopicID, partition op.PartitionID, records []byte) bool {
		for piece := range slices.Chunk(records, most) {
			h := format.Held{Topic: topic, Partition: partition, Records: piece}
			b = h.Append(b[:0])
			s.checkpointBlock(PieceLog, format.BlockHeld, b)
		}
		return true
	})
}

// loadHeld takes in a block of it.
func (s *Store) loadHeld(payload []byte) {
	l := &s.loader
	h, err := format.DecodeHeld(payload)
	at, known := slices.BinarySearchFunc(l.positions, format.Position{Topic: h.Topic, Partition: h.Partition}, comparePositions)
	if err != nil || !known {
		s.loadBad("held records of a partition that has no position")
		return
	}
	if at < l.heldAt {
		s.loadBad("held records are out of order")
		return
	}
	if len(l.held) == 0 || at > l.heldAt {
		l.held, l.heldAt = append(l.held, format.Held{Topic: h.Topic, Partition: h.Partition}), at
	}
	last := &l.held[len(l.held)-1]
	last.Records = append(last.Records, h.Records...)
}

// appendHeld appends it again, behind the positions, and says whether it could.
func (s *Store) appendHeld() bool {
	for _, h := range s.loader.held {
		for b := h.Records; len(b) > 0; {
			rec, n, err := format.DecodeRecord(b)
			if next := s.segments.Last(h.Topic, h.Partition) + 1; err != nil || rec.Sequence != next {
				at := s.super.durable.CheckpointOp
				s.damage(Event{Path: format.LogCheckpointName(at), Sequence: uint64(at), What: "a held record is damaged or missing", Fatal: true})
				return false
			}
			s.segments.Append(h.Topic, h.Partition, &rec)
			b = b[n:]
		}
	}
	s.loader.held = nil
	s.pumpSegments()
	return true
}

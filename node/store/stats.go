package store

import "github.com/mortarmq/mortarmq/node/op"

// Stats are what a store holds and has done in this life.
type Stats struct {
	Last, Flushed  op.Number // of the journal
	Flushes        uint64    // journal writes synced, marks alone among them
	JournalWritten uint64    // bytes
	JournalBytes   int64     // of the files that are kept
	JournalFiles   int
	JournalStalled bool // waits for space

	CheckpointOp  op.Number
	Checkpoints   uint64
	Checkpointing bool

	MetadataRecords uint64
	DirtyBytes      int64 // of records not yet written

	Free, Total int64
	Low         bool
}

// Stats gives the store's counters.
func (s *Store) Stats() Stats {
	last, _ := s.journal.Last()
	st := Stats{
		Last: last, Flushed: s.journal.Flushed(), Flushes: s.journal.Flushes(), JournalWritten: s.journal.Appended(),
		JournalBytes: s.journal.Bytes(), JournalFiles: s.journal.Files(), JournalStalled: s.journal.Stalled(),
		CheckpointOp: s.super.durable.CheckpointOp, Checkpoints: s.checkpointer.done, Checkpointing: s.Checkpointing(),
		MetadataRecords: s.metadata.records,
		Free:            s.space.free, Total: s.space.total, Low: s.space.low,
	}
	if s.segments != nil {
		st.DirtyBytes = s.segments.DirtyBytes()
	}
	return st
}

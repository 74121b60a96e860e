package store

import (
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store/flight"
)

// cleaner removes what a durable checkpoint made needless: journal files, the
// checkpoint before it, metadata files before its snapshot, topics dropped
// before it was begun. Cut off anywhere, recovery removes the rest.
type cleaner struct {
	flight    flight.Flight
	old       op.Number // the checkpoint before the named one
	dropped   bool      // a topic was dropped since the last checkpoint was begun
	due       bool      // topics dropped before the checkpoint was begun wait
	retiring  bool
	unlinking bool
}

// begin notes, when a checkpoint is begun, that topics dropped so far are not in
// it.
func (c *cleaner) begin() {
	c.due = c.due || c.dropped
	c.dropped = false
}

// clean begins.
func (s *Store) clean() {
	c, sb := &s.cleaner, &s.super.durable
	remove := func(path string) {
		c.flight.Submit(&s.queue, disk.Request{Kind: disk.KindRemove, Lane: disk.LaneBackground, Path: path})
	}
	if c.old > 0 {
		remove(format.LogCheckpointName(c.old))
		remove(format.CursorCheckpointName(c.old))
		c.flight.Submit(&s.queue, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneBackground, Path: format.CheckpointsDir})
	}
	c.old = sb.CheckpointOp
	s.metadata.forget(sb.SnapshotRecords, remove)
	s.snapshotter.forget(snapshotRef{sb.SnapshotRecords, sb.SnapshotEpoch}, remove)
	c.flight.Submit(&s.queue, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneBackground, Path: format.MetadataDir})
	c.retiring = true
	s.journal.Retire(sb.JournalFirst)
	if c.due && !c.dropped {
		// Unlink takes every topic that was dropped: with one that the checkpoint
		// still names among them, they all wait for the next.
		c.due, c.unlinking = false, true
		s.segments.Unlink()
	}
	s.pumpJournal()
	s.pumpSegments()
	s.cleanGo()
}

// retired takes in that the journal has let go of its files.
func (s *Store) retired() {
	s.cleaner.retiring = false
	s.cleanGo()
}

// cleanLanded goes on. A file that could not be removed is found by recovery. A
// directory that could not be synced may have lost a name that is in use.
func (s *Store) cleanLanded() {
	if c := &s.cleaner; c.flight.SyncFailed() {
		s.fail(c.flight.Err, "the data directory")
		return
	}
	s.cleanGo()
}

// cleanGo ends the checkpoint when all is done.
func (s *Store) cleanGo() {
	c, k := &s.cleaner, &s.checkpointer
	if k.stage == checkpointClean && !c.flight.Busy() && !c.retiring && !c.unlinking {
		k.stage = checkpointIdle
	}
}

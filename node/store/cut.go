package store

import (
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/store/flight"
)

// cutStage is what cutting is at.
type cutStage uint8

const (
	cutList cutStage = iota
	cutListed
	cutRemove
)

// cutter removes what the superblock does not name: checkpoints begun or
// superseded, metadata files that are needed no more or not yet, the end of the
// metadata log that replay will write again, and what is behind the last block of
// a checkpoint. Everything that the superblock
// names was read and found whole before.
type cutter struct {
	flight flight.Flight
	stage  cutStage
}

// cut begins.
func (s *Store) cut() {
	c := &s.cutter
	c.stage = cutList
	c.flight.Submit(&s.queue, disk.Request{Kind: disk.KindList, Lane: disk.LaneBackground, Path: format.MetadataDir})
}

// cutLanded goes on.
func (s *Store) cutLanded() {
	c := &s.cutter
	switch {
	case s.state == stateEnded:
		return
	case c.flight.Err != disk.OK:
		s.fail(c.flight.Err, "the data directory")
		return
	}
	switch c.stage {
	case cutList:
		c.stage = cutListed
		entries := c.flight.Entries
		c.flight.Submit(&s.queue, disk.Request{Kind: disk.KindList, Lane: disk.LaneBackground, Path: format.CheckpointsDir})
		s.cutMetadata(entries)
	case cutListed:
		c.stage = cutRemove
		entries := c.flight.Entries
		c.flight.Submit(&s.queue, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneBackground, Path: format.MetadataDir})
		s.cutCheckpoints(entries)
		c.flight.Submit(&s.queue, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneBackground, Path: format.CheckpointsDir})
	case cutRemove:
		s.recoverCutDone()
	}
}

func (s *Store) cutRemove(path string) {
	s.cutter.flight.Submit(&s.queue, disk.Request{Kind: disk.KindRemove, Lane: disk.LaneBackground, Path: path})
}

// cutMetadata removes metadata files that were not loaded, and cuts the last one
// that was.
func (s *Store) cutMetadata(entries []disk.Entry) {
	sb, m, n := &s.super.durable, &s.metadata, &s.snapshotter
	m.records, m.pending, m.durable = sb.MetadataRecords, sb.MetadataRecords, sb.MetadataRecords
	m.rotate = -1
	n.last = sb.SnapshotRecords
	if sb.SnapshotRecords > 0 {
		n.done = append(n.done, snapshotRef{sb.SnapshotRecords, sb.SnapshotEpoch})
	}
	kept := make(map[string]bool)
	last := ""
	for i := range s.loader.files {
		switch f := &s.loader.files[i]; f.kind {
		case loadMetadata:
			m.files = append(m.files, f.from)
			kept[f.path], last = true, f.path
		case loadSnapshot:
			kept[f.path] = true
		}
	}
	for _, e := range entries {
		_, isLog := format.ParseMetadataName(e.Name)
		_, _, isSnapshot := format.ParseSnapshotName(e.Name)
		if path := format.MetadataDir + "/" + e.Name; (isLog || isSnapshot) && !e.Dir && !kept[path] {
			s.cutRemove(path)
		}
	}
	if last == "" {
		return
	}
	m.open, m.offset = true, s.loader.metaEnd
	for _, r := range [...]disk.Request{
		{Kind: disk.KindOpen, Path: last},
		{Kind: disk.KindTruncate, Offset: m.offset},
		{Kind: disk.KindSync},
	} {
		r.Lane, r.Handle = disk.LaneBackground, handleMetadata
		s.cutter.flight.Submit(&s.queue, r)
	}
}

// cutCheckpoints removes every checkpoint but the named one, and what was put
// behind that.
func (s *Store) cutCheckpoints(entries []disk.Entry) {
	for _, ev := range s.loader.behind {
		for _, r := range [...]disk.Request{
			{Kind: disk.KindOpen, Path: ev.Path},
			{Kind: disk.KindTruncate, Offset: ev.Offset},
			{Kind: disk.KindSync},
			{Kind: disk.KindClose},
		} {
			r.Lane, r.Handle = disk.LaneBackground, handleCheckpoint
			s.cutter.flight.Submit(&s.queue, r)
		}
		s.emit(ev)
	}
	for _, e := range entries {
		number, _, ok := format.ParseCheckpointName(e.Name)
		if ok && !e.Dir && (number != s.super.durable.CheckpointOp || number == 0) {
			s.cutRemove(format.CheckpointsDir + "/" + e.Name)
		}
	}
}

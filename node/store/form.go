package store

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/store/flight"
)

// formStage is what forming is at.
type formStage uint8

const (
	formDirs formStage = iota
	formJournal
	formClosing    // what a full disk left open of it
	formSuperblock // written and synced under another name
	formName       // renamed
	formDone
)

// former makes an empty directory a node's: directories, the first journal
// file, and last the superblock, under another name until it is whole. Cut off
// before the rename it leaves a directory that still counts as empty. A full disk is
// waited for, as everywhere.
type former struct {
	flight  flight.Flight
	stage   formStage
	retryAt clock.Instant // after a full disk; Never if nothing is to be repeated
	told    bool          // that the disk is full
}

// dataDirs are what a directory of ours holds, parents first.
var dataDirs = [...]string{"journal", "metadata", "metadata/quarantine", "topics", "checkpoints"}

// Form makes an empty directory that of id: the answer to EventFresh. Recovered
// follows.
func (s *Store) Form(id Identity) {
	if s.state != stateFresh {
		panic("store: Form of a directory that is not fresh")
	}
	if id.NodeID != s.options.NodeID || id.ClusterID == [16]byte{} {
		panic("store: Form with an identity that is not this node's")
	}
	s.state, s.identity = stateForming, id
	s.newSegments()
	s.former.stage = formDirs
	s.formSubmit()
}

// formSubmit submits what the stage asks for, also again: all of it may be done
// twice.
func (s *Store) formSubmit() {
	f := &s.former
	switch f.stage {
	case formDirs:
		for _, dir := range dataDirs {
			f.flight.Submit(&s.queue, disk.Request{Kind: disk.KindMkdir, Lane: disk.LaneBackground, Path: dir})
		}
		f.flight.Submit(&s.queue, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneBackground, Path: "metadata"})
		f.flight.Submit(&s.queue, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneBackground})
	case formClosing:
		f.flight.Submit(&s.queue, disk.Request{Kind: disk.KindClose, Lane: disk.LaneJournal, Handle: handleSuperblock})
	case formSuperblock:
		both := disk.AlignedBuffer(format.SuperblockSize)
		s.super.writing.Put(both, 0)
		s.super.writing.Put(both[format.SuperblockSlotSize:], 1)
		for _, r := range [...]disk.Request{
			{Kind: disk.KindOpen, Flags: disk.FlagCreate | disk.FlagDirect, Path: superblockTemp},
			{Kind: disk.KindTruncate},
			{Kind: disk.KindWrite, Buf: both},
			{Kind: disk.KindSync},
		} {
			r.Lane, r.Handle = disk.LaneJournal, handleSuperblock
			f.flight.Submit(&s.queue, r)
		}
	case formName:
		f.flight.Submit(&s.queue, disk.Request{Kind: disk.KindRename, Lane: disk.LaneJournal, Path: superblockTemp, Path2: superblockPath})
		f.flight.Submit(&s.queue, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneJournal})
	}
}

// formLanded goes on. What fails here for another reason than a full disk fails
// the start: nothing was promised yet.
func (s *Store) formLanded() {
	f := &s.former
	switch {
	case s.state == stateEnded:
		return
	case f.stage == formClosing: // whether there was anything to close or not
		f.stage = formSuperblock
		s.formSubmit()
		return
	case f.flight.Err == disk.ErrNoSpace && !f.flight.SyncFailed():
		if !f.told {
			f.told = true
			s.emit(Event{Kind: EventJournalStalled, Err: f.flight.Err, Path: "the data directory"})
		}
		f.retryAt = s.now.Add(s.options.RetryEvery)
		return
	case f.flight.Err != disk.OK:
		s.fail(f.flight.Err, "the data directory")
		return
	}
	switch f.stage {
	case formDirs:
		f.stage = formJournal
		s.journal.Fresh(s.identity.ClusterID)
	case formSuperblock:
		f.stage = formName
		s.formSubmit()
	case formName:
		f.stage = formDone
		s.super.durable = s.super.writing
		s.super.want = s.super.writing
		s.journal.Stream(1)
		s.pumpJournal()
	}
}

// formTick repeats what a full disk refused.
func (s *Store) formTick(now clock.Instant) {
	f := &s.former
	if now < f.retryAt {
		return
	}
	f.retryAt = clock.Never
	if f.stage == formSuperblock {
		f.stage = formClosing
	}
	s.formSubmit()
}

// formSuperblock goes on when the journal has its first file.
func (s *Store) formSuperblock() {
	s.super.writing = format.Superblock{NodeID: s.identity.NodeID, ClusterID: s.identity.ClusterID, Version: 1, JournalFirst: 1}
	s.former.stage = formSuperblock
	s.formSubmit()
}

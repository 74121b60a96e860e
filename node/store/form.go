package store

import (
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/store/flight"
)

// formStage is what forming is at.
type formStage uint8

const (
	formDirs formStage = iota
	formJournal
	formSuperblock // written and synced under another name
	formName       // renamed
	formDone
)

// former makes an empty directory a node's: directories, the first journal
// file, and last the superblock, under another name until it is whole. Cut off
// before the rename it leaves a directory that still counts as empty.
type former struct {
	flight flight.Flight
	stage  formStage
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
	f := &s.former
	f.stage = formDirs
	for _, dir := range dataDirs {
		f.flight.Submit(&s.queue, disk.Request{Kind: disk.KindMkdir, Lane: disk.LaneBackground, Path: dir})
	}
	f.flight.Submit(&s.queue, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneBackground, Path: "metadata"})
	f.flight.Submit(&s.queue, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneBackground})
}

// formLanded goes on. What fails here fails the start: nothing was promised yet.
func (s *Store) formLanded() {
	f := &s.former
	switch {
	case s.state == stateEnded:
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
		f.flight.Submit(&s.queue, disk.Request{Kind: disk.KindRename, Lane: disk.LaneJournal, Path: superblockTemp, Path2: superblockPath})
		f.flight.Submit(&s.queue, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneJournal})
	case formName:
		f.stage = formDone
		s.super.durable = s.super.writing
		s.super.want = s.super.writing
		s.journal.Stream(1)
		s.pumpJournal()
	}
}

// formSuperblock goes on when the journal has its first file.
func (s *Store) formSuperblock() {
	f, b := &s.former, &s.super
	f.stage = formSuperblock
	b.writing = format.Superblock{NodeID: s.identity.NodeID, ClusterID: s.identity.ClusterID, Version: 1, JournalFirst: 1, JournalCurrent: 1}
	both := disk.AlignedBuffer(format.SuperblockSize)
	b.writing.Put(both, 0)
	b.writing.Put(both[format.SuperblockSlotSize:], 1)
	for _, r := range [...]disk.Request{
		{Kind: disk.KindOpen, Flags: disk.FlagCreate | disk.FlagDirect, Path: superblockTemp},
		{Kind: disk.KindTruncate},
		{Kind: disk.KindWrite, Buf: both},
		{Kind: disk.KindSync},
	} {
		r.Lane, r.Handle = disk.LaneJournal, handleSuperblock
		f.flight.Submit(&s.queue, r)
	}
}

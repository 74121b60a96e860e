package store

import (
	"errors"

	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store/flight"
	"github.com/mortarmq/mortarmq/node/store/journal"
)

// recoverStage is what recovery is at, in order.
type recoverStage uint8

const (
	recoverOpen     recoverStage = iota // the superblock is opened
	recoverRead                         // and read
	recoverCheck                        // the journal is checked to its end
	recoverLoad                         // metadata and checkpoint are read (load.go)
	recoverRepair                       // both slots say the same again
	recoverNames                        // all names that were found are synced
	recoverCut                          // what the checkpoint does not name is removed
	recoverSegments                     // segments are cut back to it
	recoverRewrite                      // the journal's unmarked end is rewritten
	recoverStream                       // entries above the checkpoint are handed out
	recoverDone
)

// recoverer brings a directory back to what was promised. Nothing is changed
// before recoverRepair, and every stage from there on can be done again.
type recoverer struct {
	flight flight.Flight
	stage  recoverStage
	buf    []byte
	good   [2]bool

	number  op.Number // of the journal's last entry
	epoch   op.Epoch
	hash    op.Hash
	logTime op.LogMillis
}

// recoverStart begins.
func (s *Store) recoverStart() {
	s.state = stateRecovering
	r := &s.recoverer
	r.stage = recoverOpen
	r.flight.Submit(&s.queue, disk.Request{Kind: disk.KindOpen, Lane: disk.LaneJournal, Flags: disk.FlagDirect, Handle: handleSuperblock, Path: superblockPath})
}

// recoverLanded takes in the outcome of the requests of this file.
func (s *Store) recoverLanded() {
	r := &s.recoverer
	switch {
	case s.state == stateEnded:
		return
	case r.stage == recoverOpen && r.flight.Err == disk.ErrNotExist:
		s.probe()
		return
	case r.stage == recoverOpen && r.flight.Err == disk.ErrNotRegular, r.stage == recoverRead && r.flight.Err == disk.ErrIO:
		s.damage(Event{Path: superblockPath, What: "cannot be read: " + r.flight.Err.String(), Fatal: true})
		return
	case r.flight.Err != disk.OK:
		s.fail(r.flight.Err, "the data directory")
		return
	}
	switch r.stage {
	case recoverOpen:
		r.stage = recoverRead
		r.buf = disk.AlignedBuffer(format.SuperblockSize)
		r.flight.Submit(&s.queue, disk.Request{Kind: disk.KindRead, Lane: disk.LaneJournal, Handle: handleSuperblock, Buf: r.buf})
	case recoverRead:
		s.recoverChoose(r.buf[:min(r.flight.N, format.SuperblockSize)])
	case recoverNames:
		r.stage = recoverCut
		s.cut()
	}
}

// recoverChoose takes the valid slot with the higher version.
func (s *Store) recoverChoose(b []byte) {
	r := &s.recoverer
	var slots [2]format.Superblock
	for i := range slots {
		from, to := i*format.SuperblockSlotSize, (i+1)*format.SuperblockSlotSize
		if len(b) < to {
			continue
		}
		sb, err := format.DecodeSuperblock(b[from:to], uint8(i))
		var newer *format.VersionError
		if errors.As(err, &newer) {
			s.refuse(superblockPath, newer.Version, "a format version that this binary does not know")
			return
		}
		slots[i], r.good[i] = sb, err == nil
	}
	take := 0
	if r.good[1] && (!r.good[0] || slots[1].Version > slots[0].Version) {
		take = 1
	}
	sb := slots[take]
	switch {
	case !r.good[take]:
		s.damage(Event{Path: superblockPath, What: "both slots are damaged", Fatal: true})
		return
	case sb.NodeID != s.options.NodeID:
		s.refuse(superblockPath, 0, "these files belong to node "+utoa(uint64(sb.NodeID))+", this is node "+utoa(uint64(s.options.NodeID)))
		return
	case s.options.ClusterID != [16]byte{} && sb.ClusterID != s.options.ClusterID:
		s.refuse(superblockPath, 0, "these files belong to another cluster")
		return
	}
	s.super.want, s.super.durable = sb, sb
	s.super.first = uint8(1 - take) // a repair begins with the other slot
	s.identity = Identity{ClusterID: sb.ClusterID, NodeID: sb.NodeID}
	s.newSegments()
	s.cleaner.old = sb.CheckpointOp
	r.stage = recoverCheck
	s.journal.Check(journal.Known{
		ClusterID: sb.ClusterID, First: sb.JournalFirst, Current: sb.JournalCurrent,
		Checkpoint: sb.CheckpointOp, CheckpointHash: sb.CheckpointHash,
		Installed: sb.Installed, InstalledOp: sb.InstalledOp,
	})
}

// recoverChecked goes on when the journal is known to be whole.
func (s *Store) recoverChecked(ev *journal.Event) {
	r, sb := &s.recoverer, &s.super.durable
	r.number, r.hash = ev.Number, ev.Hash
	if ev.Number > sb.CheckpointOp {
		r.epoch, r.logTime = ev.Header.Epoch, ev.Header.LogTime
	} else {
		r.epoch, r.logTime = sb.CheckpointEpoch, sb.CheckpointTime
	}
	r.stage = recoverLoad
	s.load()
}

// recoverLoaded goes on when metadata and checkpoint were read and are whole.
func (s *Store) recoverLoaded() {
	sb := &s.super.durable
	s.emit(Event{Kind: EventCheckpointLoaded, Number: sb.CheckpointOp, Epoch: sb.CheckpointEpoch, Hash: sb.CheckpointHash, LogTime: sb.CheckpointTime})
	s.recoverer.stage = recoverRepair
	// Even two equal slots may be what a sync that never ended left in the page
	// cache: both are written again, the one that was not taken first.
	s.super.stage, s.super.writing = superFirst, *sb
	s.superSlot()
}

// recoverRepaired goes on when both slots say the same.
func (s *Store) recoverRepaired() {
	r := &s.recoverer
	s.super.first = 0
	r.stage = recoverNames
	for _, dir := range dataDirs {
		r.flight.Submit(&s.queue, disk.Request{Kind: disk.KindMkdir, Lane: disk.LaneBackground, Path: dir})
		r.flight.Submit(&s.queue, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneBackground, Path: dir})
	}
	r.flight.Submit(&s.queue, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneBackground})
}

// recoverCutDone goes on when only what the checkpoint names is left.
func (s *Store) recoverCutDone() {
	s.recoverer.stage = recoverSegments
	s.recoverSegments()
}

// recoverSegmentsDone goes on when all partitions are at their positions.
func (s *Store) recoverSegmentsDone() {
	if !s.appendHeld() {
		return
	}
	s.recoverer.stage = recoverRewrite
	s.journal.Rewrite()
}

// recoverRewritten goes on when all that is kept is synced.
func (s *Store) recoverRewritten() {
	s.recoverer.stage = recoverStream
	s.journal.Stream(s.super.durable.CheckpointOp + 1)
}

// recoverStreamed ends recovery, or forming.
func (s *Store) recoverStreamed() {
	r, sb := &s.recoverer, &s.super.durable
	r.stage = recoverDone
	s.state, s.super.told = stateRunning, r.number
	s.emit(Event{
		Kind: EventRecovered, Identity: s.identity,
		Promised: sb.Promised, Installed: sb.Installed, InstalledOp: sb.InstalledOp, InstalledHash: sb.InstalledHash,
		Number: r.number, Epoch: r.epoch, Hash: r.hash, LogTime: r.logTime,
	})
	r.buf = nil
	s.loader = loader{}
	s.begin()
}

package store

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store/flight"
)

// superStage is what the superblock's writer is at.
type superStage uint8

const (
	superIdle superStage = iota
	superFirst
	superSecond
	superStalled // the disk is full: the same slot again at retryAt
)

const (
	superblockPath = "superblock.mmsb"
	superblockTemp = "superblock.mmsb.tmp"
)

// superblock writes what is wanted to one slot, syncs it, then the other.
// Changes that come meanwhile are written together in the next round.
//
// Invariants:
//
//  1. Never are both slots under way: one of them is always whole and durable.
//  2. durable is on both slots, synced; recovery writes both before it relies
//     on either.
type superblock struct {
	flight  flight.Flight
	stage   superStage
	failed  superStage // what to repeat
	retryAt clock.Instant

	want    format.Superblock
	writing format.Superblock
	durable format.Superblock
	first   uint8 // the slot that is written first
	buf     []byte

	epochs, epochsWriting         bool // SetEpochs waits for an event
	checkpoint, checkpointWriting bool // a checkpoint waits

	// held is a flush or a truncation that is not told yet: both slots have to name
	// the journal file that it went to, or all that is in it could get lost without a
	// word. Nothing is appended meanwhile.
	held Event
	told op.Number // the last entry that was told to be synced, and is still there
}

// holding says whether something is held back.
func (b *superblock) holding() bool { return b.held.Kind != EventNone }

// superHold tells that the journal is synced up to ev.Number, or truncated there,
// once the superblock knows the file that was written to: the first write after a
// change of files waits for it.
func (s *Store) superHold(ev Event) {
	b := &s.super
	if b.holding() {
		panic("store: a write was synced before the one before it was told")
	}
	b.held = ev
	if s.state == stateRunning && s.superUnnamed() {
		s.superWrite()
		return
	}
	s.superRelease()
}

// superUnnamed says whether the superblock has yet to name the newest file that has
// its header.
func (s *Store) superUnnamed() bool {
	return s.journal.Begun() > s.super.durable.JournalCurrent
}

// superRelease tells what superHold held back.
func (s *Store) superRelease() {
	if b := &s.super; b.holding() {
		ev := b.held
		b.told, b.held = ev.Number, Event{}
		s.emit(ev)
	}
}

// SetEpochs makes the node's promise and what it has installed durable on both
// superblock slots: EventSuperblockDurable. Calls may overlap; the last wins.
func (s *Store) SetEpochs(promised, installed op.Epoch, installedOp op.Number, installedHash op.Hash) {
	if s.state != stateRunning {
		return // failed; nothing is promised any more
	}
	w := &s.super.want
	if promised < w.Promised || installed < w.Installed || installed > promised {
		panic("store: an epoch falls")
	}
	w.Promised, w.Installed, w.InstalledOp, w.InstalledHash = promised, installed, installedOp, installedHash
	s.super.epochs = true
	s.superWrite()
}

// superWrite begins a round, if none is under way.
func (s *Store) superWrite() {
	b := &s.super
	if b.stage != superIdle {
		return
	}
	b.writing = b.want
	b.writing.Version = b.durable.Version + 1
	b.writing.JournalCurrent = max(b.durable.JournalCurrent, s.journal.Begun())
	b.epochsWriting, b.epochs = b.epochs, false
	b.checkpointWriting, b.checkpoint = b.checkpoint, false
	b.stage = superFirst
	s.superSlot()
}

// superSlot submits the slot of the present stage.
func (s *Store) superSlot() {
	b := &s.super
	slot := b.first
	if b.stage == superSecond {
		slot = 1 - b.first
	}
	b.writing.Put(b.buf, slot)
	b.flight.Submit(&s.queue, disk.Request{Kind: disk.KindWrite, Lane: disk.LaneJournal, Handle: handleSuperblock, Offset: int64(slot) * format.SuperblockSlotSize, Buf: b.buf})
	b.flight.Submit(&s.queue, disk.Request{Kind: disk.KindSync, Lane: disk.LaneJournal, Handle: handleSuperblock})
}

// superLanded takes in the outcome of a slot.
func (s *Store) superLanded(now clock.Instant) {
	b := &s.super
	switch {
	case s.state == stateEnded:
		return
	case b.flight.Err == disk.ErrNoSpace && b.flight.ErrKind == disk.KindWrite:
		b.failed, b.stage, b.retryAt = b.stage, superStalled, now.Add(s.options.RetryEvery)
		s.emit(Event{Kind: EventJournalStalled, Err: b.flight.Err, Path: superblockPath})
		return
	case b.flight.Err != disk.OK:
		s.fail(b.flight.Err, superblockPath)
		return
	case b.stage == superFirst:
		b.stage = superSecond
		s.superSlot()
		return
	}
	b.stage, b.first, b.durable = superIdle, 0, b.writing
	if s.state == stateRecovering {
		s.recoverRepaired()
		return
	}
	if b.epochsWriting {
		d := &b.durable
		s.emit(Event{Kind: EventSuperblockDurable, Promised: d.Promised, Installed: d.Installed, InstalledOp: d.InstalledOp, InstalledHash: d.InstalledHash})
	}
	if b.checkpointWriting {
		s.checkpointNamed()
	}
	if !s.superUnnamed() {
		s.superRelease()
	}
	if b.epochs || b.checkpoint || b.holding() {
		s.superWrite()
	}
}

// superTick repeats what a full disk refused.
func (s *Store) superTick(now clock.Instant) {
	if b := &s.super; b.stage == superStalled && now >= b.retryAt {
		b.stage = b.failed
		s.superSlot()
	}
}

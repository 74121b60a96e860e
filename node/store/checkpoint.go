package store

import (
	"slices"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store/flight"
)

// checkpointStage is what a checkpoint is at.
type checkpointStage uint8

const (
	checkpointIdle    checkpointStage = iota
	checkpointPieces                  // begun: pieces come
	checkpointRest                    // finished: what is left is written
	checkpointSync                    // both files, and their names, are synced
	checkpointStalled                 // the disk is full: repeated at retryAt
	checkpointName                    // the superblock is written
	checkpointClean                   // what it made needless is removed (clean.go)
)

// checkpointFile is one of the two files of a checkpoint.
type checkpointFile struct {
	handle disk.Handle
	path   string
	opened bool
	offset int64
	blocks uint32
	buf    []byte // not yet submitted
	out    []byte // under way
}

// checkpointer writes checkpoints, one at a time: the log's and the ledger's
// file, piece by piece, while appends go on; the segments and the metadata log
// are synced up to what they were when it was begun; then the superblock names
// it.
//
// Invariants:
//
//  1. The files of a checkpoint are named after its op, which is above that of
//     the named one: they never replace it.
//  2. want names a checkpoint only after all of it was synced.
type checkpointer struct {
	flight  flight.Flight
	stage   checkpointStage
	after   checkpointStage // of a stall
	retryAt clock.Instant

	header   format.CheckpointHeader
	seed     uint32
	files    [2]checkpointFile // by PieceKind
	metadata uint64            // records of the metadata log as of the op
	token    uint64            // of the segments' flush
	flushed  uint64            // the last token that came back
	pinned   op.Number

	appended uint64        // the journal's bytes when the last one was begun
	since    clock.Instant // the first append after that; Never for none
	done     uint64        // checkpoints of this life
}

// PieceKind says what a checkpoint's piece belongs to.
type PieceKind uint8

// The kinds of piece.
const (
	PieceLog PieceKind = iota
	PieceCursor
)

// PieceMax bounds a piece in bytes.
const PieceMax = format.BlockBytesMax

// PinJournal keeps journal entries from number on over checkpoints, for a
// follower; 0 lets go.
func (s *Store) PinJournal(number op.Number) { s.checkpointer.pinned = number }

// CheckpointDue says that enough was appended, or enough time has passed, for
// the next checkpoint.
func (s *Store) CheckpointDue() bool {
	k := &s.checkpointer
	if s.state != stateRunning || k.stage != checkpointIdle || s.Flushed() <= s.super.durable.CheckpointOp {
		return false
	}
	if k.done == 0 && s.journal.Bytes() >= s.options.CheckpointBytes {
		return true // earlier lives have left that much
	}
	return s.journal.Appended()-k.appended >= uint64(s.options.CheckpointBytes) || k.since != clock.Never && s.now >= k.since.Add(s.options.CheckpointEvery)
}

// Checkpointing says whether a checkpoint is under way.
func (s *Store) Checkpointing() bool { return s.checkpointer.stage != checkpointIdle }

// CheckpointOp gives the op of the durable checkpoint.
func (s *Store) CheckpointOp() op.Number { return s.super.durable.CheckpointOp }

// BeginCheckpoint begins a checkpoint of the state as of the entry number. It is
// called when exactly the entries up to number were applied and handed over
// with AppendRecord and AppendMetadata.
func (s *Store) BeginCheckpoint(number op.Number, epoch op.Epoch, hash op.Hash, logTime op.LogMillis) {
	k := &s.checkpointer
	if s.state != stateRunning || k.stage != checkpointIdle || number <= s.super.durable.CheckpointOp || number > s.Flushed() {
		panic("store: BeginCheckpoint while one is under way, or of an op that is not above the last one's, or not flushed")
	}
	k.header = format.CheckpointHeader{ClusterID: s.identity.ClusterID, Number: number, Epoch: epoch, Hash: hash, LogTime: logTime}
	k.seed = k.header.Seed()
	k.appended, k.since = s.journal.Appended(), clock.Never
	k.metadata = s.metadata.records
	k.token++
	for i, path := range [...]string{format.LogCheckpointName(number), format.CursorCheckpointName(number)} {
		f := &k.files[i]
		*f = checkpointFile{handle: handleCheckpoint + disk.Handle(i), path: path, buf: f.buf[:0], out: f.out[:0]}
		f.buf = slices.Grow(f.buf, format.CheckpointHeaderSize)[:format.CheckpointHeaderSize]
		magic := format.LogCheckpointMagic
		if PieceKind(i) == PieceCursor {
			magic = format.CursorCheckpointMagic
		}
		k.header.Put(f.buf, magic)
	}
	k.stage = checkpointPieces
	s.checkpointPositions()
	s.cleaner.begin()
	s.segments.Flush(k.token)
	s.metadataWant(k.metadata)
	s.checkpointGo()
	s.pumpSegments()
}

// checkpointPositions puts where partitions end into the log's file.
func (s *Store) checkpointPositions() {
	var b []byte
	for p := range s.segments.Positions {
		q := format.Position{Topic: p.Topic, Partition: p.Partition, Last: p.Last, Base: p.Base, Offset: p.Offset}
		b = q.Append(b)
		if len(b) >= format.BlockBytesMax/2 {
			s.checkpointBlock(PieceLog, format.BlockPositions, b)
			b = b[:0]
		}
	}
	if len(b) > 0 {
		s.checkpointBlock(PieceLog, format.BlockPositions, b)
	}
	s.checkpointHeld(b[:0])
}

func (s *Store) checkpointBlock(kind PieceKind, block format.BlockKind, payload []byte) {
	k := &s.checkpointer
	f := &k.files[kind]
	q := format.Block{Kind: block, Number: f.blocks, Payload: payload}
	f.buf = q.Append(f.buf, k.seed)
	f.blocks++
}

// CheckpointPiece adds a piece, at most PieceMax bytes, to the checkpoint that
// was begun. It copies data. CheckpointRoom says how many bytes are welcome now.
func (s *Store) CheckpointPiece(kind PieceKind, data []byte) {
	if s.state == stateEnded {
		return
	}
	if s.checkpointStageNow() != checkpointPieces {
		panic("store: a piece without a checkpoint")
	}
	s.checkpointBlock(kind, format.BlockPiece, data)
	s.checkpointGo()
}

// CheckpointRoom says how many bytes of pieces may be given before the disk has
// taken those given before.
func (s *Store) CheckpointRoom() int {
	k := &s.checkpointer
	return max(0, 4*s.options.PieceBytes-len(k.files[0].buf)-len(k.files[1].buf))
}

// FinishCheckpoint says that all pieces were given: EventCheckpointDone follows.
func (s *Store) FinishCheckpoint() {
	if s.state == stateEnded {
		return
	}
	k := &s.checkpointer
	if s.checkpointStageNow() != checkpointPieces {
		panic("store: FinishCheckpoint without a checkpoint")
	}
	s.checkpointBlock(PieceLog, format.BlockEnd, nil)
	s.checkpointBlock(PieceCursor, format.BlockEnd, nil)
	if k.stage == checkpointStalled {
		k.after = checkpointRest
	} else {
		k.stage = checkpointRest
	}
	s.checkpointGo()
}

// checkpointStageNow looks through a stall.
func (s *Store) checkpointStageNow() checkpointStage {
	if k := &s.checkpointer; k.stage == checkpointStalled {
		return k.after
	}
	return s.checkpointer.stage
}

// checkpointGo goes on with the checkpoint, if nothing is under way.
func (s *Store) checkpointGo() {
	k := &s.checkpointer
	if s.state != stateRunning || k.flight.Busy() || k.stage != checkpointPieces && k.stage != checkpointRest {
		return
	}
	for i := range k.files {
		f := &k.files[i]
		if len(f.buf) >= s.options.PieceBytes || k.stage == checkpointRest && len(f.buf) > 0 {
			f.buf, f.out = f.out[:0], f.buf
		}
	}
	if s.checkpointWrite() {
		return
	}
	if k.stage == checkpointRest && k.flushed >= k.token && s.metadata.durable >= k.metadata {
		k.stage = checkpointSync
		for i := range k.files {
			f := &k.files[i]
			if !fault.On("checkpoint_named_before_sync") {
				k.flight.Submit(&s.queue, disk.Request{Kind: disk.KindSync, Lane: disk.LaneBackground, Handle: f.handle})
			}
			k.flight.Submit(&s.queue, disk.Request{Kind: disk.KindClose, Lane: disk.LaneBackground, Handle: f.handle})
		}
		k.flight.Submit(&s.queue, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneBackground, Path: format.CheckpointsDir})
	}
}

// checkpointWrite submits what is in the files' out, and says whether there was
// something.
func (s *Store) checkpointWrite() bool {
	k := &s.checkpointer
	for i := range k.files {
		f := &k.files[i]
		if len(f.out) == 0 {
			continue
		}
		if !f.opened {
			k.flight.Submit(&s.queue, disk.Request{Kind: disk.KindOpen, Lane: disk.LaneBackground, Flags: disk.FlagCreate, Handle: f.handle, Path: f.path})
		}
		if f.offset == 0 {
			k.flight.Submit(&s.queue, disk.Request{Kind: disk.KindTruncate, Lane: disk.LaneBackground, Handle: f.handle})
		}
		k.flight.Submit(&s.queue, disk.Request{Kind: disk.KindWrite, Lane: disk.LaneBackground, Handle: f.handle, Offset: f.offset, Buf: f.out})
	}
	return k.flight.Busy()
}

// checkpointLanded takes in the outcome.
func (s *Store) checkpointLanded(now clock.Instant) {
	k := &s.checkpointer
	if s.state == stateEnded {
		return
	}
	if k.flight.Err == disk.ErrNoSpace && k.stage != checkpointSync {
		k.after, k.stage, k.retryAt = k.stage, checkpointStalled, now.Add(s.options.RetryEvery)
		s.emit(Event{Kind: EventCheckpointStalled, Err: k.flight.Err, Path: format.CheckpointsDir, Number: k.header.Number})
		return
	}
	if k.flight.Err != disk.OK {
		path := format.CheckpointsDir
		for i := range k.files {
			if f := &k.files[i]; k.flight.ErrHandle == f.handle && k.flight.ErrKind != disk.KindSyncDir {
				path = f.path
			}
		}
		s.fail(k.flight.Err, path)
		return
	}
	if k.stage == checkpointSync {
		s.checkpointSynced()
		return
	}
	for i := range k.files {
		f := &k.files[i]
		if len(f.out) > 0 {
			f.opened = true
			f.offset += int64(len(f.out))
			f.out = f.out[:0]
		}
	}
	s.checkpointGo()
}

// checkpointOpened notes which files are open, request by request: a full disk
// may have refused the one and not the other.
func (s *Store) checkpointOpened(c *disk.Completion) {
	for i := range s.checkpointer.files {
		if f := &s.checkpointer.files[i]; c.Kind == disk.KindOpen && c.Err == disk.OK && c.Handle == f.handle {
			f.opened = true
		}
	}
}

// checkpointTick repeats what a full disk refused.
func (s *Store) checkpointTick(now clock.Instant) {
	k := &s.checkpointer
	if k.stage == checkpointStalled && now >= k.retryAt {
		k.stage = k.after
		if !s.checkpointWrite() {
			s.checkpointGo()
		}
	}
}

// checkpointSynced has the superblock name the checkpoint.
func (s *Store) checkpointSynced() {
	k, w := &s.checkpointer, &s.super.want
	k.stage = checkpointName
	first := k.header.Number + 1
	if k.pinned > 0 {
		first = min(first, k.pinned)
	}
	best := s.snapshotter.best(k.metadata)
	w.CheckpointOp, w.CheckpointEpoch, w.CheckpointHash, w.CheckpointTime = k.header.Number, k.header.Epoch, k.header.Hash, k.header.LogTime
	w.MetadataRecords, w.SnapshotRecords, w.SnapshotEpoch = k.metadata, best.records, best.epoch
	w.JournalFirst = max(w.JournalFirst, s.journal.First(first))
	s.super.checkpoint = true
	s.superWrite()
}

// checkpointNamed goes on when both slots name the checkpoint.
func (s *Store) checkpointNamed() {
	k := &s.checkpointer
	k.done++
	s.emit(Event{Kind: EventCheckpointDone, Number: k.header.Number})
	k.stage = checkpointClean
	s.clean()
}

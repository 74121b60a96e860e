package store

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/op"
)

// Store is a node's files. One turn at a time uses it.
type Store struct {
	options Options
}

// New gives a store that has not started. It panics on options that Validate
// refuses.
func New(o Options) *Store {
	if err := o.Validate(); err != nil {
		panic(err)
	}
	return &Store{options: o.withDefaults()}
}

// Start begins recovery.
func (s *Store) Start(now clock.Instant) {}

// Form makes an empty directory that of id: the answer to EventFresh. Recovered
// follows.
func (s *Store) Form(id Identity) {}

// Complete takes the outcome of a request. Those of others, and stale ones, are
// dropped.
func (s *Store) Complete(now clock.Instant, c *disk.Completion) {}

// Take appends the requests queued since the last call to out.
func (s *Store) Take(out []disk.Request) []disk.Request { return out }

// Next overwrites ev with the next event and says whether there was one. What
// the last event lent is taken back.
func (s *Store) Next(ev *Event) bool { return false }

// NextDeadline is when Tick wants to be called, or Never.
func (s *Store) NextDeadline() clock.Instant { return clock.Never }

// Tick does what is due by now.
func (s *Store) Tick(now clock.Instant) {}

// CanAppend says whether Append may be called: recovered, not failed, and no
// write under way.
func (s *Store) CanAppend() bool { return false }

// Append writes the sealed builder's entries to the journal and syncs them. The
// first of them follows the last entry that was appended, or what Truncate
// left. b is borrowed until Flushed reports its last entry.
func (s *Store) Append(now clock.Instant, b *op.Builder) {}

// Truncate drops the journal's entries above number, whose hash is hash, and
// makes that durable: EventTruncated. CanAppend must hold.
func (s *Store) Truncate(now clock.Instant, number op.Number, hash op.Hash) {}

// ReadJournal reads about max bytes of entries from number on: EventJournalRead.
// One at a time.
func (s *Store) ReadJournal(number op.Number, max int) {}

// Last gives the last entry's number and hash, Flushed the last one synced.
func (s *Store) Last() (op.Number, op.Hash) { return 0, op.Hash{} }

// Flushed gives the last entry known to be synced.
func (s *Store) Flushed() op.Number { return 0 }

// JournalFull says that the journal holds more than JournalCapBytes since the
// checkpoint: changes that clients ask for must wait.
func (s *Store) JournalFull() bool { return false }

// PinJournal keeps journal entries from number on over checkpoints, for a
// follower; 0 lets go.
func (s *Store) PinJournal(number op.Number) {}

// SetEpochs makes the node's promise and what it has installed durable on both
// superblock slots: EventSuperblockDurable. Calls may overlap; the last wins.
func (s *Store) SetEpochs(promised, installed op.Epoch, installedOp op.Number, installedHash op.Hash) {
}

// AppendMetadata appends an applied op to the metadata log. It copies opBytes.
func (s *Store) AppendMetadata(h op.Header, opBytes []byte) {}

// SnapshotDue says that the metadata log has grown enough for a snapshot.
func (s *Store) SnapshotDue() bool { return false }

// WriteSnapshot writes the metadata's state as of the last AppendMetadata.
// data is borrowed until EventSnapshotWritten.
func (s *Store) WriteSnapshot(epoch op.Epoch, data []byte) {}

// CheckpointDue says that enough was appended, or enough time has passed, for
// the next checkpoint.
func (s *Store) CheckpointDue() bool { return false }

// BeginCheckpoint begins a checkpoint of the state as of the entry number. It is
// called when exactly the entries up to number were applied and handed over
// with AppendRecord and AppendMetadata.
func (s *Store) BeginCheckpoint(number op.Number, epoch op.Epoch, hash op.Hash, logTime op.LogMillis) {
}

// PieceKind says what a checkpoint's piece belongs to.
type PieceKind uint8

// The kinds of piece.
const (
	PieceLog PieceKind = iota
	PieceCursor
)

// CheckpointPiece adds a piece, at most PieceMax bytes, to the checkpoint that
// was begun. It copies data. CheckpointRoom says how many bytes are welcome now.
func (s *Store) CheckpointPiece(kind PieceKind, data []byte) {}

// CheckpointRoom says how many bytes of pieces may be given before the disk has
// taken those given before.
func (s *Store) CheckpointRoom() int { return 0 }

// FinishCheckpoint says that all pieces were given: EventCheckpointDone follows.
func (s *Store) FinishCheckpoint() {}

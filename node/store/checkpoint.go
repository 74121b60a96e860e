package store

import "github.com/mortarmq/mortarmq/node/op"

// PinJournal keeps journal entries from number on over checkpoints, for a
// follower; 0 lets go.
func (s *Store) PinJournal(number op.Number) {}

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

func (s *Store) load()            { s.recoverLoaded() }
func (s *Store) cut()             { s.recoverCutDone() }
func (s *Store) recoverSegments() { s.recoverSegmentsDone() }
func (s *Store) begin()           {}
func (s *Store) retired()         {}
func (s *Store) checkpointNamed() {}

package node

import (
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/store"
)

// pieceBytesMax bounds one piece of a checkpoint, and with it what a turn spends
// on encoding one.
const pieceBytesMax = 256 << 10

// checkpointing is the phase machine of a checkpoint: begin at a boundary
// between entries, give pieces as the disk takes them while entries go on being
// applied, finish, wait for the superblock.
type checkpointing struct {
	phase    checkpointPhase
	kind     store.PieceKind
	snapshot bool // a metadata snapshot is being written
}

type checkpointPhase uint8

const (
	checkpointNone checkpointPhase = iota
	checkpointPieces
	checkpointSyncing
)

func (c *checkpointing) done() { c.phase = checkpointNone }

// advanceCheckpoint does this turn's share: at most one piece of each kind, so
// that no turn is stalled.
func (n *Node) advanceCheckpoint() {
	if n.phase != phaseServing {
		return
	}
	c := &n.checkpoint
	if !c.snapshot && n.store.SnapshotDue() {
		c.snapshot = true
		n.store.WriteSnapshot(n.appliedHeader.Epoch, n.machine.EncodeMetadata(nil))
	}
	if c.phase == checkpointNone && n.store.CheckpointDue() {
		h := &n.appliedHeader
		n.machine.BeginCheckpoint()
		n.store.BeginCheckpoint(h.Number, h.Epoch, n.appliedHash, h.LogTime)
		c.phase, c.kind = checkpointPieces, store.PieceLog
	}
	for c.phase == checkpointPieces {
		room := min(n.store.CheckpointRoom(), pieceBytesMax)
		if room <= 0 {
			return
		}
		piece, done := n.machine.NextCheckpointPiece(machinePiece(c.kind), n.scratch[:0], room)
		n.scratch = piece[:0]
		if len(piece) > 0 {
			n.store.CheckpointPiece(c.kind, piece)
		}
		if !done {
			return
		}
		if c.kind == store.PieceLog {
			c.kind = store.PieceCursor
			continue
		}
		n.store.FinishCheckpoint()
		c.phase = checkpointSyncing
	}
}

// machinePiece is the machine's name for a kind of piece.
func machinePiece(k store.PieceKind) machine.PieceKind {
	if k == store.PieceLog {
		return machine.PieceLog
	}
	return machine.PieceCursor
}

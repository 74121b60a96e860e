package store

import (
	"strconv"

	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/op"
)

// EventKind says what happened.
type EventKind uint8

// The kinds of event and the fields of Event that each uses.
const (
	EventNone EventKind = iota
	// EventFresh: the directory holds nothing. Form makes it ours.
	EventFresh
	// EventMetadataSnapshot: Data is the snapshot given to WriteSnapshot. Not
	// sent when the checkpoint's metadata log starts from nothing.
	EventMetadataSnapshot
	// EventMetadataOp: Header has number, epoch and log time of the entry; Data
	// is the op as it was given to AppendMetadata.
	EventMetadataOp
	// EventLogCheckpoint and EventCursorCheckpoint: Data is one piece, as given
	// to CheckpointPiece.
	EventLogCheckpoint
	EventCursorCheckpoint
	// EventCheckpointLoaded: Number, Epoch, Hash, LogTime of the checkpoint; all
	// zero without one.
	EventCheckpointLoaded
	// EventEntry: Entry is the next journal entry above the checkpoint.
	EventEntry
	// EventRecovered: Identity, Promised, Installed, InstalledOp, InstalledHash,
	// and the last entry's Number, Epoch, Hash, LogTime. All that is kept is
	// synced.
	EventRecovered
	// EventFlushed: journal entries up to Number are synced; builders that hold
	// none above it are no longer borrowed.
	EventFlushed
	// EventTruncated: Truncate to Number is durable.
	EventTruncated
	// EventSuperblockDurable: what the latest SetEpochs but those called since
	// said is on both slots (Promised, Installed, InstalledOp).
	EventSuperblockDurable
	// EventSnapshotWritten: the snapshot is synced, its bytes no longer borrowed.
	EventSnapshotWritten
	// EventCheckpointDone: the superblock that names the checkpoint at Number is
	// durable.
	EventCheckpointDone
	// EventReadReady: a record of Topic, Partition that was Pending can be read.
	EventReadReady
	// EventJournalRead: Data is what ReadJournal asked for, whole frames of
	// entries from Number on; Err is set when it cannot be read.
	EventJournalRead
	// EventDamage: Path, Offset, Sequence (an op number for the journal) and What
	// name it. Fatal: recovery has ended here.
	EventDamage
	// EventTornTail: an unsynced end of the journal was cut off: Path, Offset,
	// Number (the first op lost, if it was one), What.
	EventTornTail
	// EventJournalFailed: Err and Path of what could not be written, synced or read;
	// What names both, and what kind of file it is. Nothing more is acknowledged.
	EventJournalFailed
	// EventJournalStalled: a write of the journal or the superblock (Path) waits
	// because the disk is full. It is repeated by itself; Flushed or
	// SuperblockDurable says that it got through.
	EventJournalStalled
	// EventCheckpointStalled and EventSegmentStalled: Err, Path; the disk is full,
	// the checkpoint waits for it, the journal does not. EventSegmentResumed ends
	// the latter.
	EventCheckpointStalled
	EventSegmentStalled
	EventSegmentResumed
	// EventRepaired: recovery cut Path back to Offset, removed it (Offset 0), or
	// an index at Path was rebuilt.
	EventRepaired
	// EventSpaceChanged: Free, what no record that waits to be written will take,
	// and Total, in bytes; Low: below the reserve.
	EventSpaceChanged
	// EventRefused: What says why this directory is not opened; Path and Version
	// when it is a file of a newer format (SEGMENT_VERSION_TOO_NEW).
	EventRefused
)

var eventNames = [...]string{"none", "fresh", "metadata_snapshot", "metadata_op", "log_checkpoint", "cursor_checkpoint", "checkpoint_loaded", "entry", "recovered", "flushed", "truncated", "superblock_durable", "snapshot_written", "checkpoint_done", "read_ready", "journal_read", "damage", "torn_tail", "journal_failed", "journal_stalled", "checkpoint_stalled", "segment_stalled", "segment_resumed", "repaired", "space_changed", "refused"}

func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return "event(" + strconv.Itoa(int(k)) + ")"
}

// Identity says whose files these are.
type Identity struct {
	ClusterID [16]byte
	NodeID    uint16
}

// Event is something that happened in the store. Which fields a kind uses
// stands at the kind. Data and Entry are borrowed until the next call of Next.
type Event struct {
	Kind EventKind
	Err  disk.Errno
	// Fatal: see EventDamage. Low: see EventSpaceChanged.
	Fatal, Low bool
	Version    uint8

	Topic     op.TopicID
	Partition op.PartitionID

	Number  op.Number
	Epoch   op.Epoch
	Hash    op.Hash
	LogTime op.LogMillis

	Identity            Identity
	Promised, Installed op.Epoch
	InstalledOp         op.Number
	InstalledHash       op.Hash

	Header op.Header
	Entry  op.Entry
	Data   []byte

	Path     string
	Offset   int64
	Sequence uint64
	What     string

	Free, Total int64
}

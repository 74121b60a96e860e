// Package store is everything that a node keeps on its disk: the superblock,
// the journal, the metadata log, the segments of all partitions and the
// checkpoints that tie them together (storage.md).
//
// The life of a store: New, Start, then completions go in through Complete and
// requests come out through Take until the event Recovered (or Fresh, answered
// with Form; or a fatal Damage or Refused, after which nothing more happens).
// From then on:
//
//	Append          an op.Builder goes to the journal; Flushed names what is synced
//	AppendRecord    what was applied goes to its partition's segment, behind it
//	AppendMetadata  and to the metadata log, behind it
//	SetEpochs       promise and installed epoch go to both superblock slots
//	Truncate        the journal's end is cut off, durably; ReadJournal reads it back
//	BeginCheckpoint ... CheckpointPiece ... FinishCheckpoint
//	                the state as of one applied op; CheckpointDone when the
//	                superblock that names it is durable on both slots
//
// Nothing here blocks, calls back or reads a clock. The long procedures are
// phase machines, a file each: form.go, fresh.go, recover.go, load.go, cut.go,
// checkpoint.go, clean.go, snapshot.go. Each of them may be cut off after any
// prefix of its requests and is begun again from what is on the disk.
//
// A turn: Tick if its deadline has come, Complete for each completion, Next
// until it is false (recovery reads on from there), whatever the node does, and
// last Take.
//
// Invariants:
//
//  1. An op is reported by Flushed only after the sync that followed its write
//     completed with OK, and Flushed numbers only rise within a life.
//  2. Nothing on the disk is changed before the journal was checked to its end;
//     after a fatal Damage nothing is changed at all (damaged metadata files,
//     which move to metadata/quarantine, excepted).
//  3. The superblock names only files that were synced, names and all, before
//     its first slot was written: of the journal, one whose header was.
//  4. A file that either slot of the durable superblock may name, or that
//     recovery from either would read, is neither recycled nor unlinked; but for
//     a journal file that the synced header of a newer one has emptied.
//  5. Events come in the order in which they happened; those of recovery come
//     in the order metadata, log checkpoint, cursor checkpoint,
//     CheckpointLoaded, entries, Recovered.
//  6. A write or sync of the journal or the superblock that failed for another
//     reason than a full disk is never repeated: the store is failed and says so.
//
// It does not know what an op means, who leads, or what a checkpoint's pieces
// hold; it cuts, checks and keeps bytes.
package store

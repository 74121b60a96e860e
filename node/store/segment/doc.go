// Package segment keeps the records of all partitions: the newest in memory,
// all of them in segment files, written behind the journal. It is an
// asynchronous set: methods queue disk requests, the driver takes them when the
// turn has ended (Take), and what became of them comes back through Complete.
//
// The life of a record: Append encodes it into the tail chunk of its partition,
// from where it is read from then on. Once the chunk is full, a second has
// passed, or Flush was called, the partition's writer writes the chunk and the
// index entries of its records; a clean chunk stays as a cache for tailing
// consumers until the budget needs its memory. A segment that is full is
// synced, and the next begins with the next record. A record that is no longer
// in memory is read by a chunk of its segment, found through the sparse index,
// verified, and cached.
//
// The life of the set: New; Recover with the positions of the log checkpoint,
// which cuts every partition back to its position; replay of the journal, as
// Appends; serving. For a checkpoint the store calls Positions and Flush in one
// turn: when Flushed comes, everything up to these positions is durable.
//
// Invariants:
//
//  1. Sequences of a partition are appended from 1 without a gap, and records
//     lie in its segments in that order.
//  2. A segment's file is named after its first record; a record begins a new
//     one if it would end beyond SegmentMaxBytes and is not the first. Bytes and
//     names are a function of the records and of the options alone.
//  3. Chunks of a partition are contiguous, and every byte that is not known to
//     be written is in one.
//  4. A partition has one writer at a time; it writes in order, and syncs only
//     what was written without an error.
//  5. After Flushed everything appended before Flush survives a power loss, and
//     so do the names of its files.
//  6. What Read gives was verified after it came from the disk, or never left
//     memory. It is borrowed until Take.
//  7. Memory is bounded by the options, but for records that wait to be written
//     (DirtyBytes): those are never dropped.
//  8. An index is a hint: an entry counts if the segment agrees with it. One
//     that is missing or wrong is rebuilt from its segment alone; where that is
//     damaged, an entry that the segment confirms says where it goes on.
//  9. Damage is of one partition. If recovery finds that a partition does not end
//     as its position says - a record, the active segment or the whole directory
//     is gone or wrong - nothing in it is written, cut or removed any more: a copy
//     that is put back makes it whole. What is appended behind the position, as the
//     journal has it, is held in memory, can be read from there, and goes into
//     every checkpoint (Held), which keeps the old position. The start after the
//     damage is gone appends it again. A segment that vanishes while it is written
//     to holds up the flush, and by that the checkpoint, until the next start,
//     which has all of it from the journal. Either way nothing is lost.
//  10. A failed sync ends the set (event Failed): nothing is reported flushed
//     after it. A full disk only stalls a partition's writer, and is tried
//     again.
//
// A segment's space is not reserved on disk: the contract can only write zeros,
// which would double the writes. The leader counts DirtyBytes against the free
// space instead, before it proposes a PUB.
//
// It knows nothing of the journal, of topics' names, or of what a record means.
package segment

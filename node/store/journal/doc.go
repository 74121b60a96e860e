// Package journal is the replicated log on disk: files of writes of entries,
// each write synced before the next one begins (storage.md, "Writing" and
// "Recovery"; layouts in node/format).
//
// The life of an entry: Append takes a sealed op.Builder, frames it for the
// current file, and queues one write and one sync; Flushed names it when the
// sync has completed. The next write carries a mark of it. The life of a file:
// prepared ahead (a retired file renamed, or a new one filled with zeros), its
// header written with the first write into it, full, and retired when Retire
// says that a checkpoint covers it, or when a start has emptied it.
//
// Recovery is check.go (the journal is read to its end and judged; nothing is
// changed), rewrite.go (what lies behind the last mark, and what fits along with
// it, goes into a new file), reclaim.go (which files that empties), stream.go
// (entries above the checkpoint are handed out).
//
// How many files there are follows from what they hold, not from how often the
// node was started. A start copies the newest files, whole, as long as what they
// hold fits into half a file; they are emptied by the new file's header and become
// the next prepared files. So any three neighbours among the files that stay hold
// more than half a file, and a start gives back what it takes.
//
// On a full disk a start must find a file. So nothing is written as long as none
// is prepared and none can be, nor beyond half of the current file with only one
// prepared: up to its half the next start empties it, beyond that it uses up the
// first and has the second for the start after it. (A write that takes more than
// half of a file that it begins is the exception; with files of the usual size there
// is none.)
//
// What counts, by these rules:
//
//   - A file's header names S, the first entry in it. From S on nothing counts
//     that is in older files; and everything below S was synced before the
//     header was written, so the header is itself a mark of S-1.
//   - A file without a valid header adds no entries to the chain: its marks
//     count, its entries do not.
//     If the superblock names it or a later one, it had a header: it is damaged,
//     unless newer headers took what it held.
//   - An entry counts if it is intact, joins the hash chain, and is of the
//     installed epoch if it is above the op at which that was installed. The
//     first one of an earlier epoch ends the journal, and marks behind it say
//     nothing. One of a later epoch is damage: an epoch is installed durably
//     before an entry of it is written, so the superblock has gone back.
//   - The first entry that does not count is damage if any mark behind it names
//     it or more, otherwise the torn end.
//
// Rejected: an end found by the first bad entry alone (a single rotten sector
// would silently cut off acknowledged entries), and truncation in place (a cut
// that is not durable brings back entries of an older epoch).
//
// Invariants:
//
//  1. At most one write and its sync are under way.
//  2. Entries are appended in order: number one above, hash joining.
//  3. A write begins on a block boundary, and nothing that was synced is
//     written again, the header of a file that was still without one excepted.
//  4. The header of the file that recovery rewrites into is written after its
//     entries are synced: it takes away what older files hold.
//  5. From the newest file with a header on file numbers have no gap; before it a
//     number is missing only if a newer header took all that the file held: that
//     the chain goes on over the gap proves it. A file gets its number, and that
//     name is synced, before anything is written.
//  6. A file is emptied by a header that is synced before the file is renamed or
//     removed; a header that an earlier life wrote is written again before that.
//  7. After a failed sync, or a write that failed for another reason than a full
//     disk, nothing more is written.
//
// It does not know what an op means, and reads bodies only to check them.
package journal

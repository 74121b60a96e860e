// Package replica is the replicated log: epochs, the leader's batches, append,
// commit. It knows nothing of topics, and nothing of files: it defines the Log
// that it needs.
//
// The life of an op in here: Propose encodes it into the batch that is being
// collected; Flush, at the end of a turn, seals the batch - op numbers, epoch,
// hash chain, log time, commit - and gives it to the Log if none is in flight;
// OnFlushed moves commit; NextCommitted hands the entries out to be applied.
// That is the whole group commit: while a flush is in flight ops collect, its
// completion sends the next batch, there is no timer, batches grow with load
// and an idle node flushes at once.
//
// The life of an epoch: Start stands with the next epoch that is this node's to
// use, makes the promise durable, installs its own log (a majority of one voter
// is the node itself), makes that durable, and appends EpochStart; the node
// leads once that is committed. A node leads no epoch that it did not start in
// this life.
//
// Invariants (cluster.md):
//
//  1. promised >= installed, and both only rise.
//  2. An epoch is promised durably before anything is done in it, and installed
//     durably before an entry of it is written.
//  3. commit <= flushed <= last, and none of them falls within a life.
//  4. Only what is committed and flushed here is handed out, each entry once,
//     in order.
//  5. Log time never falls along the log.
//  6. After a failed flush nothing is flushed, committed or proposed again in
//     this life.
//
// Not here: more than one voter. The rules above are written so that votes,
// followers and catch-up add to this package and change nothing above it.
package replica

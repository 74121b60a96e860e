// Package checker judges a history: what clients asked, were told and were
// handed, and what the logs hold in the end. It knows nothing of a simulator or
// of a broker's insides, so it judges real clusters too.
//
// The life of a judgement: a driver fills a History while it runs, adds the
// final logs and books, and calls Check. Findings name a property and the first
// event that breaks it; a checker that ran out of its budget says so instead of
// passing.
//
// One property a file:
//
//	linear.go     linearizable commit: publishes, dedup and reads against an
//	              append-only log, per partition
//	once.go       at least once: every committed message reaches every group and
//	              ends settled exactly once in the books
//	anomalies.go  lost write, duplicate, inconsistent offset, aborted read,
//	              non-monotonic and skipping poll, unseen (as Jepsen names them)
//	books.go      the accounting identity, and what never falls
//	ids.go        a delivery id is given once
//	redrive.go    a dead letter comes back exactly once, however often it is asked for
//	ownership.go  settles per (group, partition) as a fenced lock
//
// Invariants:
//
//  1. A verdict follows from the history and the budget alone: no wall time, no
//     order of maps.
//  2. An unknown outcome is never counted against the broker: the final log says
//     what became of it.
//  3. Times are one clock's, and Call <= Return.
//
// A group that an operator reset or deleted owes what it owes anew: a Break in the
// history divides by ownership epoch what was before from what came after.
//
// It does not know how a message looks: payloads are identities that the driver
// gives, one per message within a partition.
package checker

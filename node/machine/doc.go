// Package machine is the replicated state: topics, partitions, producer
// windows, groups, owners, the ledger of deliveries, dead letters. Apply is the
// only way to change it. It is pure - its result depends on the state, the
// entry's header and the op - so every node that applied the same ops holds the
// same state, which Digest says in 16 bytes.
//
// # The life of a message in here
//
// Publish: the producer's window (window.go) says whether producer_seq is new,
// a duplicate, ahead or forgotten; a new one takes the partition's next
// sequence, and Result.Append tells the node which record to store. Nothing is
// kept of the record itself.
//
// For a group, a message is first a number at or above its cursor's NextFirst.
// Deliver raises NextFirst over it and makes an entry in the ledger (ledger.go):
// delivery id, ownership epoch, attempts, charges. It stays until the message is
// settled:
//
//	never delivered --Deliver--> Out --Ack--> settled (delivered)
//	                              |  ^
//	           Nack, Expire, lost |  | Deliver
//	                owner         v  |
//	                            Waiting --Ack (before the next Deliver)--> settled
//	                              |
//	        charges used up       v
//	                            Dead --DeadLetter--> settled (dropped; in the twin)
//
// The floor is one below the lowest entry, or NextFirst - 1 without entries.
// What is settled above the floor needs no memory: it is what lies below
// NextFirst and has no entry.
//
// An entry that says Out, but under an ownership epoch that is over, counts as
// Waiting and due: so moving a partition, losing a member and starting an epoch
// touch no entries.
//
// # Owners
//
// A group's target assignment is a pure function of its members, the partition
// count and the target before (assign.go). rebalance.go carries it out: a
// partition without owner goes to its target at once; one whose owner is not its
// target is being revoked until Revoked or the owner's Leave is applied.
//
// # Invariants
//
//	M1  A refusal (Result.Code not OK) leaves the state as it was, except that
//	    DLQ_PATH_OVERFLOW settles the dead letter that it is about. Deliver,
//	    Expire and the like that come too late are refused too.
//	M2  Topic ids are handed out in pairs, rise, and are never reused.
//	M3  A partition's sequences are 1, 2, 3 ... and its timestamps never fall.
//	M4  A producer window covers the last min(accepted, 1024) sequences of that
//	    producer, without a hole.
//	M5  LastSeq - Start = Delivered + Dropped + Unsettled, DLQ + Quarantined <=
//	    Dropped, for every (group, partition), after every op.
//	M6  Every entry of the ledger lies between Floor and NextFirst; there are at
//	    most wire.MaxUnsettled of them per (group, partition).
//	M7  An ownership epoch has at most one owner, ever. The epoch rises when the
//	    owner loses the partition, whether or not somebody gets it then.
//	M8  While a group has members and is not held, each partition has one owner
//	    or is about to get one by a Revoked; numbers of targets per member differ
//	    by at most one.
//	M9  Epochs of a group only rise; a group made anew, under the old name or
//	    another, starts above those of all groups deleted before.
//	M10 A message gets at most one dead letter per group, and a dead letter is
//	    redriven at most once.
//	M11 What Digest covers does not depend on how the state was reached: by
//	    applying every op, or from a checkpoint and the ops behind it.
//
// # What it does not do
//
// It reads no record, clock or configuration: log time is in the header, settings
// come with EpochStart, the content of a dead letter is in its op. It knows no
// connection, lease, credit or waiting PULL: when a lease has run out the leader
// says so with Expire. It does not decide what to answer before an op is
// committed; View tells the leader what is already settled for good.
//
// Kept out on purpose: a list of settled ranges (see above), a timer wheel of due
// times (the leader has one; the rest only need the numbers), and walking a
// partition's entries when its owner changes.
package machine

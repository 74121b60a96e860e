// Package core is the whole logic of a MortarMQ client as a deterministic state machine: connection, leader search,
// retries, batching, idempotent publishing, membership, delivery, credit. It starts no goroutine, reads no clock and moves
// no bytes. A driver (package client in production, the simulator in a run) calls Turn with what happened and carries out
// the effects; the same inputs at the same instants give the same effects, to the byte.
//
// # The life of a publish
//
// A Publish input names a producer, a key and a value, which are borrowed from then until the outcome. It gets a partition:
// the one asked for, the one its key hashes to (wire.Partition), or the one whose turn it is. Each (producer, partition) is a
// lane, a queue in order of arrival. A lane sends from its head while the connection has room; at its first transmission an
// item takes the lane's next producer_seq, which it keeps. Everything that is sent in one turn leaves in one write.
//
// An OK ends it. A refusal that the registry says to repeat rewinds the lane: what was sent behind the refused item comes
// back as SEQ_GAP, and when the last answer is in, the lane sends again from its head, in order, with the same sequences,
// after a backoff and at first one at a time. A connection that breaks rewinds every lane the same way; its items are
// uncertain from then on, until an OK tells. A refusal for good is an outcome; since its sequence will never be used, the lane
// takes a fresh producer_id, and what was behind it is numbered anew once the broker has said that it has none of it.
//
// # The life of a delivery
//
// A consumer joins (SUB), is told its partitions (NOTICE) and keeps up to two PULLs waiting while it has credit. A MSG is
// copied, queued at its partition and handed to the application (Effects.Deliveries), at most HandOut of a partition at a
// time. Settle answers it: ACK or NACK go out in the order of the answers and pipelined, and are repeated where the registry
// says so. What waits in the queue has its lease renewed by PROGRESS, so that only the handler's own time counts against it.
// Credit goes back for every MSG that is done with, however it ended, in batches.
//
// A PULL that gets INTERNAL, because the broker cannot read what is next, ends nothing: it is told (EventConsumerTrouble), and
// the next PULL follows after a backoff.
//
// A REVOKE drops the partition's queue, waits until what was handed out is settled and answered, and confirms. A lost
// connection or membership drops everything: what was handed out then settles into nothing, and its messages come again.
//
// # Invariants
//
//	C1  Every accepted Publish has exactly one outcome.
//	C2  Of a lane, sequences of one producer_id are first sent in rising order without holes, and a sequence never carries
//	    two messages.
//	C3  An item that may have been committed is never sent under another producer_id or sequence.
//	C4  An outcome without error was answered OK; one that is neither OK nor Unknown certainly had no effect.
//	C5  An OK or ERR answers the oldest unanswered request; another request_op ends the connection.
//	C6  Unanswered requests and their bytes stay within the protocol's pipelining limits.
//	C7  No ACK, NACK or PROGRESS of a partition follows the confirmation of its REVOKE.
//	C8  Of a partition, at most HandOut deliveries are with the application, over rejoins and reconnects.
//	C9  The credit balance never falls below zero, and what is returned was received before.
//	C10 After EventClosed nothing follows.
//
// # What it does not do
//
// It does not bound what is queued for publishing: whoever calls Publish does, since only a caller can be made to wait. It
// does not know handlers, contexts or deadlines of callers (a Cancel input ends a publish early), and it never guesses: what
// cannot be known is reported as Unknown.
package core

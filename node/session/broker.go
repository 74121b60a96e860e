package session

import (
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// Ref says who waits for an op's result. Its fields mean something to this
// package alone; the zero Ref means nobody, and so does one whose Kind is not of
// this package: kinds from 128 on are the node's own.
type Ref struct {
	Kind uint8
	Slot uint32 // connection
	Gen  uint32 // of the slot: a later connection in it is another one
	Arg  uint64 // place in the connection's ring
}

// Kinds of Ref.
const (
	refNone    uint8 = iota
	refRequest       // a request of a connection
)

// Lookup says what came of asking for a record.
type Lookup uint8

// The outcomes of Broker.Record.
const (
	// LookupMissing: there is no such record (its topic was deleted).
	LookupMissing Lookup = iota
	// LookupHit: here it is, borrowed until the turn ends.
	LookupHit
	// LookupPending: it is being read; OnRecords follows.
	LookupPending
	// LookupDamaged: it is there and cannot be read.
	LookupDamaged
)

// Broker is what sessions need of the node. All calls happen inside a turn, and
// none of them calls back.
type Broker interface {
	// Propose encodes o at once, so o may borrow, and queues it; OnApplied brings
	// its outcome together with ref. Anything but CodeOK is a refusal, and nothing
	// was queued: BACKPRESSURE, STORAGE_HIGH_WATERMARK, a degraded quorum,
	// METADATA_READ_ONLY.
	Propose(o *op.Op, ref Ref) wire.Code
	// Refusing says why changes, ACKs among them, are refused at present; CodeOK
	// when they are not. While it is not CodeOK leases and member timers stand
	// still.
	Refusing() wire.Code
	// Record looks a committed record up.
	Record(topic op.TopicID, part op.PartitionID, seq op.Sequence) (format.Record, Lookup)
	// Damaged says whether a partition is hit: it takes nothing new.
	Damaged(topic op.TopicID, part op.PartitionID) bool
	// Unreadable is the text of an INTERNAL that a damaged partition is the reason
	// of, with the diagnostic id that the log names the place with; seq is the record
	// that cannot be read, 0 that nothing can be written.
	Unreadable(topic op.TopicID, part op.PartitionID, seq op.Sequence) string
	// LogTime is the log time of an op that would be proposed now.
	LogTime() op.LogMillis
}

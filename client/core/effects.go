package core

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/wire"
)

// Effects are what a turn wants done. The driver reuses one; everything in it is valid until the next turn.
type Effects struct {
	// Requests go to the network, in order. Their Data is borrowed until the next turn.
	Requests []net.Request
	// Published are outcomes of publishes.
	Published []Published
	// Deliveries are for the application, after Events. Their Key and Value are the driver's to keep.
	Deliveries []Delivery
	// Settled tells what became of settlements that were sent.
	Settled []Settled
	// Events are everything else, in order.
	Events []Event
	// Deadline is when Turn wants to be called if nothing happens before.
	Deadline clock.Instant
}

func (e *Effects) reset() {
	clear(e.Requests)
	clear(e.Deliveries)
	e.Requests, e.Published, e.Deliveries = e.Requests[:0], e.Published[:0], e.Deliveries[:0]
	e.Settled, e.Events = e.Settled[:0], e.Events[:0]
	e.Deadline = clock.Never
}

// Reason says why something failed.
type Reason uint8

const (
	// ReasonNone is success.
	ReasonNone Reason = iota
	// ReasonRefused is an answer with Code that is not repeated.
	ReasonRefused
	// ReasonCanceled is a publish that InputCancel ended; Code is the last refusal, if there was one.
	ReasonCanceled
	// ReasonClosed is something that a close ended.
	ReasonClosed
	// ReasonDisconnected is a plain publish whose connection broke, or a connection that could not be made.
	ReasonDisconnected
)

// Err is how something failed. The zero value is success.
type Err struct {
	Reason Reason
	// Unknown says that it may have had its effect, or may yet have it.
	Unknown bool
	Op      wire.Op
	Code    wire.Code // the broker's refusal, CodeOK where there was none
	Message string    // its text
}

// Failed says whether it is a failure.
func (e *Err) Failed() bool { return e.Reason != ReasonNone }

// Published is the outcome of one publish.
type Published struct {
	Ref          uint64
	Producer     Handle
	Partition    uint16
	Durability   wire.Durability
	Deduplicated bool
	Sequence     uint64
	LeaderEpoch  uint64
	CommitSeq    uint64
	ProducerID   uint64 // as last sent; 0 when it never was, or for a plain publish
	ProducerSeq  uint64
	Err          Err
}

// Delivery is one message for the application.
type Delivery struct {
	Consumer       Handle
	Partition      uint16
	Attempt        uint16
	Redelivered    bool
	FromDLQ        bool
	Sequence       uint64
	DeliveryID     uint64
	OwnershipEpoch uint64
	ProducerID     uint64
	ProducerSeq    uint64
	Key            []byte
	Value          []byte
}

// Settled is what became of a settlement: answered with OK (Code is CodeOK) or with a code that is not repeated, or Lost
// with its membership, so that nobody knows.
type Settled struct {
	Consumer       Handle
	Partition      uint16
	Settle         Settle
	Lost           bool
	Code           wire.Code
	Sequence       uint64
	DeliveryID     uint64
	OwnershipEpoch uint64
}

// EventKind says what an Event is.
type EventKind uint8

// The kinds of event, and the fields that they use.
const (
	EventInvalid EventKind = iota
	// EventConnected: CONNECT succeeded on a node that leads. Text is its address.
	EventConnected
	// EventDisconnected: the connection is gone, or could not be made; Err says why. Another attempt follows.
	EventDisconnected
	// EventFailed: the broker refuses this client for good (AUTH_FAILED, UNSUPPORTED_VERSION). Err. Everything that was asked
	// for has failed.
	EventFailed
	// EventDeclared ends InputDeclare and InputDelete. Ref, TopicID, Partitions, Declared, Err.
	EventDeclared
	// EventProducerReady and EventProducerFailed end InputProducer. Handle, TopicID, Partitions, or Err.
	EventProducerReady
	EventProducerFailed
	// EventJoined: a consumer is a member, for the first time or again. Handle, Member.
	EventJoined
	// EventAssigned: a partition is the consumer's. Handle, Partition, Epoch.
	EventAssigned
	// EventRevoking: a partition has to be given back. What was handed out is to be finished, or dropped where it was not
	// begun. Handle, Partition, Epoch.
	EventRevoking
	// EventRevoked: all of it is settled, before its revoke is confirmed or the group is left. With ConfirmRevoke,
	// ConfirmRevoke is waited for.
	// Handle, Partition, Epoch.
	EventRevoked
	// EventLost: a partition is gone without a revoke; what was handed out settles into nothing. Handle, Partition, Epoch.
	EventLost
	// EventConsumerTrouble: the broker cannot give a consumer what it owns (INTERNAL: a partition is damaged). It goes on, with
	// pauses; this is told once until messages come again or the text is another. Handle, Err.
	EventConsumerTrouble
	// EventConsumerFailed: a consumer ended by itself. Handle, Err.
	EventConsumerFailed
	// EventStopped ends InputStopConsumer, behind EventRevoked for what was owned. Handle.
	EventStopped
	// EventClosed ends InputClose, and everything.
	EventClosed
)

// Event is something for the application to know. Which fields count depends on Kind.
type Event struct {
	Kind       EventKind
	Declared   wire.DeclareOutcome
	TopicID    uint16
	Partitions uint16
	Partition  uint16
	Handle     Handle
	Ref        uint64
	Member     uint64
	Epoch      uint64
	Text       string
	Err        Err
}

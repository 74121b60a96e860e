package core

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
)

// Handle names a producer or a consumer of one Core. The driver chooses it; it is never used again.
type Handle uint32

// InputKind says what an Input is.
type InputKind uint8

// The kinds of input, and the fields that they use.
const (
	InputInvalid InputKind = iota
	// InputNet is what happened to a connection. Net.
	InputNet
	// InputDeclare creates a topic, or finds it. Ref, Topic, Count (0: the broker's default). EventDeclared.
	InputDeclare
	// InputDelete removes a topic. Ref, Topic. EventDeclared.
	InputDelete
	// InputCancelDeclare ends an InputDeclare or InputDelete whose caller has gone. Ref. EventDeclared comes in the same turn, if
	// it has not come yet.
	InputCancelDeclare
	// InputProducer makes a producer. Handle, Topic, Producer. EventProducerReady or EventProducerFailed.
	InputProducer
	// InputPublish publishes one message with a producer that is ready. Handle, Ref, Partition, Key, Value; Key and Value are
	// borrowed until the outcome. Effects.Published.
	InputPublish
	// InputCancel ends a publish whose caller has gone. Handle, Ref. It has its outcome in the same turn.
	InputCancel
	// InputCloseProducer gives up a producer and whatever it has not published. Handle.
	InputCloseProducer
	// InputConsumer makes a consumer and joins its group. Handle, Topic, Group, Consumer. EventJoined or
	// EventConsumerFailed.
	InputConsumer
	// InputSettle answers a delivery. Handle, Partition, Delivery, Settle, Delay.
	InputSettle
	// InputProgress renews the lease of a delivery. Handle, Partition, Delivery.
	InputProgress
	// InputConfirmRevoke says that the application is done with a revoked partition. Handle, Partition, Ref: EventRevoked's
	// Epoch.
	InputConfirmRevoke
	// InputPause stops pulling and handing out; InputResume goes on. Handle.
	InputPause
	InputResume
	// InputStopConsumer hands out nothing more, waits for what was handed out, leaves the group. Handle. EventStopped.
	InputStopConsumer
	// InputClose ends everything at once: what was sent and not answered is Unknown. EventClosed.
	InputClose
)

// AnyPartition as an Input's Partition leaves the choice to the key, or to turns where there is none.
const AnyPartition = 0xFFFF

// Settle is how a delivery ends.
type Settle uint8

const (
	SettleAck     Settle = iota // ACK
	SettleRetry                 // NACK retry: charged, due again after the backoff or Delay
	SettleReject                // NACK reject: a dead letter at once
	SettleRelease               // NACK release: not charged, due at once or after Delay
	SettleDrop                  // the application did not look at it, because the partition or the membership was lost
)

// String is the word for it.
func (s Settle) String() string {
	switch s {
	case SettleAck:
		return "ack"
	case SettleRetry:
		return "retry"
	case SettleReject:
		return "reject"
	case SettleRelease:
		return "release"
	case SettleDrop:
		return "drop"
	}
	return "settle?"
}

// Input is one thing that happened, or that the application wants. Which fields count depends on Kind.
type Input struct {
	Kind      InputKind
	Settle    Settle
	HasDelay  bool
	Partition uint16
	Count     uint16
	Handle    Handle
	Ref       uint64 // the driver's name for a call or a publish; comes back with its outcome
	Delivery  uint64 // Delivery.DeliveryID
	Delay     clock.Duration
	Key       []byte
	Value     []byte
	Topic     string
	Group     string
	Producer  *ProducerOptions // nil: the defaults; read during the turn only
	Consumer  *ConsumerOptions // nil: the defaults; read during the turn only
	Net       net.Event
}

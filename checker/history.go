package checker

import "github.com/mortarmq/mortarmq/wire"

// Time is an instant of the history's clock, in nanoseconds.
type Time int64

// Forever is later than everything: the return of what never returned.
const Forever Time = 1<<63 - 1

// Outcome is what a client knows of a request.
type Outcome uint8

// The outcomes. Refused means that it certainly had no effect.
const (
	Unknown Outcome = iota
	OK
	Refused
)

func (o Outcome) String() string { return [...]string{"unknown", "ok", "refused"}[o] }

// Partition names a partition of a topic.
type Partition struct {
	Topic     uint16
	Partition uint16
}

// Publish is one publish as its client saw it. A repeat that the client sends
// under the same producer sequence on its own account is a Publish of its own.
type Publish struct {
	Client      int
	Partition   Partition
	ProducerID  uint64 // both 0 for a plain publish
	ProducerSeq uint64
	Payload     uint64 // identity of the message; repeats share it
	Call        Time
	Return      Time // Forever when unknown
	Outcome     Outcome
	Code        wire.Code // of a refusal
	// Sequence, Commit and Deduplicated are OK's.
	Sequence     uint64
	Commit       uint64
	Deduplicated bool
	// Once says that it was sent exactly once, so that Deduplicated and the codes
	// of refusals are about this very request.
	Once bool
}

// Delivery is one MSG as it reached a member of a group.
type Delivery struct {
	Client     int
	Group      string
	Member     uint64
	Partition  Partition
	Sequence   uint64
	DeliveryID uint64
	Ownership  uint64
	Attempt    uint16
	Payload    uint64
	At         Time
}

// SettleKind is how a client ended a delivery.
type SettleKind uint8

// The kinds of settle.
const (
	Ack SettleKind = iota
	Retry
	Reject
	Release
)

func (k SettleKind) String() string { return [...]string{"ack", "retry", "reject", "release"}[k] }

// Settle is an ACK or a NACK and its answer.
type Settle struct {
	Client     int
	Group      string
	Kind       SettleKind
	Partition  Partition
	Sequence   uint64
	DeliveryID uint64
	Ownership  uint64
	Call       Time
	Return     Time
	Outcome    Outcome
	Code       wire.Code
}

// Source says which message a dead letter was.
type Source struct {
	Partition Partition
	Sequence  uint64
	Group     string
}

// Record is a record of a final log.
type Record struct {
	ProducerID  uint64
	ProducerSeq uint64
	Payload     uint64
	DeadLetter  bool
	Source      Source // of a dead letter, and
	Attempts    uint32 // how often it was delivered, and
	Rejected    bool   // whether it was rejected rather than used up
}

// Log is a partition at the end: Records[i] has sequence i+1.
type Log struct {
	Partition Partition
	Twin      bool
	Records   []Record
}

// Book is what the broker's books said of a group and a partition at one moment.
type Book struct {
	At          Time
	Group       string
	Partition   Partition
	LastSeq     uint64
	Start       int64
	Floor       uint64
	NextFirst   uint64
	Unsettled   uint64
	Delivered   uint64
	Dropped     uint64
	DLQ         uint64
	Quarantined uint64
	Ownership   uint64
}

// History is everything that is judged. Slices are in the order of calls.
type History struct {
	Publishes  []Publish
	Deliveries []Delivery
	Settles    []Settle
	Logs       []Log
	Books      []Book // in order of time
	// MaxAttempts is how many charges a message survives one less than; 0 where it
	// is not known.
	MaxAttempts uint32
	// Drained says that in the end faults were off and every group was served
	// until it had nothing left: Books ends with one sample of each.
	Drained bool
}

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
	// Spared says that it is known to have cost no attempt, though nobody gave it
	// back: its owner went, and was handed a lower message that it still held.
	Spared bool
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
	Timestamp   uint64 // Unix ms
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

// Break is an operator's change of a group: it was reset, or deleted, or that was
// asked for and nobody knows whether it happened.
type Break struct {
	Group     string
	Partition Partition
	// Ownership divides: what was handed out under it or a later epoch came after.
	Ownership uint64
	// From and To are between what it happened.
	From, To Time
	// Fresh says that the group was deleted: its counters begin anew.
	Fresh bool
	// Next is what was delivered next, 0 where that is not known.
	Next uint64
	// Since is the time that a reset to one asked for, Unix ms, and 0 for others;
	// Last was the partition's last sequence then.
	Since, Last uint64
}

// Redrive is a walk over the dead letters of a twin that puts them back into
// their topic.
type Redrive struct {
	Topic  uint16 // the twin
	Call   Time
	Return Time
	// Done says that it came to its end: every dead letter up to Until, by
	// partition, is back or was purged.
	Done     bool
	Until    []uint64
	Redriven uint64 // dead letters that it was told were put back by it
}

// Purge marks the dead letters of a twin as not to be redriven.
type Purge struct {
	Topic  uint16 // the twin
	Call   Time
	Return Time
}

// History is everything that is judged. Slices are in the order of calls.
type History struct {
	Publishes  []Publish
	Deliveries []Delivery
	Settles    []Settle
	Logs       []Log
	Books      []Book // in order of time
	Breaks     []Break
	Redrives   []Redrive
	Purges     []Purge
	// MaxAttempts is how many charges a message survives one less than; 0 where it
	// is not known.
	MaxAttempts uint32
	// Drained says that in the end faults were off and every group was served
	// until it had nothing left: Books ends with one sample of each.
	Drained bool
}

// Generation says after how many breaks of its group a partition was under an
// ownership epoch: what is of another generation is another group's.
func (h *History) Generation(group string, p Partition, ownership uint64) int {
	n := 0
	for i := range h.Breaks {
		if b := &h.Breaks[i]; b.Group == group && b.Partition == p && b.Ownership <= ownership {
			n++
		}
	}
	return n
}

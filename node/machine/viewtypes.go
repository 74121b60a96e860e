package machine

import "github.com/mortarmq/mortarmq/node/op"

// TopicView is a topic or a dead-letter twin.
type TopicView struct {
	ID           op.TopicID
	Name         string // a twin's is its source's with ".dlq" behind
	Partitions   uint16
	CreatedEpoch op.Epoch
	IsTwin       bool
}

// Verdict is what the dedup window says about a producer sequence.
type Verdict uint8

// The verdicts. Only Duplicate and Expired hold for good: the others may change
// by what is in flight.
const (
	VerdictNew       Verdict = iota // it would be accepted
	VerdictDuplicate                // it is in the log
	VerdictGap                      // more than one ahead: SEQ_GAP
	VerdictExpired                  // below the window: SEQ_EXPIRED
	VerdictUnknown                  // the producer is unknown and does not start at 1: SEQ_EXPIRED
)

// DedupView is the answer of Dedup; Sequence and Epoch are the first record's.
type DedupView struct {
	Verdict  Verdict
	Sequence op.Sequence
	Epoch    op.Epoch
}

// GroupState sums a group up.
type GroupState uint8

// The states of a group.
const (
	GroupEmpty       GroupState = iota // no members
	GroupHeld                          // waits for its members after EpochStart
	GroupRebalancing                   // a partition is being revoked
	GroupStable
)

// GroupView is a consumer group. Members is borrowed, in rising order.
type GroupView struct {
	ID              op.GroupID
	Name            string
	Topic           op.TopicID
	Partitions      uint16
	MembershipEpoch uint32
	AssignmentEpoch uint32
	HoldUntil       op.LogMillis // log time at which Assign is due, 0: not held
	State           GroupState
	StartPolicy     uint8
	Members         []op.MemberID
}

// OwnerView says who owns a partition within a group. Member is 0 where nobody
// does. While Revoking, Member is being asked to give it up and Target gets it,
// under Epoch + 1, when Revoked is applied (Target may be Member itself).
type OwnerView struct {
	Member   op.MemberID
	Target   op.MemberID
	Epoch    op.OwnershipEpoch
	Revoking bool
}

// CursorView is how far a group is with a partition. All sequences up to Floor
// are settled; those from NextFirst on were never delivered; between them,
// exactly the ones with a Delivery are not settled.
//
//	LastSeq - Start = Delivered + Dropped + Unsettled, DLQ <= Dropped
type CursorView struct {
	Floor       op.Sequence
	NextFirst   op.Sequence // lowest sequence that was never delivered
	LastSeq     op.Sequence // the partition's, committed
	Start       int64       // may be negative after a reset
	Unsettled   uint64      // of LastSeq - Start
	Handed      uint32      // of Unsettled, those delivered at least once: at most wire.MaxUnsettled
	Dead        uint32      // of Handed, those that wait for DeadLetter
	Delivered   uint64
	Dropped     uint64
	DLQ         uint64
	Quarantined uint64
	Retries     uint64 // deliveries beyond a message's first
}

// DeliveryState is what a delivered, unsettled message is doing.
type DeliveryState uint8

// The states of a delivery.
const (
	DeliveryOut     DeliveryState = iota // with its owner, under a lease
	DeliveryWaiting                      // may be delivered again from Due on
	DeliveryDead                         // attempts used up: waits for DeadLetter
)

// DeliveryView is the ledger's entry of one delivered, unsettled message. Due
// is 0 for what is due at once.
type DeliveryView struct {
	Sequence  op.Sequence
	Delivery  op.DeliveryID
	Ownership op.OwnershipEpoch
	Attempts  uint16
	Charges   uint16
	State     DeliveryState
	Due       op.LogMillis
}

// DeadLetterState is what became of a record of a twin.
type DeadLetterState uint8

// The states of a dead letter.
const (
	DeadLetterNone     DeadLetterState = iota // no such record
	DeadLetterLive                            // may be redriven or purged
	DeadLetterRedriven                        // is back in its source
	DeadLetterPurged                          // was live and is given up
)

// PartitionView is a partition's log as applied.
type PartitionView struct {
	LastSeq       op.Sequence
	LastTimestamp uint64
	Bytes         uint64      // keys and values of all records ever appended
	Plain         uint64      // publishes without a producer id
	PurgedTo      op.Sequence // nothing up to it is live
	Purged        uint64      // dead letters that were live when they were purged
	Redriven      uint64      // dead letters that are back in their source
}

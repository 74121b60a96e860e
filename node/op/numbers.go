package op

// Number counts entries of the replicated log from 1.
type Number uint64

// Epoch is a leader epoch: it fences leaders. 1 to EpochMax.
type Epoch uint32

// EpochMax is the last usable epoch (cluster.md, "Epochs"): a node refuses to
// go beyond it rather than wrap, because ids carry the epoch in 24 bits.
const EpochMax Epoch = 1<<24 - 1

// Sequence counts the records of one partition from 1; 0 is "none".
type Sequence uint64

// LogMillis is log time in milliseconds: it continues from entry to entry by
// the leader's monotonic clock and never falls or jumps.
type LogMillis uint64

// TopicID names a topic; sources are odd, their dead-letter twins even.
type TopicID uint16

// PartitionID is a partition's index in its topic, from 0.
type PartitionID uint16

// GroupID names a consumer group in NOTICE and in ops.
type GroupID uint16

// MemberID names a member of a group; never repeats in a cluster's life.
type MemberID uint64

// DeliveryID names one delivery of one message to one group; never repeats.
type DeliveryID uint64

// OwnershipEpoch fences the owners of one partition within a group.
type OwnershipEpoch uint64

// Hash is an entry's place in the chain.
type Hash [16]byte

// IDCounterBits is the width of the counter below the epoch in member and
// delivery ids (broker.md, "Delivery").
const IDCounterBits = 40

// MakeID puts epoch and counter into one id.
func MakeID(e Epoch, counter uint64) uint64 {
	if counter >= 1<<IDCounterBits {
		panic("op: id counter overflows its 40 bits")
	}
	return uint64(e)<<IDCounterBits | counter
}

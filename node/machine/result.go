package machine

import (
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// Result is what applying one op gave. Apply overwrites all of it; nothing in
// it borrows. Which fields mean something depends on the kind:
//
//	Publish       Sequence LeaderEpoch CommitSeq Deduplicated Append
//	TopicCreate   TopicID Partitions Created (0 created, 1 it existed)
//	TopicDelete   Created (2 deleted, 3 not found); TopicID of what was deleted:
//	              it, its twin and the groups of both are gone
//	Join, Leave   Group Member MembershipEpoch AssignmentEpoch GroupChanged
//	Revoked       Group Member MembershipEpoch AssignmentEpoch GroupChanged
//	Assign        Group MembershipEpoch AssignmentEpoch GroupChanged
//	EpochStart    AllGroupsChanged
//	Deliver       Count: how many of the run took effect
//	Ack           -
//	Nack, Expire  Due, or Dead; Leave too says whether something is Dead by it
//	DeadLetter    Append (absent where it settles as quarantined), Sequence
//	Redrive       Append Sequence, or Deduplicated where it was redriven before
//	Purge         Count: how many became purged
//	GroupReset    Sequence: what is delivered next
type Result struct {
	Code    wire.Code // CodeOK, or the refusal: then the state is as before
	Message string    // static text that goes with a refusal

	Sequence     op.Sequence
	LeaderEpoch  op.Epoch
	CommitSeq    op.Sequence
	Deduplicated bool

	TopicID    op.TopicID
	Partitions uint16
	Created    uint8

	Group           op.GroupID
	Member          op.MemberID
	MembershipEpoch uint32
	AssignmentEpoch uint32

	// Due is when the message may be delivered again, in log time.
	Due op.LogMillis
	// Dead says that the message's attempts are used up: the leader reads the
	// source record and proposes a DeadLetter; until then it stays unsettled.
	Dead  bool
	Count uint64

	Append Append

	// GroupChanged names the group whose targets or owners changed, 0 for none:
	// the session compares what it told the members with the View.
	GroupChanged     op.GroupID
	AllGroupsChanged bool
}

// Append is a record that the node must append to the store. Key, value and
// envelope are the op's.
type Append struct {
	Present     bool
	Kind        uint8 // RecordLocal, RecordQuorum, RecordDeadLetter
	Topic       op.TopicID
	Partition   op.PartitionID
	Sequence    op.Sequence
	Timestamp   uint64 // Unix ms, never below its predecessor's
	LeaderEpoch op.Epoch
	ProducerID  uint64
	ProducerSeq uint64
}

// Kinds of record, as in a segment (storage.md).
const (
	RecordLocal      uint8 = 0
	RecordQuorum     uint8 = 1
	RecordDeadLetter uint8 = 2
)

// Values of Result.Created, as in DECLARE's result.
const (
	CreatedNew      uint8 = 0
	CreatedExisting uint8 = 1
	CreatedDeleted  uint8 = 2
	CreatedNotFound uint8 = 3
)

// refuse fills in a refusal.
func (r *Result) refuse(c wire.Code, message string) {
	*r = Result{Code: c, Message: message}
}

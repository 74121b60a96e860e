package op

import (
	"encoding/binary"
	"errors"
	"strconv"
)

// Kind says what an op does.
type Kind uint8

// The kinds of op. Numbers are on disk: they are never reused.
const (
	KindInvalid Kind = iota
	// KindEpochStart is the first op of each epoch: it drops the members of
	// earlier epochs, makes what they held due at once free of charge, and
	// installs Settings for the epoch.
	KindEpochStart
	// KindTopicCreate declares Name with Partitions (0: Settings' default). If
	// it exists the result says so.
	KindTopicCreate
	// KindTopicDelete removes topic Name, its twin and their groups.
	KindTopicDelete
	// KindPublish appends Key, Value to Topic, Partition.
	KindPublish
	// KindJoin adds Member to the group Name on Topic, creating the group with
	// StartPolicy unless FlagMustExist is set.
	KindJoin
	// KindLeave removes Member from Group for the reason Cause.
	KindLeave
	// KindRevoked ends the revoke of Group's Partition from Member (Cause:
	// CauseConfirmed or CauseTimeout).
	KindRevoked
	// KindAssign computes the assignment of a group that was waiting for its
	// members after EpochStart.
	KindAssign
	// KindDeliver notes that Group was handed Count sequences of Partition from
	// Sequence on, under the delivery ids from Delivery on, by Ownership, to
	// Member.
	KindDeliver
	// KindAck settles Sequence as delivered.
	KindAck
	// KindNack gives Sequence back: Reason, and DelayMillis if FlagDelay.
	KindNack
	// KindExpire says that the lease of Delivery ran out.
	KindExpire
	// KindDeadLetter moves Sequence to the twin (Key, Value, Envelope, producer
	// and Timestamp are the source record's) and settles it; on a twin's own
	// group it settles as quarantined and writes nothing.
	KindDeadLetter
	// KindForgetProducer drops the dedup window of ProducerID in Topic,
	// Partition, to stay in the budget.
	KindForgetProducer
	// KindGroupDelete removes Group, which must have no members.
	KindGroupDelete
	// KindGroupReset moves the floor of Group's Partition to Sequence - 1, so
	// that Sequence is delivered next. No members allowed.
	KindGroupReset
	// KindRedrive appends the dead letter at Sequence of the twin's Partition
	// (Topic is the twin, content as in KindDeadLetter) back to its source
	// partition and marks it redriven, once.
	KindRedrive
	// KindPurge marks the dead letters of Topic (the twin), Partition up to
	// Sequence as purged.
	KindPurge

	kindEnd
)

var kindNames = [...]string{"invalid", "epoch_start", "topic_create", "topic_delete", "publish", "join", "leave", "revoked", "assign", "deliver", "ack", "nack", "expire", "dead_letter", "forget_producer", "group_delete", "group_reset", "redrive", "purge"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "op(" + strconv.Itoa(int(k)) + ")"
}

// Metadata says whether ops of the kind go into the metadata log (MMML).
func (k Kind) Metadata() bool {
	switch k {
	case KindEpochStart, KindTopicCreate, KindTopicDelete, KindJoin, KindLeave, KindRevoked, KindAssign, KindGroupDelete, KindGroupReset:
		return true
	}
	return false
}

// Flags of an op.
const (
	FlagMustExist uint8 = 1 << iota // Join: UNKNOWN_GROUP instead of creating
	FlagDelay                       // Nack: DelayMillis replaces the backoff
	FlagKey                         // Publish, DeadLetter, Redrive: a key is present
	FlagQuorum                      // Publish: committed by a majority of several
	flagsEnd
)

// Causes of Leave and Revoked, and reasons of DeadLetter.
const (
	CauseLeave     uint8 = iota // the member said so
	CauseVanished               // its connection or session was lost: one suspect is charged
	CauseStop                   // the broker closes: nobody is charged
	CauseConfirmed              // Revoked: by CONTROL_ACK
	CauseTimeout                // Revoked: the owner did not answer in time
	CauseAttempts               // DeadLetter: attempts used up
	CauseReject                 // DeadLetter: NACK reject
)

// Reasons of Nack, as on the wire.
const (
	NackRetry   uint8 = 0
	NackRelease uint8 = 2
)

// Settings are what Apply needs of the leader's configuration. They take effect
// with EpochStart, so that every node applies by the same ones.
type Settings struct {
	DeliveryMaxAttempts   uint16
	RetryBackoffBaseMs    uint32
	RetryBackoffMaxMs     uint32
	PartitionDefaultCount uint16
	MaxTopics             uint16
	ProducerWindowBytes   uint64
}

// Op is one op, every kind in one struct so that a slice of them needs no
// allocation. Which fields a kind uses stands at the kind; the others are zero.
// Byte slices are borrowed: by Builder.Add until it returns, from Decode until
// the entry's bytes are reused.
type Op struct {
	Kind        Kind
	Flags       uint8
	Cause       uint8
	Reason      uint8
	StartPolicy uint8
	Topic       TopicID
	Partition   PartitionID
	Partitions  uint16
	Group       GroupID
	Count       uint32
	DelayMillis uint32
	Member      MemberID
	Sequence    Sequence
	Mutation    uint64 // metadata kinds: the mutation id that it follows, 0: any
	Delivery    DeliveryID
	Ownership   OwnershipEpoch
	ProducerID  uint64
	ProducerSeq uint64
	Timestamp   uint64 // Unix ms; raised by Apply to its predecessor's
	Name        []byte // topic or group
	Key         []byte
	Value       []byte
	Envelope    []byte // DeadLetter
	Settings    Settings
}

var errOp = errors.New("op: malformed op")

const (
	publishFixed  = 36
	deliverFixed  = 40
	settleFixed   = 40
	recordFixed   = 72
	settingsFixed = 26
	namedFixed    = 40
)

// Size gives the encoded size of o in bytes.
func (o *Op) Size() int {
	switch o.Kind {
	case KindPublish:
		return publishFixed + len(o.Key) + len(o.Value)
	case KindDeliver:
		return deliverFixed
	case KindAck, KindNack, KindExpire:
		return settleFixed
	case KindDeadLetter, KindRedrive:
		return recordFixed + len(o.Key) + len(o.Envelope) + len(o.Value)
	case KindEpochStart:
		return settingsFixed
	default:
		return namedFixed + len(o.Name)
	}
}

// Append appends the encoding of o to b. The layouts stand in docs/formats.md.
func (o *Op) Append(b []byte) []byte {
	be := binary.BigEndian
	b = append(b, byte(o.Kind), o.Flags)
	switch o.Kind {
	case KindPublish:
		b = be.AppendUint16(b, uint16(o.Topic))
		b = be.AppendUint16(b, uint16(o.Partition))
		b = be.AppendUint16(b, uint16(len(o.Key)))
		b = be.AppendUint32(b, uint32(len(o.Value)))
		b = be.AppendUint64(b, o.ProducerID)
		b = be.AppendUint64(b, o.ProducerSeq)
		b = be.AppendUint64(b, o.Timestamp)
		b = append(b, o.Key...)
		return append(b, o.Value...)
	case KindDeliver:
		b = be.AppendUint16(b, uint16(o.Group))
		b = be.AppendUint16(b, uint16(o.Partition))
		b = append(b, 0, 0)
		b = be.AppendUint32(b, o.Count)
		b = be.AppendUint32(b, 0)
		b = be.AppendUint64(b, uint64(o.Sequence))
		b = be.AppendUint64(b, uint64(o.Delivery))
		return be.AppendUint64(b, uint64(o.Ownership))
	case KindAck, KindNack, KindExpire:
		b = append(b, o.Reason, 0)
		b = be.AppendUint16(b, uint16(o.Group))
		b = be.AppendUint16(b, uint16(o.Partition))
		b = be.AppendUint32(b, o.DelayMillis)
		b = be.AppendUint32(b, 0)
		b = be.AppendUint64(b, uint64(o.Sequence))
		b = be.AppendUint64(b, uint64(o.Delivery))
		return be.AppendUint64(b, uint64(o.Ownership))
	case KindDeadLetter, KindRedrive:
		b = append(b, o.Cause, 0)
		b = be.AppendUint16(b, uint16(o.Topic))
		b = be.AppendUint16(b, uint16(o.Partition))
		b = be.AppendUint16(b, uint16(o.Group))
		b = be.AppendUint16(b, uint16(len(o.Key)))
		b = be.AppendUint16(b, uint16(len(o.Envelope)))
		b = append(b, 0, 0)
		b = be.AppendUint32(b, uint32(len(o.Value)))
		b = be.AppendUint32(b, 0)
		b = be.AppendUint64(b, uint64(o.Sequence))
		b = be.AppendUint64(b, uint64(o.Delivery))
		b = be.AppendUint64(b, uint64(o.Ownership))
		b = be.AppendUint64(b, o.ProducerID)
		b = be.AppendUint64(b, o.ProducerSeq)
		b = be.AppendUint64(b, o.Timestamp)
		b = append(b, o.Key...)
		b = append(b, o.Envelope...)
		return append(b, o.Value...)
	case KindEpochStart:
		s := &o.Settings
		b = be.AppendUint16(b, s.DeliveryMaxAttempts)
		b = be.AppendUint32(b, s.RetryBackoffBaseMs)
		b = be.AppendUint32(b, s.RetryBackoffMaxMs)
		b = be.AppendUint16(b, s.PartitionDefaultCount)
		b = be.AppendUint16(b, s.MaxTopics)
		b = be.AppendUint64(b, s.ProducerWindowBytes)
		return append(b, 0, 0)
	default:
		return o.appendNamed(b)
	}
}

// appendNamed encodes the kinds that change metadata: one common layout.
func (o *Op) appendNamed(b []byte) []byte {
	be := binary.BigEndian
	b = append(b, o.Cause, o.StartPolicy)
	b = be.AppendUint16(b, uint16(o.Topic))
	b = be.AppendUint16(b, uint16(o.Partition))
	b = be.AppendUint16(b, o.Partitions)
	b = be.AppendUint16(b, uint16(o.Group))
	b = be.AppendUint16(b, uint16(len(o.Name)))
	b = append(b, 0, 0)
	// The three ids of these kinds never meet in one op: Member for group
	// changes, ProducerID for forgetting one, and Sequence for positions.
	b = be.AppendUint64(b, uint64(o.Member)|o.ProducerID)
	b = be.AppendUint64(b, uint64(o.Sequence))
	b = be.AppendUint64(b, o.Mutation)
	return append(b, o.Name...)
}

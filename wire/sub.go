package wire

import "unicode/utf8"

// FlagSubMustExist refuses a SUB to a group that does not exist, instead of creating it.
const FlagSubMustExist uint16 = 1 << 0

const subFlags = FlagSubMustExist

// StartPolicy is where a new group begins. Later SUBs of the group keep the stored policy.
type StartPolicy uint8

const (
	// StartEarliest begins with the oldest record.
	StartEarliest StartPolicy = 0
	// StartLatest begins behind the newest record.
	StartLatest StartPolicy = 1
)

const (
	subFixed      = 15
	subResultSize = 18
)

var (
	errSubShort      = malformed("SUB ends before its last field")
	errSubGroupEmpty = malformed("SUB group is empty")
	errSubGroupLong  = malformed("SUB group is longer than 255 bytes")
	errSubGroup      = malformed("SUB group_len reaches beyond the payload")
	errSubGroupUTF8  = malformed("SUB group is not UTF-8")
	errSubGroupCtl   = malformed("SUB group contains a control character")
	errSubPartition  = malformed("SUB partition is not 0xFFFF")
	errSubPolicy     = malformed("SUB start_policy is neither 0 nor 1")
	errSubTail       = malformed("SUB has bytes after its last field that no flag announces")
	errSubResult     = malformed("OK of SUB ends before its last field")
	errSubResultTail = malformed("OK of SUB has bytes after its last field")
)

// Sub is the payload of SUB (spec sections 2 and 3, "Consuming").
//
//	offset  size  field
//	0       2     group_len, 1 to 255
//	2       G     group
//	2+G     2     topic_id
//	4+G     2     partition, PartitionAny
//	6+G     1     start_policy
//	7+G     2     credit_count
//	9+G     4     credit_bytes
//	13+G    2     flags: bit0 MUST_EXIST
type Sub struct {
	Group       []byte // borrowed from the payload
	TopicID     uint16
	Partition   uint16
	StartPolicy StartPolicy
	CreditCount uint16
	CreditBytes uint32
	Flags       uint16
}

// Decode reads a payload. After an error m holds nothing of use.
func (m *Sub) Decode(p []byte) error {
	if len(p) < subFixed {
		return errSubShort
	}
	n := int(be.Uint16(p))
	if n > MaxGroupLen {
		return errSubGroupLong
	}
	if n > len(p)-subFixed {
		return errSubGroup
	}
	m.Group = p[2 : 2+n : 2+n]
	q := p[2+n:]
	m.TopicID = be.Uint16(q)
	m.Partition = be.Uint16(q[2:])
	m.StartPolicy = StartPolicy(q[4])
	m.CreditCount = be.Uint16(q[5:])
	m.CreditBytes = be.Uint32(q[7:])
	m.Flags = be.Uint16(q[11:])
	if err := CheckGroupName(m.Group); err != nil {
		return err
	}
	switch {
	case m.Partition != PartitionAny:
		return errSubPartition
	case m.StartPolicy > StartLatest:
		return errSubPolicy
	case len(p) > subFixed+n && m.Flags&^subFlags == 0:
		return errSubTail
	}
	return nil
}

// Append appends the whole frame.
func (m *Sub) Append(b []byte) []byte {
	assert(len(m.Group) <= MaxGroupLen, "SUB group is longer than MaxGroupLen")
	b = appendHead(b, OpSub, subFixed+len(m.Group))
	b = be.AppendUint16(b, uint16(len(m.Group)))
	b = append(b, m.Group...)
	b = be.AppendUint16(b, m.TopicID)
	b = be.AppendUint16(b, m.Partition)
	b = append(b, byte(m.StartPolicy))
	b = be.AppendUint16(b, m.CreditCount)
	b = be.AppendUint32(b, m.CreditBytes)
	return be.AppendUint16(b, m.Flags)
}

// CheckGroupName is nil for 1 to 255 bytes of UTF-8 without control characters, else a MALFORMED_PAYLOAD DecodeError
// (spec section 3, "Group names").
func CheckGroupName(name []byte) error {
	if len(name) == 0 {
		return errSubGroupEmpty
	}
	if len(name) > MaxGroupLen {
		return errSubGroupLong
	}
	for i := 0; i < len(name); {
		r, n := rune(name[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(name[i:])
			if r == utf8.RuneError && n == 1 {
				return errSubGroupUTF8
			}
		}
		if isControl(r) {
			return errSubGroupCtl
		}
		i += n
	}
	return nil
}

// SubResult is the result in SUB's OK.
//
//	offset  size  field
//	0       2     subscription_id, from 1 per connection
//	2       8     member_id
//	10      4     membership_epoch
//	14      4     assignment_epoch
type SubResult struct {
	SubscriptionID  uint16
	MemberID        uint64
	MembershipEpoch uint32
	AssignmentEpoch uint32
}

// Decode reads a result.
func (m *SubResult) Decode(p []byte) error {
	if len(p) < subResultSize {
		return errSubResult
	}
	if len(p) > subResultSize {
		return errSubResultTail
	}
	m.SubscriptionID = be.Uint16(p)
	m.MemberID = be.Uint64(p[2:])
	m.MembershipEpoch = be.Uint32(p[10:])
	m.AssignmentEpoch = be.Uint32(p[14:])
	return nil
}

// AppendOK appends the whole OK frame.
func (m *SubResult) AppendOK(b []byte) []byte {
	b = appendOKHead(b, OpSub, subResultSize)
	b = be.AppendUint16(b, m.SubscriptionID)
	b = be.AppendUint64(b, m.MemberID)
	b = be.AppendUint32(b, m.MembershipEpoch)
	return be.AppendUint32(b, m.AssignmentEpoch)
}

package wire

// NoticeKind is what a NOTICE tells a member about a partition.
type NoticeKind uint8

const (
	// NoticeAssign gives the partition to the member.
	NoticeAssign NoticeKind = 0
	// NoticeRevoke takes it away.
	NoticeRevoke NoticeKind = 1
)

const noticeSize = 39

var (
	errNoticeShort = malformed("NOTICE ends before its last field")
	errNoticeTail  = malformed("NOTICE has bytes after its last field")
	errNoticeKind  = malformed("NOTICE kind is neither 0 nor 1")
)

// Notice is the payload of NOTICE (spec section 2). It is a push, answered by CONTROL_ACK, and names its subscription by
// member_id.
//
//	offset  size  field
//	0       8     notice_id
//	8       1     kind
//	9       2     group_id
//	11      4     membership_epoch
//	15      4     assignment_epoch
//	19      8     ownership_epoch
//	27      2     topic_id
//	29      2     partition
//	31      8     member_id
type Notice struct {
	NoticeID        uint64
	Kind            NoticeKind
	GroupID         uint16
	MembershipEpoch uint32
	AssignmentEpoch uint32
	OwnershipEpoch  uint64
	TopicID         uint16
	Partition       uint16
	MemberID        uint64
}

// Decode reads a payload. After an error m holds nothing of use.
func (m *Notice) Decode(p []byte) error {
	if len(p) < noticeSize {
		return errNoticeShort
	}
	if len(p) > noticeSize {
		return errNoticeTail
	}
	m.NoticeID = be.Uint64(p)
	m.Kind = NoticeKind(p[8])
	m.GroupID = be.Uint16(p[9:])
	m.MembershipEpoch = be.Uint32(p[11:])
	m.AssignmentEpoch = be.Uint32(p[15:])
	m.OwnershipEpoch = be.Uint64(p[19:])
	m.TopicID = be.Uint16(p[27:])
	m.Partition = be.Uint16(p[29:])
	m.MemberID = be.Uint64(p[31:])
	if m.Kind > NoticeRevoke {
		return errNoticeKind
	}
	return nil
}

// Append appends the whole frame.
func (m *Notice) Append(b []byte) []byte {
	b = appendHead(b, OpNotice, noticeSize)
	b = be.AppendUint64(b, m.NoticeID)
	b = append(b, byte(m.Kind))
	b = be.AppendUint16(b, m.GroupID)
	b = be.AppendUint32(b, m.MembershipEpoch)
	b = be.AppendUint32(b, m.AssignmentEpoch)
	b = be.AppendUint64(b, m.OwnershipEpoch)
	b = be.AppendUint16(b, m.TopicID)
	b = be.AppendUint16(b, m.Partition)
	return be.AppendUint64(b, m.MemberID)
}

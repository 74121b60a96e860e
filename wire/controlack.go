package wire

// ControlResult is how a member took a NOTICE. Any result ends a REVOKE.
type ControlResult uint8

const (
	// ControlOK says that the NOTICE was carried out.
	ControlOK ControlResult = 0
	// ControlStale says that the member knew of a later one.
	ControlStale ControlResult = 1
	// ControlError says that the member could not carry it out.
	ControlError ControlResult = 2
)

const controlAckSize = 28

var (
	errControlAckShort  = malformed("CONTROL_ACK ends before its last field")
	errControlAckTail   = malformed("CONTROL_ACK has bytes after its last field")
	errControlAckKind   = malformed("CONTROL_ACK notice_kind is neither 0 nor 1")
	errControlAckResult = malformed("CONTROL_ACK result is none of 0, 1 and 2")
)

// ControlAck is the payload of CONTROL_ACK (spec section 2). It echoes notice_id, so that confirmations may arrive out of
// order.
//
//	offset  size  field
//	0       8     notice_id
//	8       1     notice_kind
//	9       2     group_id
//	11      4     membership_epoch
//	15      4     assignment_epoch
//	19      8     ownership_epoch
//	27      1     result
type ControlAck struct {
	NoticeID        uint64
	NoticeKind      NoticeKind
	GroupID         uint16
	MembershipEpoch uint32
	AssignmentEpoch uint32
	OwnershipEpoch  uint64
	Result          ControlResult
}

// Decode reads a payload. After an error m holds nothing of use.
func (m *ControlAck) Decode(p []byte) error {
	if len(p) < controlAckSize {
		return errControlAckShort
	}
	if len(p) > controlAckSize {
		return errControlAckTail
	}
	m.NoticeID = be.Uint64(p)
	m.NoticeKind = NoticeKind(p[8])
	m.GroupID = be.Uint16(p[9:])
	m.MembershipEpoch = be.Uint32(p[11:])
	m.AssignmentEpoch = be.Uint32(p[15:])
	m.OwnershipEpoch = be.Uint64(p[19:])
	m.Result = ControlResult(p[27])
	if m.NoticeKind > NoticeRevoke {
		return errControlAckKind
	}
	if m.Result > ControlError {
		return errControlAckResult
	}
	return nil
}

// Append appends the whole frame.
func (m *ControlAck) Append(b []byte) []byte {
	b = appendHead(b, OpControlAck, controlAckSize)
	b = be.AppendUint64(b, m.NoticeID)
	b = append(b, byte(m.NoticeKind))
	b = be.AppendUint16(b, m.GroupID)
	b = be.AppendUint32(b, m.MembershipEpoch)
	b = be.AppendUint32(b, m.AssignmentEpoch)
	b = be.AppendUint64(b, m.OwnershipEpoch)
	return append(b, byte(m.Result))
}

package wire

// HeartbeatState is what a member says of itself.
type HeartbeatState uint8

const (
	// HeartbeatActive keeps the membership.
	HeartbeatActive HeartbeatState = 0
	// HeartbeatLeave ends it. It is accepted whatever the epochs are.
	HeartbeatLeave HeartbeatState = 1
)

const heartbeatSize = 19

var (
	errHeartbeatShort = malformed("HEARTBEAT ends before its last field")
	errHeartbeatTail  = malformed("HEARTBEAT has bytes after its last field")
	errHeartbeatState = malformed("HEARTBEAT state is neither 0 nor 1")
)

// Heartbeat is the payload of HEARTBEAT (spec section 2).
//
//	offset  size  field
//	0       2     subscription_id
//	2       8     member_id
//	10      4     membership_epoch
//	14      4     assignment_epoch
//	18      1     state
type Heartbeat struct {
	SubscriptionID  uint16
	MemberID        uint64
	MembershipEpoch uint32
	AssignmentEpoch uint32
	State           HeartbeatState
}

// Decode reads a payload. After an error m holds nothing of use.
func (m *Heartbeat) Decode(p []byte) error {
	if len(p) < heartbeatSize {
		return errHeartbeatShort
	}
	if len(p) > heartbeatSize {
		return errHeartbeatTail
	}
	m.SubscriptionID = be.Uint16(p)
	m.MemberID = be.Uint64(p[2:])
	m.MembershipEpoch = be.Uint32(p[10:])
	m.AssignmentEpoch = be.Uint32(p[14:])
	m.State = HeartbeatState(p[18])
	if m.State > HeartbeatLeave {
		return errHeartbeatState
	}
	return nil
}

// Append appends the whole frame.
func (m *Heartbeat) Append(b []byte) []byte {
	b = appendHead(b, OpHeartbeat, heartbeatSize)
	b = be.AppendUint16(b, m.SubscriptionID)
	b = be.AppendUint64(b, m.MemberID)
	b = be.AppendUint32(b, m.MembershipEpoch)
	b = be.AppendUint32(b, m.AssignmentEpoch)
	return append(b, byte(m.State))
}

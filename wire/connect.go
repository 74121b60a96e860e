package wire

// FlagConnectLeaderHint asks that CONNECT's OK name this node and the leader (ConnectResult).
const FlagConnectLeaderHint uint16 = 1 << 0

const connectFlags = FlagConnectLeaderHint

var (
	errConnectVersion = &DecodeError{Code: CodeUnsupportedVersion, Message: "this side speaks protocol version 1 only"}

	errConnectShort    = malformed("CONNECT ends before its last field")
	errConnectToken    = malformed("CONNECT token_len reaches beyond the payload")
	errConnectReserved = malformed("CONNECT reserved is not 0")
	errConnectTail     = malformed("CONNECT has bytes after its last field that no flag announces")
	errConnectResult   = malformed("OK of CONNECT ends before its last field")
	errConnectAddr     = malformed("OK of CONNECT has an addr_len that reaches beyond the result")
	errConnectResTail  = malformed("OK of CONNECT has bytes after its last field")
)

// Connect is the payload of CONNECT, a client's first request (spec sections 2 and 3, "Connection").
//
//	offset  size  field
//	0       1     protocol_version
//	1       2     client_flags: bit0 LEADER_HINT
//	3       2     token_len
//	5       T     token
//	5+T     4     reserved, 0
//
// Another version may have other fields, so Decode answers UNSUPPORTED_VERSION before it looks at what follows.
type Connect struct {
	ProtocolVersion uint8
	ClientFlags     uint16
	Token           []byte // borrowed from the payload
}

// Decode reads a payload. After an error m holds nothing of use.
func (m *Connect) Decode(p []byte) error {
	if len(p) > 0 && p[0] != Version {
		return errConnectVersion
	}
	if len(p) < connectFixed {
		return errConnectShort
	}
	n := int(be.Uint16(p[3:]))
	if n > len(p)-connectFixed {
		return errConnectToken
	}
	m.ProtocolVersion = p[0]
	m.ClientFlags = be.Uint16(p[1:])
	m.Token = p[5 : 5+n : 5+n]
	if be.Uint32(p[5+n:]) != 0 {
		return errConnectReserved
	}
	if len(p) > connectFixed+n && m.ClientFlags&^connectFlags == 0 {
		return errConnectTail
	}
	return nil
}

// Append appends the whole frame.
func (m *Connect) Append(b []byte) []byte {
	assert(len(m.Token) <= MaxTokenLen, "CONNECT token is longer than MaxTokenLen")
	b = appendHead(b, OpConnect, connectFixed+len(m.Token))
	b = append(b, m.ProtocolVersion)
	b = be.AppendUint16(b, m.ClientFlags)
	b = be.AppendUint16(b, uint16(len(m.Token)))
	b = append(b, m.Token...)
	return append(b, 0, 0, 0, 0)
}

// connectResultFixed is the size of a result with a hint whose address is empty.
const connectResultFixed = 14

// ConnectResult is the result in CONNECT's OK: empty, or with LEADER_HINT the hint (spec section 3, "client_flags").
//
//	offset  size  field
//	0       2     node_id
//	2       2     leader_id, NoLeader when it is not known
//	4       8     leader_epoch
//	12      2     addr_len
//	14      A     addr
type ConnectResult struct {
	HasHint     bool
	NodeID      uint16
	LeaderID    uint16
	LeaderEpoch uint64
	Addr        []byte // HOST:PORT of the leader's client port; borrowed from the result
}

// Decode reads a result. wantHint says whether the request set LEADER_HINT. A server that does not know the flag answers
// with an empty result, which is no fault: HasHint is then false.
func (m *ConnectResult) Decode(p []byte, wantHint bool) error {
	*m = ConnectResult{}
	if len(p) == 0 {
		return nil
	}
	if !wantHint {
		return errConnectResTail
	}
	if len(p) < connectResultFixed {
		return errConnectResult
	}
	n := int(be.Uint16(p[12:]))
	if n > len(p)-connectResultFixed {
		return errConnectAddr
	}
	if n < len(p)-connectResultFixed {
		return errConnectResTail
	}
	m.HasHint = true
	m.NodeID = be.Uint16(p)
	m.LeaderID = be.Uint16(p[2:])
	m.LeaderEpoch = be.Uint64(p[4:])
	m.Addr = p[14 : 14+n : 14+n]
	return nil
}

// AppendOK appends the whole OK frame.
func (m *ConnectResult) AppendOK(b []byte) []byte {
	if !m.HasHint {
		return AppendOKEmpty(b, OpConnect)
	}
	assert(len(m.Addr) <= 1<<16-1, "addr does not fit addr_len")
	b = appendOKHead(b, OpConnect, connectResultFixed+len(m.Addr))
	b = be.AppendUint16(b, m.NodeID)
	b = be.AppendUint16(b, m.LeaderID)
	b = be.AppendUint64(b, m.LeaderEpoch)
	b = be.AppendUint16(b, uint16(len(m.Addr)))
	return append(b, m.Addr...)
}

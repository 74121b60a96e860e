package wire

// FlagNackDelay says that delay_ms follows: it replaces the backoff.
const FlagNackDelay uint16 = 1 << 0

const nackFlags = FlagNackDelay

// NackReason is why a delivery is given back (spec section 3, "NACK reason").
type NackReason uint8

const (
	// NackRetry charges an attempt and redelivers after a backoff.
	NackRetry NackReason = 0
	// NackReject makes the message a dead letter at once.
	NackReject NackReason = 1
	// NackRelease makes the message due at once and charges nothing.
	NackRelease NackReason = 2
	// NackSlow is reserved; Decode refuses it. FlagAckProgress took its place.
	NackSlow NackReason = 3
)

const nackFixed = 33

var (
	errNackShort  = malformed("NACK ends before its last field")
	errNackReason = malformed("NACK reason is none of 0, 1 and 2")
	errNackDelay  = malformed("NACK has the DELAY flag but ends before delay_ms")
	errNackTail   = malformed("NACK has bytes after its last field that no flag announces")
)

// Nack is the payload of NACK.
//
//	offset  size  field
//	0       2     subscription_id
//	2       2     topic_id
//	4       2     partition
//	6       8     seq
//	14      8     delivery_id
//	22      8     ownership_epoch, echoed from the MSG
//	30      1     reason
//	31      2     flags: bit0 DELAY
//	33      4     delay_ms, only with DELAY
type Nack struct {
	SubscriptionID uint16
	TopicID        uint16
	Partition      uint16
	Seq            uint64
	DeliveryID     uint64
	OwnershipEpoch uint64
	Reason         NackReason
	Flags          uint16
	DelayMs        uint32 // only with FlagNackDelay, else 0
}

// Decode reads a payload. After an error m holds nothing of use.
func (m *Nack) Decode(p []byte) error {
	if len(p) < nackFixed {
		return errNackShort
	}
	m.SubscriptionID = be.Uint16(p)
	m.TopicID = be.Uint16(p[2:])
	m.Partition = be.Uint16(p[4:])
	m.Seq = be.Uint64(p[6:])
	m.DeliveryID = be.Uint64(p[14:])
	m.OwnershipEpoch = be.Uint64(p[22:])
	m.Reason = NackReason(p[30])
	m.Flags = be.Uint16(p[31:])
	m.DelayMs = 0
	if m.Reason >= NackSlow {
		return errNackReason
	}
	rest := p[nackFixed:]
	if m.Flags&FlagNackDelay != 0 {
		if len(rest) < 4 {
			return errNackDelay
		}
		m.DelayMs = be.Uint32(rest)
		rest = rest[4:]
	}
	if len(rest) > 0 && m.Flags&^nackFlags == 0 {
		return errNackTail
	}
	return nil
}

// Append appends the whole frame, with delay_ms where the flags say so.
func (m *Nack) Append(b []byte) []byte {
	n := nackFixed
	if m.Flags&FlagNackDelay != 0 {
		n += 4
	}
	b = appendHead(b, OpNack, n)
	b = be.AppendUint16(b, m.SubscriptionID)
	b = be.AppendUint16(b, m.TopicID)
	b = be.AppendUint16(b, m.Partition)
	b = be.AppendUint64(b, m.Seq)
	b = be.AppendUint64(b, m.DeliveryID)
	b = be.AppendUint64(b, m.OwnershipEpoch)
	b = append(b, byte(m.Reason))
	b = be.AppendUint16(b, m.Flags)
	if m.Flags&FlagNackDelay != 0 {
		b = be.AppendUint32(b, m.DelayMs)
	}
	return b
}

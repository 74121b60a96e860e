package wire

const (
	// FlagMsgRedelivered says that the message was delivered before.
	FlagMsgRedelivered uint16 = 1 << 0
	// FlagMsgFromDLQ says that the message is a dead letter.
	FlagMsgFromDLQ uint16 = 1 << 1
)

const msgFlags = FlagMsgRedelivered | FlagMsgFromDLQ

var (
	errMsgShort     = malformed("MSG ends before its last field")
	errMsgAttempt   = malformed("MSG attempt is 0")
	errMsgKeyLong   = malformed("MSG key is longer than 255 bytes")
	errMsgKey       = malformed("MSG key_len reaches beyond the payload")
	errMsgValueLong = malformed("MSG value is longer than 16776192 bytes")
	errMsgValue     = malformed("MSG value_len reaches beyond the payload")
	errMsgTail      = malformed("MSG has bytes after its last field that no flag announces")
)

// Msg is the payload of MSG, a delivery (spec sections 2 and 3, "Consuming"). It is a push: it takes no request slot.
//
//	offset  size  field
//	0       2     subscription_id
//	2       2     topic_id
//	4       2     partition
//	6       8     sequence
//	14      8     delivery_id
//	22      2     attempt, from 1
//	24      8     ownership_epoch, opaque: echoed in ACK and NACK
//	32      8     producer_id
//	40      8     producer_seq
//	48      2     flags: bit0 REDELIVERED, bit1 FROM_DLQ
//	50      2     key_len
//	52      K     key
//	52+K    4     value_len
//	56+K    V     value
type Msg struct {
	SubscriptionID uint16
	TopicID        uint16
	Partition      uint16
	Sequence       uint64
	DeliveryID     uint64
	Attempt        uint16
	OwnershipEpoch uint64
	ProducerID     uint64
	ProducerSeq    uint64
	Flags          uint16
	Key            []byte // borrowed from the payload
	Value          []byte // borrowed from the payload
}

// Decode reads a payload. After an error m holds nothing of use.
func (m *Msg) Decode(p []byte) error {
	if len(p) < msgFixedSize {
		return errMsgShort
	}
	k := int(be.Uint16(p[50:]))
	if k > MaxKeyLen {
		return errMsgKeyLong
	}
	if k > len(p)-msgFixedSize {
		return errMsgKey
	}
	v := be.Uint32(p[52+k:])
	if v > MaxValueLen {
		return errMsgValueLong
	}
	rest := p[msgFixedSize+k:]
	if int(v) > len(rest) {
		return errMsgValue
	}
	m.SubscriptionID = be.Uint16(p)
	m.TopicID = be.Uint16(p[2:])
	m.Partition = be.Uint16(p[4:])
	m.Sequence = be.Uint64(p[6:])
	m.DeliveryID = be.Uint64(p[14:])
	m.Attempt = be.Uint16(p[22:])
	m.OwnershipEpoch = be.Uint64(p[24:])
	m.ProducerID = be.Uint64(p[32:])
	m.ProducerSeq = be.Uint64(p[40:])
	m.Flags = be.Uint16(p[48:])
	m.Key = p[52 : 52+k : 52+k]
	m.Value = rest[:v:v]
	if m.Attempt == 0 {
		return errMsgAttempt
	}
	if len(rest) > int(v) && m.Flags&^msgFlags == 0 {
		return errMsgTail
	}
	return nil
}

// Append appends the whole frame.
func (m *Msg) Append(b []byte) []byte {
	return append(m.AppendHeader(b, len(m.Value)), m.Value...)
}

// AppendHeader appends the frame up to its value, for a value of the given size that the caller sends right behind it
// without copying it. m.Value is not looked at.
func (m *Msg) AppendHeader(b []byte, value int) []byte {
	assert(len(m.Key) <= MaxKeyLen, "MSG key is longer than MaxKeyLen")
	assert(value >= 0 && value <= MaxValueLen, "MSG value is longer than MaxValueLen")
	assert(m.Attempt > 0, "MSG attempt is 0")
	b = appendHead(b, OpMsg, msgFixedSize+len(m.Key)+value)
	b = be.AppendUint16(b, m.SubscriptionID)
	b = be.AppendUint16(b, m.TopicID)
	b = be.AppendUint16(b, m.Partition)
	b = be.AppendUint64(b, m.Sequence)
	b = be.AppendUint64(b, m.DeliveryID)
	b = be.AppendUint16(b, m.Attempt)
	b = be.AppendUint64(b, m.OwnershipEpoch)
	b = be.AppendUint64(b, m.ProducerID)
	b = be.AppendUint64(b, m.ProducerSeq)
	b = be.AppendUint16(b, m.Flags)
	b = be.AppendUint16(b, uint16(len(m.Key)))
	b = append(b, m.Key...)
	return be.AppendUint32(b, uint32(value))
}

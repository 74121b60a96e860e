package wire

// FlagAckProgress renews the delivery's lease instead of settling it: no attempt is spent and no credit comes back.
const FlagAckProgress uint16 = 1 << 0

const ackFlags = FlagAckProgress

const ackSize = 32

var (
	errAckShort = malformed("ACK ends before its last field")
	errAckTail  = malformed("ACK has bytes after its last field that no flag announces")
)

// Ack is the payload of ACK (spec sections 2 and 3, rule 3).
//
//	offset  size  field
//	0       2     subscription_id
//	2       2     topic_id
//	4       2     partition
//	6       8     seq
//	14      8     delivery_id
//	22      8     ownership_epoch, echoed from the MSG
//	30      2     flags: bit0 PROGRESS
type Ack struct {
	SubscriptionID uint16
	TopicID        uint16
	Partition      uint16
	Seq            uint64
	DeliveryID     uint64
	OwnershipEpoch uint64
	Flags          uint16
}

// Decode reads a payload. After an error m holds nothing of use.
func (m *Ack) Decode(p []byte) error {
	if len(p) < ackSize {
		return errAckShort
	}
	m.SubscriptionID = be.Uint16(p)
	m.TopicID = be.Uint16(p[2:])
	m.Partition = be.Uint16(p[4:])
	m.Seq = be.Uint64(p[6:])
	m.DeliveryID = be.Uint64(p[14:])
	m.OwnershipEpoch = be.Uint64(p[22:])
	m.Flags = be.Uint16(p[30:])
	if len(p) > ackSize && m.Flags&^ackFlags == 0 {
		return errAckTail
	}
	return nil
}

// Append appends the whole frame.
func (m *Ack) Append(b []byte) []byte {
	b = appendHead(b, OpAck, ackSize)
	b = be.AppendUint16(b, m.SubscriptionID)
	b = be.AppendUint16(b, m.TopicID)
	b = be.AppendUint16(b, m.Partition)
	b = be.AppendUint64(b, m.Seq)
	b = be.AppendUint64(b, m.DeliveryID)
	b = be.AppendUint64(b, m.OwnershipEpoch)
	return be.AppendUint16(b, m.Flags)
}

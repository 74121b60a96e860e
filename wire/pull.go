package wire

var (
	errPullShort  = malformed("PULL ends before its last field")
	errPullEpochs = malformed("PULL ownership_epochs_len reaches beyond the payload")
	errPullTail   = malformed("PULL has bytes after its last field")
)

// EpochList is a list of ownership epochs in wire form, eight bytes each. A decoded one is borrowed from the payload.
type EpochList []byte

// AppendEpochs appends epochs in wire form, for a PULL to be encoded.
func AppendEpochs(b []byte, epochs ...uint64) []byte {
	for _, e := range epochs {
		b = be.AppendUint64(b, e)
	}
	return b
}

// Len is the number of epochs.
func (l EpochList) Len() int { return len(l) / 8 }

// At is the epoch at i, from 0.
func (l EpochList) At(i int) uint64 { return be.Uint64(l[8*i:]) }

// Pull is the payload of PULL (spec sections 2 and 3, "Consuming").
//
//	offset  size  field
//	0       2     subscription_id
//	2       8     member_id
//	10      4     membership_epoch
//	14      4     assignment_epoch
//	18      2     ownership_epochs_len: the number of epochs, not of bytes
//	20      8*N   ownership_epochs, one per owned partition in rising order of partition
//	20+8*N  2     max_msgs
//	22+8*N  4     max_bytes
//	26+8*N  2     wait_ms
//	28+8*N  4     min_bytes
type Pull struct {
	SubscriptionID  uint16
	MemberID        uint64
	MembershipEpoch uint32
	AssignmentEpoch uint32
	OwnershipEpochs EpochList
	MaxMsgs         uint16
	MaxBytes        uint32
	WaitMs          uint16
	MinBytes        uint32
}

// Decode reads a payload. After an error m holds nothing of use.
func (m *Pull) Decode(p []byte) error {
	if len(p) < pullFixed {
		return errPullShort
	}
	n := 8 * int(be.Uint16(p[18:]))
	if n > len(p)-pullFixed {
		return errPullEpochs
	}
	if n < len(p)-pullFixed {
		return errPullTail
	}
	m.SubscriptionID = be.Uint16(p)
	m.MemberID = be.Uint64(p[2:])
	m.MembershipEpoch = be.Uint32(p[10:])
	m.AssignmentEpoch = be.Uint32(p[14:])
	m.OwnershipEpochs = EpochList(p[20 : 20+n : 20+n])
	q := p[20+n:]
	m.MaxMsgs = be.Uint16(q)
	m.MaxBytes = be.Uint32(q[2:])
	m.WaitMs = be.Uint16(q[6:])
	m.MinBytes = be.Uint32(q[8:])
	return nil
}

// Append appends the whole frame.
func (m *Pull) Append(b []byte) []byte {
	assert(len(m.OwnershipEpochs)%8 == 0, "PULL ownership_epochs is not made of whole epochs")
	assert(m.OwnershipEpochs.Len() <= maxEpochs, "PULL ownership_epochs does not fit its length field")
	b = appendHead(b, OpPull, pullFixed+len(m.OwnershipEpochs))
	b = be.AppendUint16(b, m.SubscriptionID)
	b = be.AppendUint64(b, m.MemberID)
	b = be.AppendUint32(b, m.MembershipEpoch)
	b = be.AppendUint32(b, m.AssignmentEpoch)
	b = be.AppendUint16(b, uint16(m.OwnershipEpochs.Len()))
	b = append(b, m.OwnershipEpochs...)
	b = be.AppendUint16(b, m.MaxMsgs)
	b = be.AppendUint32(b, m.MaxBytes)
	b = be.AppendUint16(b, m.WaitMs)
	return be.AppendUint32(b, m.MinBytes)
}

package wire

// FlagPubWantPartition asks that PUB's OK name the partition that the record went to.
const FlagPubWantPartition uint16 = 1 << 0

const pubFlags = FlagPubWantPartition

// ResultDeduplicated in result_flags says that the record was there already: the OK names the first one.
const ResultDeduplicated uint8 = 1 << 0

const pubResultFlags = ResultDeduplicated

// Durability is how safe a record was when its PUB was answered.
type Durability uint8

const (
	// DurabilityLocal is one node, fsynced.
	DurabilityLocal Durability = 0
	// DurabilityQuorum is a majority, fsynced.
	DurabilityQuorum Durability = 1
)

var (
	errPubShort      = malformed("PUB ends before its last field")
	errPubKeyLong    = malformed("PUB key is longer than 255 bytes")
	errPubKey        = malformed("PUB key_len reaches beyond the payload")
	errPubValueLong  = malformed("PUB value is longer than 16776192 bytes")
	errPubValue      = malformed("PUB value_len reaches beyond the payload")
	errPubTail       = malformed("PUB has bytes after its last field that no flag announces")
	errPubResult     = malformed("OK of PUB ends before its last field")
	errPubDurability = malformed("OK of PUB has a durability that is neither 0 nor 1")
	errPubResultTail = malformed("OK of PUB has bytes after its last field that no flag announces")
)

// Pub is the payload of PUB (spec sections 2 and 3, "Publishing").
//
//	offset  size  field
//	0       2     topic_id
//	2       2     partition, PartitionAny to let the broker choose
//	4       8     producer_id, 0 for a plain publish
//	12      8     producer_seq
//	20      2     flags: bit0 WANT_PARTITION
//	22      2     key_len
//	24      K     key
//	24+K    4     value_len
//	28+K    V     value
type Pub struct {
	TopicID     uint16
	Partition   uint16
	ProducerID  uint64
	ProducerSeq uint64
	Flags       uint16
	Key         []byte // borrowed from the payload
	Value       []byte // borrowed from the payload
}

// Decode reads a payload. After an error m holds nothing of use.
func (m *Pub) Decode(p []byte) error {
	if len(p) < pubFixedSize {
		return errPubShort
	}
	k := int(be.Uint16(p[22:]))
	if k > MaxKeyLen {
		return errPubKeyLong
	}
	if k > len(p)-pubFixedSize {
		return errPubKey
	}
	v := be.Uint32(p[24+k:])
	if v > MaxValueLen {
		return errPubValueLong
	}
	rest := p[pubFixedSize+k:]
	if int(v) > len(rest) {
		return errPubValue
	}
	m.TopicID = be.Uint16(p)
	m.Partition = be.Uint16(p[2:])
	m.ProducerID = be.Uint64(p[4:])
	m.ProducerSeq = be.Uint64(p[12:])
	m.Flags = be.Uint16(p[20:])
	m.Key = p[24 : 24+k : 24+k]
	m.Value = rest[:v:v]
	if len(rest) > int(v) && m.Flags&^pubFlags == 0 {
		return errPubTail
	}
	return nil
}

// CheckProducer is PRODUCER_SEQ_INVALID where producer_id, producer_seq, partition and key do not go together (spec
// section 3, rule 1 and "Publishing"), else CodeOK. The connection stays open.
func (m *Pub) CheckProducer() Code {
	if m.ProducerID == 0 {
		if m.ProducerSeq != 0 {
			return CodeProducerSeqInvalid
		}
		return CodeOK
	}
	// A repeat of a publish that the broker placed by turns could land in another partition, whose window does not
	// know it.
	if m.ProducerSeq == 0 || (m.Partition == PartitionAny && len(m.Key) == 0) {
		return CodeProducerSeqInvalid
	}
	return CodeOK
}

// Append appends the whole frame.
func (m *Pub) Append(b []byte) []byte {
	return append(m.AppendHeader(b, len(m.Value)), m.Value...)
}

// AppendHeader appends the frame up to its value, for a value of the given size that the caller sends right behind it
// without copying it. m.Value is not looked at.
func (m *Pub) AppendHeader(b []byte, value int) []byte {
	assert(len(m.Key) <= MaxKeyLen, "PUB key is longer than MaxKeyLen")
	assert(value >= 0 && value <= MaxValueLen, "PUB value is longer than MaxValueLen")
	b = appendHead(b, OpPub, pubFixedSize+len(m.Key)+value)
	b = be.AppendUint16(b, m.TopicID)
	b = be.AppendUint16(b, m.Partition)
	b = be.AppendUint64(b, m.ProducerID)
	b = be.AppendUint64(b, m.ProducerSeq)
	b = be.AppendUint16(b, m.Flags)
	b = be.AppendUint16(b, uint16(len(m.Key)))
	b = append(b, m.Key...)
	return be.AppendUint32(b, uint32(value))
}

const pubResultFixed = 26

// PubResult is the result in PUB's OK.
//
//	offset  size  field
//	0       8     sequence
//	8       1     durability
//	9       8     leader_epoch
//	17      8     commit_seq, the partition's
//	25      1     result_flags: bit0 deduplicated
//	26      2     partition, only where the request set WANT_PARTITION
type PubResult struct {
	Sequence     uint64
	Durability   Durability
	LeaderEpoch  uint64
	CommitSeq    uint64
	ResultFlags  uint8
	HasPartition bool
	Partition    uint16
}

// Decode reads a result. wantPartition says whether the request set WANT_PARTITION. A server that does not know the flag
// leaves the partition out, which is no fault: HasPartition is then false.
func (m *PubResult) Decode(p []byte, wantPartition bool) error {
	if len(p) < pubResultFixed {
		return errPubResult
	}
	m.Sequence = be.Uint64(p)
	m.Durability = Durability(p[8])
	m.LeaderEpoch = be.Uint64(p[9:])
	m.CommitSeq = be.Uint64(p[17:])
	m.ResultFlags = p[25]
	m.HasPartition, m.Partition = false, 0
	if m.Durability > DurabilityQuorum {
		return errPubDurability
	}
	rest := p[pubResultFixed:]
	if wantPartition && len(rest) > 0 {
		if len(rest) < 2 {
			return errPubResult
		}
		m.HasPartition, m.Partition = true, be.Uint16(rest)
		rest = rest[2:]
	}
	if len(rest) > 0 && m.ResultFlags&^pubResultFlags == 0 {
		return errPubResultTail
	}
	return nil
}

// AppendOK appends the whole OK frame, with the partition where HasPartition says so.
func (m *PubResult) AppendOK(b []byte) []byte {
	n := pubResultFixed
	if m.HasPartition {
		n += 2
	}
	b = appendOKHead(b, OpPub, n)
	b = be.AppendUint64(b, m.Sequence)
	b = append(b, byte(m.Durability))
	b = be.AppendUint64(b, m.LeaderEpoch)
	b = be.AppendUint64(b, m.CommitSeq)
	b = append(b, m.ResultFlags)
	if m.HasPartition {
		b = be.AppendUint16(b, m.Partition)
	}
	return b
}

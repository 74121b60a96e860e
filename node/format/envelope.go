package format

import (
	"encoding/binary"
	"errors"

	"github.com/mortarmq/mortarmq/node/op"
)

// EnvelopeMagic begins a dead-letter envelope.
const EnvelopeMagic = "MMDL"

// EnvelopeVersion is the version that this binary writes, and the highest that
// it takes apart. A later one can still be stepped over by its length.
const EnvelopeVersion = 1

// EnvelopeBytesMax bounds an envelope in bytes.
const EnvelopeBytesMax = 512

// envelopeFixed is the size of an envelope before the group's name in bytes.
// The checksum of the record covers the envelope.
//
//	offset size field
//	     0    4 magic: MMDL
//	     4    1 format_version = 1
//	     5    1 reason: 5 attempts used up, 6 rejected (causes of node/op)
//	     6    2 length of the whole envelope
//	     8    2 source topic id
//	    10    2 source partition
//	    12    4 attempts
//	    16    8 source sequence
//	    24    8 time of death, Unix ms
//	    32    2 group id
//	    34    2 length of the group's name
//	    36      the group's name, as it was then
const envelopeFixed = 36

// Envelope says where a dead letter came from and why. The source topic is an
// id because twin and source live and die together; the group is a name too,
// because it may be gone when somebody looks.
type Envelope struct {
	Reason    uint8 // op.CauseAttempts, op.CauseReject
	Topic     op.TopicID
	Partition op.PartitionID
	Attempts  uint32
	Sequence  op.Sequence
	Time      uint64 // Unix ms
	Group     op.GroupID
	GroupName []byte
}

// ErrEnvelope is what the decoders answer to bytes that are no envelope.
var ErrEnvelope = errors.New("format: malformed dead-letter envelope")

// The longest group name of the wire fits (limits.go there).
const _ uint = EnvelopeBytesMax - envelopeFixed - 255

// Append appends the encoding of e to b.
func (e *Envelope) Append(b []byte) []byte {
	size := envelopeFixed + len(e.GroupName)
	if size > EnvelopeBytesMax {
		panic("format: an envelope beyond its limit")
	}
	be := binary.BigEndian
	b = append(b, EnvelopeMagic...)
	b = append(b, EnvelopeVersion, e.Reason)
	b = be.AppendUint16(b, uint16(size))
	b = be.AppendUint16(b, uint16(e.Topic))
	b = be.AppendUint16(b, uint16(e.Partition))
	b = be.AppendUint32(b, e.Attempts)
	b = be.AppendUint64(b, uint64(e.Sequence))
	b = be.AppendUint64(b, e.Time)
	b = be.AppendUint16(b, uint16(e.Group))
	b = be.AppendUint16(b, uint16(len(e.GroupName)))
	return append(b, e.GroupName...)
}

// EnvelopeSize gives the size of the envelope at the front of b, of whatever
// version.
func EnvelopeSize(b []byte) (int, error) {
	if len(b) < envelopeFixed || string(b[:4]) != EnvelopeMagic || b[4] == 0 {
		return 0, ErrEnvelope
	}
	n := int(binary.BigEndian.Uint16(b[6:]))
	if n < envelopeFixed || n > EnvelopeBytesMax || n > len(b) {
		return 0, ErrEnvelope
	}
	return n, nil
}

// DecodeEnvelope reads the envelope that b is.
func DecodeEnvelope(b []byte) (e Envelope, err error) {
	n, err := EnvelopeSize(b)
	if err != nil {
		return e, err
	}
	if b[4] > EnvelopeVersion {
		return e, &VersionError{Magic: EnvelopeMagic, Version: b[4], Known: EnvelopeVersion}
	}
	be := binary.BigEndian
	e.Reason = b[5]
	e.Topic = op.TopicID(be.Uint16(b[8:]))
	e.Partition = op.PartitionID(be.Uint16(b[10:]))
	e.Attempts = be.Uint32(b[12:])
	e.Sequence = op.Sequence(be.Uint64(b[16:]))
	e.Time = be.Uint64(b[24:])
	e.Group = op.GroupID(be.Uint16(b[32:]))
	if n != len(b) || n != envelopeFixed+int(be.Uint16(b[34:])) {
		return e, ErrEnvelope
	}
	e.GroupName = b[envelopeFixed:n:n]
	return e, nil
}

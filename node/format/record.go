package format

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/mortarmq/mortarmq/node/op"
)

// RecordHeaderSize is the size of what stands before a record's key in bytes.
//
//	offset size field
//	     0    4 record_len = 52 + key_len + value_len
//	     4    4 CRC-32C of everything after this field
//	     8    2 flags: bit 0 key present, bit 1 tombstone (reserved), rest 0
//	    10    2 key_len
//	    12    4 value_len: of the envelope, if there is one, and the value
//	    16    8 sequence; the first of a partition is 1
//	    24    8 producer_id
//	    32    8 producer_seq
//	    40    8 timestamp, Unix ms, never below its predecessor's
//	    48    4 leader_epoch
//	    52    1 kind: 0 local, 1 quorum, 2 dead letter, 3 reserved
//	    53    3 zero
//	    56      key, envelope (kind 2 alone: MMDL), value
const RecordHeaderSize = 56

// RecordBytesMax bounds a whole record in bytes: the largest value and key of
// the wire and the largest envelope fit.
const RecordBytesMax = 16 << 20

// RecordFlagKey is the flag of a record that has a key.
const RecordFlagKey uint16 = 1 << 0

// RecordKind says how a record came into its partition.
type RecordKind uint8

// The kinds of record. Numbers are on disk and on the wire: never reused.
const (
	RecordLocal      RecordKind = 0 // published to a single node
	RecordQuorum     RecordKind = 1 // published, committed by a majority of several
	RecordDeadLetter RecordKind = 2 // moved here by the broker; has an envelope
)

func (k RecordKind) String() string {
	switch k {
	case RecordLocal:
		return "local"
	case RecordQuorum:
		return "quorum"
	case RecordDeadLetter:
		return "dead_letter"
	}
	return "reserved"
}

// Record is one record of a partition. Slices are borrowed: by Append until it
// returns, from a decoder as long as the bytes stay.
type Record struct {
	Flags       uint16
	Sequence    op.Sequence
	ProducerID  uint64
	ProducerSeq uint64
	Timestamp   uint64 // Unix ms
	LeaderEpoch op.Epoch
	Kind        RecordKind
	Key         []byte
	Envelope    []byte // dead letters alone: encoded, stands before Value
	Value       []byte
}

// What is wrong with a record. ErrRecordShort means that the bytes end inside
// it, which is no damage where more follow.
var (
	ErrRecordShort  = errors.New("format: record ends early")
	ErrRecordLength = errors.New("format: record length out of range")
	ErrRecordSum    = errors.New("format: record checksum mismatch")
	ErrRecordFields = errors.New("format: record fields contradict each other")
)

// Size gives the encoded size of r in bytes.
func (r *Record) Size() int {
	return RecordHeaderSize + len(r.Key) + len(r.Envelope) + len(r.Value)
}

// Append appends the encoding of r to b. It panics on a record that would not
// decode.
func (r *Record) Append(b []byte) []byte {
	size := r.Size()
	if size > RecordBytesMax || len(r.Key) > 1<<16-1 || r.Sequence == 0 {
		panic("format: a record beyond the limits")
	}
	if len(r.Key) > 0 && r.Flags&RecordFlagKey == 0 || r.Flags&^RecordFlagKey != 0 || r.Kind > RecordDeadLetter {
		panic("format: a record with flags or a kind that contradict it")
	}
	if n, err := EnvelopeSize(r.Envelope); r.Kind == RecordDeadLetter && (err != nil || n != len(r.Envelope)) || r.Kind != RecordDeadLetter && len(r.Envelope) > 0 {
		panic("format: a dead letter without its envelope, or an envelope without a dead letter")
	}
	be := binary.BigEndian
	start := len(b)
	b = be.AppendUint32(b, uint32(size-4))
	b = append(b, 0, 0, 0, 0)
	b = be.AppendUint16(b, r.Flags)
	b = be.AppendUint16(b, uint16(len(r.Key)))
	b = be.AppendUint32(b, uint32(len(r.Envelope)+len(r.Value)))
	b = be.AppendUint64(b, uint64(r.Sequence))
	b = be.AppendUint64(b, r.ProducerID)
	b = be.AppendUint64(b, r.ProducerSeq)
	b = be.AppendUint64(b, r.Timestamp)
	b = be.AppendUint32(b, uint32(r.LeaderEpoch))
	b = append(b, byte(r.Kind), 0, 0, 0)
	b = append(b, r.Key...)
	b = append(b, r.Envelope...)
	b = append(b, r.Value...)
	be.PutUint32(b[start+4:], crc32.Checksum(b[start+8:], op.Castagnoli))
	return b
}

// RecordSize gives the size of the record at the front of b by its length
// field alone, which no checksum has confirmed yet.
func RecordSize(b []byte) (int, error) {
	if len(b) < 4 {
		return 0, ErrRecordShort
	}
	n := int64(binary.BigEndian.Uint32(b)) + 4
	if n < RecordHeaderSize || n > RecordBytesMax {
		return 0, ErrRecordLength
	}
	return int(n), nil
}

// DecodeRecord reads the record at the front of b and checks all of it. It
// gives the record's size; with ErrRecordShort, the size it would have.
func DecodeRecord(b []byte) (r Record, size int, err error) {
	size, err = RecordSize(b)
	if err != nil {
		return r, 0, err
	}
	if size > len(b) {
		return r, size, ErrRecordShort
	}
	if crc32.Checksum(b[8:size], op.Castagnoli) != binary.BigEndian.Uint32(b[4:]) {
		return r, size, ErrRecordSum
	}
	err = r.decode(b[:size])
	return r, size, err
}

// ViewRecord is DecodeRecord for bytes whose checksum was checked before, or
// that never left memory. It panics where they contradict themselves.
func ViewRecord(b []byte) (r Record, size int) {
	size, err := RecordSize(b)
	if err != nil || size > len(b) {
		panic("format: a verified record has no valid length")
	}
	if err := r.decode(b[:size]); err != nil {
		panic("format: a verified record does not decode")
	}
	return r, size
}

// RecordSequence gives the sequence of the record at the front of b, whose
// header was checked before.
func RecordSequence(b []byte) op.Sequence { return op.Sequence(binary.BigEndian.Uint64(b[16:])) }

// decode reads the fields of b, which is exactly one record.
func (r *Record) decode(b []byte) error {
	be := binary.BigEndian
	keyLen, valueLen := int(be.Uint16(b[10:])), int64(be.Uint32(b[12:]))
	r.Flags = be.Uint16(b[8:])
	r.Sequence = op.Sequence(be.Uint64(b[16:]))
	r.ProducerID = be.Uint64(b[24:])
	r.ProducerSeq = be.Uint64(b[32:])
	r.Timestamp = be.Uint64(b[40:])
	r.LeaderEpoch = op.Epoch(be.Uint32(b[48:]))
	r.Kind = RecordKind(b[52])
	if int64(RecordHeaderSize+keyLen)+valueLen != int64(len(b)) || r.Sequence == 0 || r.Kind > RecordDeadLetter ||
		b[53]|b[54]|b[55] != 0 || r.Flags&^RecordFlagKey != 0 || r.Flags&RecordFlagKey == 0 && keyLen > 0 {
		return ErrRecordFields
	}
	rest := b[RecordHeaderSize:]
	if r.Flags&RecordFlagKey != 0 {
		r.Key = rest[:keyLen:keyLen]
	}
	rest = rest[keyLen:]
	if r.Kind == RecordDeadLetter {
		n, err := EnvelopeSize(rest)
		if err != nil {
			return ErrRecordFields
		}
		r.Envelope, rest = rest[:n:n], rest[n:]
	}
	r.Value = rest[:len(rest):len(rest)]
	return nil
}

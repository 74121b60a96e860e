package format

import (
	"encoding/binary"
	"errors"

	"github.com/mortarmq/mortarmq/node/op"
)

// IndexInterval is the least distance in bytes between records that the sparse
// index names. The first record of a segment has an entry, and after that the
// first that starts at least so far behind the last one that has: the index is
// a function of its segment alone, and a record starts less than IndexInterval
// behind the entry at or before it.
const IndexInterval = 4096

// IndexEntrySize is the size of an entry of the sparse index in bytes. Entries
// follow the header (SegmentHeaderSize, magic MMQI) without a gap.
//
//	offset size field
//	     0    8 sequence
//	     8    8 timestamp, Unix ms
//	    16    4 offset in the segment
//	    20    4 record length, the 4-byte prefix included
//	    24    8 zero
const IndexEntrySize = 32

// IndexEntry says where a record lies.
type IndexEntry struct {
	Sequence  op.Sequence
	Timestamp uint64 // Unix ms
	Offset    uint32 // in the segment
	Length    uint32 // of the record, prefix included
}

// ErrIndexEntry is what DecodeIndexEntry answers to bytes that are none. An
// index has no checksums: it is believed where the segment agrees with it.
var ErrIndexEntry = errors.New("format: damaged index entry")

// IndexDue says whether the record at offset gets an entry, when the last one
// that has an entry lies at last; 0 means that there is none yet.
func IndexDue(last, offset uint32) bool { return last == 0 || offset-last >= IndexInterval }

// Append appends the encoding of e to b.
func (e *IndexEntry) Append(b []byte) []byte {
	be := binary.BigEndian
	b = be.AppendUint64(b, uint64(e.Sequence))
	b = be.AppendUint64(b, e.Timestamp)
	b = be.AppendUint32(b, e.Offset)
	b = be.AppendUint32(b, e.Length)
	return be.AppendUint64(b, 0)
}

// DecodeIndexEntry reads the entry at the front of b.
func DecodeIndexEntry(b []byte) (e IndexEntry, err error) {
	if len(b) < IndexEntrySize {
		return e, ErrIndexEntry
	}
	be := binary.BigEndian
	e.Sequence = op.Sequence(be.Uint64(b))
	e.Timestamp = be.Uint64(b[8:])
	e.Offset = be.Uint32(b[16:])
	e.Length = be.Uint32(b[20:])
	if e.Sequence == 0 || e.Offset < SegmentHeaderSize || e.Length < RecordHeaderSize || e.Length > RecordBytesMax || be.Uint64(b[24:]) != 0 {
		return e, ErrIndexEntry
	}
	return e, nil
}

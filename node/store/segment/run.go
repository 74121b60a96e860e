package segment

import (
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

// run walks over the records of a segment in order and checks each: its
// checksum, its fields, and that its sequence follows.
type run struct {
	offset  int64       // of the next record in the segment
	next    op.Sequence // it must have
	indexed uint32      // offset of the last record with an index entry, 0 for none
	entries []format.IndexEntry
}

// check takes the records at the front of b, which lies at r.offset. It gives
// how many bytes of whole good records there are. The error says why it stopped
// before the end: format.ErrRecordShort if b ends inside a record.
func (r *run) check(b []byte) (used int, err error) {
	for used < len(b) {
		rec, n, err := format.DecodeRecord(b[used:])
		if err == nil && rec.Sequence != r.next {
			err = errSequence
		}
		if err != nil {
			return used, err
		}
		at := uint32(r.offset)
		if format.IndexDue(r.indexed, at) {
			r.indexed = at
			r.entries = append(r.entries, format.IndexEntry{Sequence: rec.Sequence, Timestamp: rec.Timestamp, Offset: at, Length: uint32(n)})
		}
		used += n
		r.offset += int64(n)
		r.next++
	}
	return used, nil
}

type sequenceError struct{}

func (sequenceError) Error() string { return "segment: a sequence that does not follow" }

var errSequence error = sequenceError{}

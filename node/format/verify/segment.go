package verify

import (
	"bytes"
	"errors"
	"sort"
	"strconv"

	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

// indexBytesMax bounds the index files that are read whole: more than the index
// of the largest segment.
const indexBytesMax = 64 << 20

// walker goes through one segment.
type walker struct {
	v       *verifier
	f       *segmentFiles
	w       *window
	limit   int64 // up to here everything has to be whole; 0: nothing has to be
	old     []format.IndexEntry
	made    []byte // the index as it should be
	indexed uint32
	next    op.Sequence
	stamp   uint64
	at      int64
	broken  bool // damage was found: the index cannot be compared
}

// later looks at a segment that is later than the checkpoint: the next start
// removes it.
func (v *verifier) later(pos format.Position, f *segmentFiles) {
	if !f.hasLog {
		v.add(Note, f.indexedName, 0, uint64(f.base), "an index without its segment, later than the checkpoint")
		return
	}
	v.walk(pos, f, 0, 0)
}

// segment checks a segment and its index. Up to limit it has to be whole and end
// with the record last; what is behind is looked at. It gives the sequence that
// the next segment has to begin with.
func (v *verifier) segment(pos format.Position, f *segmentFiles, limit int64, last op.Sequence) op.Sequence {
	if f.size < format.SegmentHeaderSize+format.RecordHeaderSize {
		// No segment is begun without a record.
		v.add(Damage, f.name, f.size, uint64(f.base), "the segment ends early")
		return last + 1
	}
	return v.walk(pos, f, limit, last)
}

// walk goes through a segment, of which nothing has to be whole if limit is 0.
func (v *verifier) walk(pos format.Position, f *segmentFiles, limit int64, last op.Sequence) op.Sequence {
	w := v.open(f.name)
	if w == nil {
		return last + 1
	}
	defer v.close(w, f.name)
	k := &walker{v: v, f: f, w: w, limit: limit, next: f.base, at: format.SegmentHeaderSize}
	h, err := format.DecodeSegmentHeader(w.need(0, format.SegmentHeaderSize))
	level := Damage
	if limit == 0 {
		level = Note
	}
	switch {
	case err != nil:
		v.addErr(level, f.name, 0, uint64(f.base), err)
		return last + 1
	case h.Topic != pos.Topic || h.Partition != pos.Partition || h.Base != f.base:
		v.add(level, f.name, 0, uint64(f.base), "the header is that of another segment")
		return last + 1
	case !v.cluster(level, f.name, h.ClusterID):
		return last + 1
	}
	v.report.saw(format.SegmentMagic, 1)
	index := k.readIndex(h)
	for k.at < limit && k.record() {
	}
	active := f.base == pos.Base
	if limit > 0 && !k.broken && w.err == nil && (k.at > limit || k.next > last+1 || active && k.next <= last) {
		k.bad("the segment does not end where the checkpoint says")
	}
	if k.broken || w.err != nil {
		return last + 1
	}
	next, covered := k.next, len(k.made)
	k.tail()
	if index != nil {
		k.compare(index, covered)
	}
	return next
}

// bad reports damage at the walker's place.
func (k *walker) bad(what string) {
	k.broken = true
	k.v.add(Damage, k.f.name, k.at, uint64(k.next), what)
}

// record checks the record at k.at. After a bad one it goes on at the next that
// the index knows; it is false where there is none.
func (k *walker) record() bool {
	rec, size, err := k.decode(k.at)
	what := ""
	switch {
	case k.w.err != nil:
		return false
	case err != nil:
		what = err.Error()
		if errors.Is(err, format.ErrRecordShort) {
			what = "the segment ends early"
		}
	case rec.Sequence != k.next:
		what = "a sequence that does not follow: " + strconv.FormatUint(uint64(rec.Sequence), 10)
	case rec.Timestamp < k.stamp:
		what = "the timestamp is below its predecessor's"
	}
	if what != "" {
		k.bad(what)
		return k.resync()
	}
	k.take(&rec, size)
	return true
}

// decode reads the record at offset.
func (k *walker) decode(offset int64) (format.Record, int, error) {
	size, err := format.RecordSize(k.w.need(offset, 4))
	if err != nil {
		return format.Record{}, 0, err
	}
	return format.DecodeRecord(k.w.need(offset, size))
}

func (k *walker) take(rec *format.Record, size int) {
	if at := uint32(k.at); format.IndexDue(k.indexed, at) {
		k.indexed = at
		e := format.IndexEntry{Sequence: rec.Sequence, Timestamp: rec.Timestamp, Offset: at, Length: uint32(size)}
		k.made = e.Append(k.made)
	}
	k.next, k.stamp = rec.Sequence+1, rec.Timestamp
	k.at += int64(size)
	k.v.report.Records++
}

// resync goes to the next record behind the bad one that the index names and
// that is what it says. The same record may be bad for its timestamp alone.
func (k *walker) resync() bool {
	i := sort.Search(len(k.old), func(i int) bool { return int64(k.old[i].Offset) > k.at })
	for ; i < len(k.old) && int64(k.old[i].Offset) < k.limit; i++ {
		e := &k.old[i]
		if rec, _, err := k.decode(int64(e.Offset)); err == nil && rec.Sequence == e.Sequence && rec.Sequence > k.next {
			k.at, k.next, k.stamp = int64(e.Offset), e.Sequence, rec.Timestamp
			return true
		}
	}
	return false // nothing says where the next record is
}

// tail looks at what lies behind the limit: recovery cuts it off.
func (k *walker) tail() {
	size := k.w.f.Size()
	if k.limit > 0 && size > k.limit {
		k.v.add(Note, k.f.name, k.limit, uint64(k.next), "bytes behind the checkpoint: the next start cuts them off")
	}
	for k.at < size {
		rec, n, err := k.decode(k.at)
		if err != nil || rec.Sequence != k.next {
			k.v.add(Note, k.f.name, k.at, uint64(k.next), "torn tail behind the checkpoint")
			return
		}
		k.take(&rec, n)
	}
}

// readIndex reads the index file whole. Nothing that is wrong with it is damage:
// the segment has it all.
func (k *walker) readIndex(h format.SegmentHeader) []byte {
	path := k.f.indexedName
	if !k.f.hasIndex {
		k.v.add(Note, path, 0, uint64(k.f.base), "the index is missing: it is rebuilt when it is needed")
		return nil
	}
	w := k.v.open(path)
	if w == nil {
		return nil
	}
	defer k.v.close(w, path)
	b := w.need(0, int(min(w.f.Size(), indexBytesMax)))
	got, err := format.DecodeIndexHeader(b)
	if err == nil && (got.Topic != h.Topic || got.Partition != h.Partition || got.Base != h.Base || got.ClusterID != h.ClusterID || got.Created != h.Created) {
		err = errors.New("the header is that of another index")
	}
	if err != nil {
		k.v.addErr(Note, path, 0, uint64(k.f.base), err)
		return nil
	}
	k.v.report.saw(format.IndexMagic, 1)
	b = bytes.Clone(b[format.SegmentHeaderSize:])
	last := op.Sequence(0)
	for at := 0; at+format.IndexEntrySize <= len(b); at += format.IndexEntrySize {
		e, err := format.DecodeIndexEntry(b[at:])
		if err != nil || e.Sequence <= last {
			break
		}
		last = e.Sequence
		k.old = append(k.old, e)
	}
	return b
}

// compare checks the index against what the segment makes of it: the first
// covered bytes have to be there, of the rest what is there has to be right.
func (k *walker) compare(index []byte, covered int) {
	n := min(len(index), len(k.made))
	for at := 0; at < n; at += format.IndexEntrySize {
		end := min(at+format.IndexEntrySize, n)
		if !bytes.Equal(index[at:end], k.made[at:end]) {
			e, _ := format.DecodeIndexEntry(k.made[at:])
			k.v.add(Note, k.f.indexedName, int64(format.SegmentHeaderSize+at), uint64(e.Sequence), "an entry contradicts the segment: the index is rebuilt when it is needed")
			return
		}
	}
	switch {
	case len(index) < covered:
		k.v.add(Note, k.f.indexedName, int64(format.SegmentHeaderSize+len(index)), 0, "entries are missing: the index is rebuilt when it is needed")
	case len(index) > len(k.made):
		k.v.add(Note, k.f.indexedName, int64(format.SegmentHeaderSize+len(k.made)), 0, "more entries than the segment has records for: the next start cuts them off")
	}
}

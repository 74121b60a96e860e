package sim

import (
	"slices"
	"strings"

	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

// journalTracker reads over the node's shoulder: it takes every write to the
// journal apart, as it is submitted, and remembers where which entries and
// messages are to be. What the node acknowledges is then held against what the
// disk model says of those bytes.
type journalTracker struct {
	host  *host
	files []openFile // of the journal, that are open
	// writes that were not yet seen durable, in order.
	writes []journalWrite
	// marks are the writes that vouch for what was synced before them.
	marks []journalMark
	// written has every message that was ever in a write of the journal.
	written map[placed]bool
	frame   op.Op
}

// openFile is a handle and the name that its file has now.
type openFile struct {
	handle disk.Handle
	path   string
}

// journalWrite is one write of entries.
type journalWrite struct {
	path          string
	offset, bytes int64
	last          op.Number
	messages      []placed
}

// journalMark is a write and the op that it vouches for.
type journalMark struct {
	path          string
	offset, bytes int64
	mark          op.Number
}

// placed names a message within a topic's partition.
type placed struct {
	topic     op.TopicID
	partition op.PartitionID
	identity  uint64
}

// reset begins with another incarnation. What is durable now stays so.
func (t *journalTracker) reset() {
	if t.written == nil {
		t.written = map[placed]bool{}
	}
	t.files, t.writes, t.marks = t.files[:0], nil, nil
}

// dying is called before an incarnation ends: what was durable by then, and not
// acknowledged yet, may be acknowledged by the next one.
func (t *journalTracker) dying() {
	for i := range t.writes {
		if t.certain(&t.writes[i]) {
			for _, m := range t.writes[i].messages {
				t.written[m] = true
			}
		}
	}
}

// note follows handles and names, and takes writes in.
func (t *journalTracker) note(reqs []disk.Request) {
	for i := range reqs {
		r := &reqs[i]
		switch r.Kind {
		case disk.KindOpen:
			if strings.HasPrefix(r.Path, "journal/") {
				t.close(r.Handle)
				t.files = append(t.files, openFile{r.Handle, r.Path})
			}
		case disk.KindClose:
			t.close(r.Handle)
		case disk.KindRename:
			for h := range t.files {
				if t.files[h].path == r.Path {
					t.files[h].path = r.Path2
				}
			}
		case disk.KindWrite:
			for _, f := range t.files {
				if f.handle == r.Handle {
					t.write(f.path, r)
				}
			}
		}
	}
}

func (t *journalTracker) close(h disk.Handle) {
	t.files = slices.DeleteFunc(t.files, func(f openFile) bool { return f.handle == h })
}

// write takes one write of the journal apart. A header, or a mark alone, holds
// no entries.
func (t *journalTracker) write(path string, r *disk.Request) {
	file, ok := format.ParseJournalName(strings.TrimPrefix(path, "journal/"))
	if !ok {
		return
	}
	seed := format.JournalSeed(t.host.config().NewClusterID, file)
	buf := r.Buf
	for len(buf) >= op.WritePrefix {
		w, err := format.DecodeJournalWrite(buf, seed)
		if err != nil || int(w.Bytes) > len(buf) {
			return
		}
		at := r.Offset + int64(len(r.Buf)-len(buf))
		t.marks = append(t.marks, journalMark{path, at, int64(w.Bytes), w.Mark})
		if len(t.marks) > 256 {
			t.marks = slices.Delete(t.marks, 0, 128)
		}
		if w.Entries == 0 {
			return
		}
		jw := journalWrite{path: path, offset: at, bytes: int64(w.Bytes), last: w.First + op.Number(w.Entries) - 1}
		t.entries(&jw, buf[op.WritePrefix:w.Bytes], seed)
		t.writes = append(t.writes, jw)
		next := (int(w.Bytes) + format.JournalBlock - 1) / format.JournalBlock * format.JournalBlock
		buf = buf[min(next, len(buf)):]
	}
}

func (t *journalTracker) entries(jw *journalWrite, b []byte, seed uint32) {
	for len(b) > 0 {
		h, size, err := format.DecodeFrame(b, seed)
		if err != nil || size > len(b) {
			return
		}
		e := op.Entry{Header: h, Raw: b[op.FramePrefix:format.FrameOverhead], Body: b[format.FrameOverhead:size]}
		_ = e.Each(&t.frame, func(int) error {
			if o := &t.frame; o.Kind == op.KindPublish {
				jw.messages = append(jw.messages, placed{o.Topic, o.Partition, identity(o.Key, o.Value)})
			}
			return nil
		})
		b = b[size:]
	}
}

// certain says whether the disk model promises a write to survive.
func (t *journalTracker) certain(w *journalWrite) bool {
	return t.host.disk.Certain(w.path, w.offset, w.bytes)
}

// settle forgets what is durable up to an entry, and gives the first write that
// is not.
func (t *journalTracker) settle(upTo op.Number) *journalWrite {
	n := 0
	for n < len(t.writes) && t.writes[n].last <= upTo {
		if !t.certain(&t.writes[n]) {
			return &t.writes[n]
		}
		for _, m := range t.writes[n].messages {
			t.written[m] = true
		}
		n++
	}
	t.writes = t.writes[n:]
	return nil
}

// holds says whether a message is in bytes that are, or once were, durable.
func (t *journalTracker) holds(m placed) bool {
	if t.written[m] {
		return true
	}
	for i := range t.writes {
		for _, other := range t.writes[i].messages {
			if other == m {
				return t.certain(&t.writes[i])
			}
		}
	}
	return false
}

// vouched gives the highest op that a durable mark names: below it nothing can be
// taken for a torn end.
func (t *journalTracker) vouched() op.Number {
	for i := len(t.marks) - 1; i >= 0; i-- {
		if m := &t.marks[i]; t.host.disk.Certain(m.path, m.offset, m.bytes) {
			return m.mark
		}
	}
	return 0
}

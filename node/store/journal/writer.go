package journal

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store/flight"
)

// writeState is what the writer is at.
type writeState uint8

const (
	writeIdle    writeState = iota
	writeWaiting            // for a prepared file
	writeUnder              // way
	writeStalled            // the disk is full: repeated at retryAt
)

// The largest entry, behind a batch that is as good as full, takes less than half of
// a file.
const _ uint = format.JournalFileBytes/2 - format.EntryBytesMax - 4<<20

// writer puts one write after the other into the current file.
type writer struct {
	flight flight.Flight
	state  writeState

	file   file // the current one
	handle disk.Handle
	seed   uint32
	offset int64 // where the next write begins

	// The write under way: entries of builder, or a mark alone, or (neither) a
	// header alone, which a truncation needs.
	builder  *op.Builder
	mark     bool
	truncate bool
	buf      []byte
	first    op.Number
	fresh    bool // the file's header goes with it

	idleSince clock.Instant
	retryAt   clock.Instant
	headerBuf []byte
	markBuf   []byte
}

// CanAppend says whether Append and Truncate may be called.
func (j *Journal) CanAppend() bool {
	return j.phase == phaseRunning && j.writer.state == writeIdle
}

// Append queues one write of the sealed builder's entries and a sync. b is
// borrowed until Flushed reports its last entry.
func (j *Journal) Append(b *op.Builder) {
	if !j.CanAppend() {
		panic("journal: invariant 1: Append while a write is under way")
	}
	first, last := b.Entry(0), b.Entry(b.Entries()-1)
	if first.Header.Number != j.last+1 || first.Header.PrevHash != j.lastHash {
		panic("journal: invariant 2: an entry does not join the last one")
	}
	w := &j.writer
	w.builder, w.mark, w.truncate = b, false, false
	w.first, w.buf = first.Header.Number, b.Padded()
	j.last, j.lastHash = last.Header.Number, last.Hash()
	j.place()
}

// appendMark queues a mark-only write: the last entry was synced.
func (j *Journal) appendMark() {
	w := &j.writer
	w.builder, w.mark, w.truncate = nil, true, false
	w.first, w.buf = 0, w.markBuf
	j.place()
}

// Truncate drops the entries above number, whose hash is hash, for good: a new
// file begins there and its header is synced before Truncated says so.
func (j *Journal) Truncate(number op.Number, hash op.Hash) {
	if !j.CanAppend() || number > j.last {
		panic("journal: Truncate while a write is under way, or above the end")
	}
	if number == j.last {
		j.emit(Event{Kind: EventTruncated, Number: number})
		return
	}
	w := &j.writer
	w.builder, w.mark, w.truncate, w.buf, w.first = nil, false, true, nil, 0
	j.last, j.lastHash = number, hash
	j.flushed, j.marked = min(j.flushed, number), min(j.marked, number)
	j.index.cut(number + 1)
	j.place()
}

// place finds room for the write: in the current file, or in the next one.
func (j *Journal) place() {
	w := &j.writer
	full := w.offset+int64(len(w.buf)) > w.file.size && w.offset > format.JournalBlock
	full = full || w.truncate && w.file.headed
	if j.mustWait(full) {
		w.state = writeWaiting
		if j.preparer.state == prepareStalled {
			j.emit(Event{Kind: EventStalled, Err: disk.ErrNoSpace, Path: format.JournalName(j.preparer.number)})
		}
		j.prepareNext()
		return
	}
	if full {
		j.roll()
	}
	if w.truncate {
		j.setLimitsFor(j.last + 1)
	}
	w.fresh = !w.file.headed
	if w.fresh {
		w.file.headed, w.file.first, w.file.prevHash = true, j.flushed+1, op.Hash{}
		switch {
		case w.builder != nil:
			w.file.prevHash = w.builder.Entry(0).Header.PrevHash
		default: // everything that was appended is flushed
			w.file.prevHash = j.lastHash
		}
		h := format.JournalHeader{File: w.file.number, ClusterID: j.clusterID, First: w.file.first, PrevHash: w.file.prevHash}
		h.Put(w.headerBuf)
	}
	j.frame()
	j.submitWrite()
}

// mustWait says whether the write waits until more files are prepared: what it
// leaves must be enough for a start on a full disk, and for the start after that
// (package comment). next says that it goes into the next file.
func (j *Journal) mustWait(next bool) bool {
	w, p := &j.writer, &j.preparer
	switch left := len(p.ready); {
	case next:
		return left == 0 || left == 1 && p.state == prepareStalled
	case w.offset+int64(len(w.buf)) > j.options.FileBytes/2:
		return left < 2
	default:
		return left == 0 && p.state == prepareStalled
	}
}

// roll makes the prepared file the current one.
func (j *Journal) roll() {
	w := &j.writer
	w.flight.Submit(&j.queue, disk.Request{Kind: disk.KindClose, Lane: disk.LaneJournal, Handle: w.handle})
	w.file.size = max(w.file.size, w.offset)
	j.files = append(j.files, w.file)
	j.takePrepared()
	j.prepareNext()
}

// setCurrent begins to write to a prepared file.
func (j *Journal) setCurrent(number uint64, size int64) {
	w := &j.writer
	w.file = file{number: number, size: size}
	w.handle = j.writeHandle(number)
	w.seed = format.JournalSeed(j.clusterID, number)
	w.offset = format.JournalBlock
}

// setLimitsFor notes that entries from number on in the older files no longer
// count.
func (j *Journal) setLimitsFor(number op.Number) {
	for i := range j.files {
		if f := &j.files[i]; f.limit == 0 || f.limit > number {
			f.limit = number
		}
	}
}

// frame writes the prefixes into the buffer of the write.
func (j *Journal) frame() {
	w := &j.writer
	if w.truncate {
		return
	}
	prefix := format.JournalWrite{File: w.file.number, Mark: j.flushed, First: w.first, Bytes: op.WritePrefix}
	if w.builder != nil {
		spans := w.builder.Spans()
		for _, s := range spans {
			if s.End-s.Start-format.FrameOverhead > format.EntryBytesMax {
				panic("journal: an entry that recovery would not read back")
			}
			format.PutFrame(w.buf[s.Start:s.End], w.seed)
		}
		prefix.Bytes, prefix.Entries = uint32(w.builder.Len()), uint32(len(spans))
	}
	prefix.Put(w.buf, w.seed)
}

// submitWrite queues the write's requests. They share a lane, so they are
// carried out in this order.
func (j *Journal) submitWrite() {
	w := &j.writer
	w.state = writeUnder
	if w.offset%disk.Alignment != 0 {
		panic("journal: invariant 3: a write off its boundary")
	}
	if w.fresh {
		w.flight.Submit(&j.queue, disk.Request{Kind: disk.KindWrite, Lane: disk.LaneJournal, Handle: w.handle, Buf: w.headerBuf})
	}
	if len(w.buf) > 0 {
		w.flight.Submit(&j.queue, disk.Request{Kind: disk.KindWrite, Lane: disk.LaneJournal, Handle: w.handle, Offset: w.offset, Buf: w.buf})
	}
	if !fault.On("ack_before_sync") {
		w.flight.Submit(&j.queue, disk.Request{Kind: disk.KindSync, Lane: disk.LaneJournal, Handle: w.handle})
	}
}

// written takes in the outcome of a write and its sync.
func (j *Journal) written(now clock.Instant) {
	w := &j.writer
	if j.phase == phaseFailed {
		return
	}
	switch {
	case w.flight.Err == disk.ErrNoSpace && w.flight.ErrKind == disk.KindWrite:
		w.state, w.retryAt = writeStalled, now.Add(j.options.RetryEvery)
		j.emit(Event{Kind: EventStalled, Err: w.flight.Err, Path: w.file.path()})
		return
	case w.flight.Err != disk.OK:
		j.fail(w.flight.Err, w.file.path())
		return
	}
	w.state, w.idleSince = writeIdle, now
	j.begun = max(j.begun, w.file.number)
	j.flushes++
	j.marked = j.flushed
	if len(w.buf) > 0 {
		j.appended += uint64(len(w.buf))
		if w.builder != nil {
			j.index.add(w.first, w.file.number, w.offset)
		}
		w.offset += int64(len(w.buf))
	}
	if j.last < j.flushed {
		panic("journal: flushed beyond the last entry")
	}
	if w.builder != nil {
		j.flushed = j.last
		j.emit(Event{Kind: EventFlushed, Number: j.flushed})
	} else if w.truncate {
		j.emit(Event{Kind: EventTruncated, Number: j.last})
	}
	w.builder, w.buf = nil, nil
	j.prepareNext()
}

package journal

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store/flight"
)

// rewriteStage is what the rewriter is at.
type rewriteStage uint8

const (
	rewriteOld    rewriteStage = iota // the last header is written again
	rewriteFile                       // getting the new file
	rewriteCopy                       // entries are read
	rewriteWrite                      // entries are written
	rewriteSync                       // all of them are synced, and a mark of what was marked
	rewriteHeader                     // the header is written and synced: now the file counts
	rewriteMark                       // a mark of all that was copied
	rewriteRemove                     // emptied files that are not kept for reuse are removed
)

// rewriteBytes is how much is written at once, in bytes.
const rewriteBytes = 1 << 20

// rewriter begins a new journal file after every start and brings what lies
// behind the last mark over into it: after a sync that failed in the last life
// the page cache may show bytes that the disk does not have. The newest files go
// with it, as long as they are small (reclaim.go). It copies, syncs, and only then
// writes the header, which takes the copied entries away from the files that had
// them; cut off before that, it leaves a file that does not count.
type rewriter struct {
	flight  flight.Flight
	stage   rewriteStage
	stalled bool
	retryAt clock.Instant

	mark    op.Number // the last entry that is marked
	from    op.Number // the first entry that is copied
	buf     []byte    // a write, of n bytes so far
	n       int
	entries uint32
	first   op.Number
	offset  int64
	starts  []ref
}

// Rewrite goes on after Checked: Rewritten follows.
func (j *Journal) Rewrite() {
	if j.phase != phaseChecked {
		panic("journal: Rewrite of a journal that was not checked")
	}
	j.phase = phaseRewriting
	r := &j.rewriter
	r.mark = j.checker.mark
	last := j.lastCounting()
	if last == nil || last.first <= j.last && !j.holdsNeedless() {
		j.rewriteBegin()
		return
	}
	// The last file that counts took something away from older ones, by a cut or by
	// a copy that was cut off before they were let go of. Its header may never have
	// been synced: it is written again (invariant 6).
	r.stage = rewriteOld
	j.rewriteAgain()
}

// rewriteBegin chooses the new file and has it prepared.
func (j *Journal) rewriteBegin() {
	r, p := &j.rewriter, &j.preparer
	r.stage = rewriteFile
	top := len(j.files)
	for top > 0 && !j.files[top-1].headed {
		top--
	}
	if top == len(j.files) {
		p.number = j.nextNumber()
		j.prepareAgain()
		return
	}
	// The lowest of the headless files at the top becomes the new one. Those behind
	// it are the next ones, as far as they are whole.
	whole := func(f *file) bool { return !f.used && f.size == j.options.FileBytes }
	found := top + 1
	for found < len(j.files) && whole(&j.files[found]) {
		p.found = append(p.found, j.files[found].number)
		found++
	}
	for i := len(j.files) - 1; i >= found; i-- {
		r.flight.Submit(&j.queue, disk.Request{Kind: disk.KindRemove, Lane: disk.LaneBackground, Path: j.files[i].path()})
		r.flight.Submit(&j.queue, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneBackground, Path: "journal"})
	}
	reuse := j.files[top]
	j.files = j.files[:top]
	if whole(&reuse) {
		j.prepareFound(reuse.number)
		return
	}
	// It holds something of this lap, or is not whole: zeros again, or a retired
	// file in its place.
	p.number = reuse.number
	j.prepareAgain()
}

// rewriteReady goes on when the new file is open.
func (j *Journal) rewriteReady() {
	r := &j.rewriter
	j.takePrepared()
	r.offset = j.writer.offset
	if r.from = j.copyFrom(); r.from > j.last {
		j.rewriteRemove()
		return
	}
	if _, ok := j.index.find(r.from); !ok {
		panic("journal: an entry that is to be copied is in no write")
	}
	r.buf = disk.AlignedBuffer(rewriteBytes)
	r.n = op.WritePrefix
	r.stage = rewriteCopy
	j.beginReading(r.from)
	j.reader.end = j.last
	j.rewriteCopy()
}

// rewriteLanded takes in the outcome of requests on the new file.
func (j *Journal) rewriteLanded(now clock.Instant) {
	r := &j.rewriter
	switch {
	case j.phase == phaseFailed || r.stage == rewriteFile && r.flight.Err == disk.OK:
		return // files above the new one are gone
	case r.stage == rewriteRemove && !r.flight.SyncFailed():
		j.rewritten() // a file that could not be removed is found again by the next start
		return
	case r.flight.Err == disk.ErrNoSpace && r.flight.ErrKind == disk.KindWrite:
		r.stalled, r.retryAt = true, now.Add(j.options.RetryEvery)
		j.emit(Event{Kind: EventStalled, Err: disk.ErrNoSpace, Path: j.rewritePath()})
		return
	case r.flight.Err != disk.OK:
		j.fail(r.flight.Err, j.rewritePath())
		return
	}
	switch r.stage {
	case rewriteOld:
		j.begun = max(j.begun, j.lastCounting().number)
		j.reclaim()
		j.rewriteBegin()
	case rewriteWrite:
		r.starts = append(r.starts, ref{first: r.first, at: r.offset, file: j.writer.file.number})
		r.offset += blocks(int64(r.n))
		r.n, r.entries = op.WritePrefix, 0
		if r.stage = rewriteCopy; !j.reader.busy {
			r.stage = rewriteSync
			j.rewriteAgain()
			return
		}
		j.rewriteCopy()
	case rewriteSync:
		if r.mark >= r.from {
			r.offset += format.JournalBlock
		}
		r.stage = rewriteHeader
		j.rewriteAgain()
	case rewriteHeader:
		j.begun = max(j.begun, j.writer.file.number)
		if r.mark == j.last {
			j.rewriteDone()
			return
		}
		r.stage = rewriteMark
		j.rewriteAgain()
	case rewriteMark:
		r.offset += format.JournalBlock
		j.rewriteDone()
	}
}

// rewritePath names what the present stage works on.
func (j *Journal) rewritePath() string {
	switch {
	case j.rewriter.stage == rewriteOld:
		return j.lastCounting().path()
	case j.rewriter.stage == rewriteRemove || j.writer.file.number == 0:
		return "journal"
	}
	return j.writer.file.path()
}

// rewriteCopy collects entries until a write is full.
func (j *Journal) rewriteCopy() {
	r, c := &j.rewriter, &j.reader.cursor
	for r.stage == rewriteCopy && j.phase == phaseRewriting {
		switch j.readNext() {
		case foundWait:
			return
		case foundEntry:
			j.rewriteEntry()
		case foundEnd:
			j.rewriteFlush()
		case foundFailed:
			j.unreadable(format.JournalName(c.number), c.pos, j.reader.next, c.errno)
		default:
			// It was intact when it was checked.
			j.damaged(format.JournalName(c.number), c.pos, j.reader.next, "cannot be read again")
		}
	}
}

// rewriteEntry copies the reader's entry into the write.
func (j *Journal) rewriteEntry() {
	r, c := &j.rewriter, &j.reader.cursor
	h := &c.entry.Header
	if r.entries == 0 {
		r.first = h.Number
	}
	if h.Number == r.from {
		j.writer.file.first, j.writer.file.prevHash = h.Number, h.PrevHash
	}
	size := format.FrameOverhead + len(c.entry.Body)
	if need := int(blocks(int64(r.n + size))); need > len(r.buf) {
		grown := disk.AlignedBuffer(need)
		copy(grown, r.buf[:r.n])
		r.buf = grown
	}
	frame := r.buf[r.n : r.n+size]
	copy(frame[op.FramePrefix:], c.entry.Raw)
	copy(frame[format.FrameOverhead:], c.entry.Body)
	format.PutFrame(frame, j.writer.seed)
	r.n += size
	r.entries++
	if r.n >= rewriteBytes && h.Number < j.last {
		j.rewriteFlush()
	}
}

// rewriteFlush writes what was collected.
func (j *Journal) rewriteFlush() {
	r := &j.rewriter
	clear(r.buf[r.n:blocks(int64(r.n))])
	prefix := format.JournalWrite{File: j.writer.file.number, Mark: min(r.mark, r.first-1), First: r.first, Bytes: uint32(r.n), Entries: r.entries}
	prefix.Put(r.buf, j.writer.seed)
	r.stage = rewriteWrite
	j.rewriteAgain()
}

// rewriteAgain submits the request of the present stage.
func (j *Journal) rewriteAgain() {
	r, w := &j.rewriter, &j.writer
	switch r.stage {
	case rewriteOld:
		last := j.lastCounting()
		h := format.JournalHeader{File: last.number, ClusterID: j.clusterID, First: last.first, PrevHash: last.prevHash}
		h.Put(w.headerBuf)
		for _, q := range [...]disk.Request{
			{Kind: disk.KindOpen, Flags: disk.FlagDirect, Path: last.path()},
			{Kind: disk.KindWrite, Buf: w.headerBuf},
			{Kind: disk.KindSync},
			{Kind: disk.KindClose},
		} {
			q.Lane, q.Handle = disk.LaneJournal, j.writeHandle(last.number)
			r.flight.Submit(&j.queue, q)
		}
	case rewriteWrite:
		r.flight.Submit(&j.queue, disk.Request{Kind: disk.KindWrite, Lane: disk.LaneJournal, Handle: w.handle, Offset: r.offset, Buf: r.buf[:blocks(int64(r.n))]})
	case rewriteSync:
		// What the older files had marked stays marked before the header takes it
		// away from them: a rotten copy of it is damage, at any time.
		if r.mark >= r.from {
			j.submitMark(r.mark)
		}
		r.flight.Submit(&j.queue, disk.Request{Kind: disk.KindSync, Lane: disk.LaneJournal, Handle: w.handle})
	case rewriteHeader:
		h := format.JournalHeader{File: w.file.number, ClusterID: j.clusterID, First: w.file.first, PrevHash: w.file.prevHash}
		h.Put(w.headerBuf)
		r.flight.Submit(&j.queue, disk.Request{Kind: disk.KindWrite, Lane: disk.LaneJournal, Handle: w.handle, Buf: w.headerBuf})
		r.flight.Submit(&j.queue, disk.Request{Kind: disk.KindSync, Lane: disk.LaneJournal, Handle: w.handle})
	case rewriteMark:
		// Without the header it would name what the older files may not have.
		j.submitMark(j.last)
		r.flight.Submit(&j.queue, disk.Request{Kind: disk.KindSync, Lane: disk.LaneJournal, Handle: w.handle})
	}
}

// submitMark queues a write that is a mark alone.
func (j *Journal) submitMark(number op.Number) {
	r, w := &j.rewriter, &j.writer
	prefix := format.JournalWrite{File: w.file.number, Mark: number, Bytes: op.WritePrefix}
	prefix.Put(w.markBuf, w.seed)
	r.flight.Submit(&j.queue, disk.Request{Kind: disk.KindWrite, Lane: disk.LaneJournal, Handle: w.handle, Offset: r.offset, Buf: w.markBuf})
}

// rewriteDone: the new file counts, and what it holds no longer does elsewhere.
func (j *Journal) rewriteDone() {
	r, w := &j.rewriter, &j.writer
	w.file.headed = true
	w.offset = r.offset
	j.setLimitsFor(w.file.first)
	j.index.cut(w.file.first)
	j.index.refs = append(j.index.refs, r.starts...)
	j.reclaim()
	j.rewriteRemove()
}

// rewriteRemove lets go of what is not kept for reuse.
func (j *Journal) rewriteRemove() {
	r := &j.rewriter
	if r.stage = rewriteRemove; !j.removeReleased(&r.flight) {
		j.rewritten()
	}
}

// rewritten ends the stage: all that is kept is synced.
func (j *Journal) rewritten() {
	r := &j.rewriter
	r.buf, r.starts = nil, nil
	j.flushed, j.marked = j.last, j.last
	j.phase = phaseRewritten
	j.emit(Event{Kind: EventRewritten})
}

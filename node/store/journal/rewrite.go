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
	rewriteSync                       // all of them are synced
	rewriteHeader                     // the header is written and synced: now the file counts
	rewriteMark                       // a mark of all that was copied
)

// rewriteBytes is how much is written at once, in bytes.
const rewriteBytes = 1 << 20

// rewriter begins a new journal file after every start and brings what lies
// behind the last mark over into it: after a sync that failed in the last life
// the page cache may show bytes that the disk does not have. It copies, syncs,
// and only then writes the header, which takes the copied entries away from the
// file that had them; cut off before that, it leaves a file that does not count.
type rewriter struct {
	flight  flight.Flight
	stage   rewriteStage
	stalled bool
	retryAt clock.Instant

	mark    op.Number
	buf     []byte // a write, of n bytes so far
	n       int
	entries uint32
	first   op.Number
	ended   bool
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
	if last == nil || last.first <= j.last {
		j.rewriteBegin()
		return
	}
	// The last file that counts cut something off and has no entries that would
	// be copied. Its header may never have been synced: it is written again.
	handle := j.writeHandle(last.number)
	h := format.JournalHeader{File: last.number, ClusterID: j.clusterID, First: last.first, PrevHash: last.prevHash}
	h.Put(j.writer.headerBuf)
	r.stage = rewriteOld
	for _, q := range [...]disk.Request{
		{Kind: disk.KindOpen, Flags: disk.FlagDirect, Path: last.path()},
		{Kind: disk.KindWrite, Buf: j.writer.headerBuf},
		{Kind: disk.KindSync},
		{Kind: disk.KindClose},
	} {
		q.Lane, q.Handle = disk.LaneJournal, handle
		r.flight.Submit(&j.queue, q)
	}
}

// lastCounting gives the newest file that counts.
func (j *Journal) lastCounting() *file {
	for i := len(j.files) - 1; i >= 0; i-- {
		if j.files[i].counts() {
			return &j.files[i]
		}
	}
	return nil
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
		p.number, p.size = j.nextNumber(), j.options.FileBytes
		j.prepareAgain()
		return
	}
	// The lowest of the headless files at the top becomes the new one.
	reuse := j.files[top]
	for i := len(j.files) - 1; i > top; i-- {
		r.flight.Submit(&j.queue, disk.Request{Kind: disk.KindRemove, Lane: disk.LaneBackground, Path: j.files[i].path()})
		r.flight.Submit(&j.queue, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneBackground, Path: "journal"})
	}
	j.files = j.files[:top]
	p.number, p.size = reuse.number, j.options.FileBytes
	if reuse.used || reuse.size != p.size {
		// It holds something of this lap, or is not whole: zeros again.
		free := j.free
		j.free = nil
		j.prepareAgain()
		j.free = free
		return
	}
	// A killed process may have left it whole in the page cache alone: name and
	// size are made durable before it becomes the current file.
	p.state = prepareRename
	p.flight.Submit(&j.queue, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneBackground, Path: "journal"})
	p.flight.Submit(&j.queue, disk.Request{Kind: disk.KindOpen, Lane: disk.LaneBackground, Flags: disk.FlagDirect, Handle: j.writeHandle(p.number), Path: reuse.path()})
	p.flight.Submit(&j.queue, disk.Request{Kind: disk.KindSync, Lane: disk.LaneBackground, Handle: j.writeHandle(p.number)})
}

// rewriteReady goes on when the new file is open.
func (j *Journal) rewriteReady() {
	r := &j.rewriter
	j.setCurrent(j.preparer.number, j.preparer.size)
	j.preparer.state = prepareNone
	r.offset = j.writer.offset
	if r.mark == j.last {
		j.rewritten()
		return
	}
	ref, ok := j.index.find(r.mark + 1)
	if !ok {
		panic("journal: an entry behind the last mark is in no write")
	}
	r.buf = disk.AlignedBuffer(rewriteBytes)
	r.n = op.WritePrefix
	r.stage = rewriteCopy
	j.checker.cursor.open(ref.file)
}

// rewriteLanded takes in the outcome of requests on the new file.
func (j *Journal) rewriteLanded(now clock.Instant) {
	r := &j.rewriter
	switch {
	case j.phase == phaseFailed || r.stage == rewriteFile && r.flight.Err == disk.OK:
		return // files above the new one are gone
	case r.flight.Err == disk.ErrNoSpace && r.flight.ErrKind == disk.KindWrite:
		if r.stage == rewriteOld {
			j.fail(r.flight.Err, "journal")
			return
		}
		r.stalled, r.retryAt = true, now.Add(j.options.RetryEvery)
		j.emit(Event{Kind: EventStalled, Err: disk.ErrNoSpace, Path: j.writer.file.path()})
		return
	case r.flight.Err != disk.OK:
		j.fail(r.flight.Err, j.writer.file.path())
		return
	}
	switch r.stage {
	case rewriteOld:
		j.rewriteBegin()
	case rewriteWrite:
		r.starts = append(r.starts, ref{first: r.first, at: r.offset, file: j.writer.file.number})
		r.offset += blocks(int64(r.n))
		r.n, r.entries = op.WritePrefix, 0
		if r.ended {
			r.stage = rewriteSync
			j.rewriteAgain()
			return
		}
		r.stage = rewriteCopy
		j.rewriteCopy()
	case rewriteSync:
		r.stage = rewriteHeader
		j.rewriteAgain()
	case rewriteHeader:
		r.stage = rewriteMark
		j.rewriteAgain()
	case rewriteMark:
		j.rewriteDone()
	}
}

// rewriteStep takes in what the cursor read.
func (j *Journal) rewriteStep() {
	j.checker.cursor.landed()
	j.rewriteCopy()
}

// rewriteCopy collects entries until a write is full.
func (j *Journal) rewriteCopy() {
	r, c := &j.rewriter, &j.checker.cursor
	for r.stage == rewriteCopy && j.phase == phaseRewriting {
		if r.ended {
			j.rewriteFlush()
			return
		}
		switch c.step() {
		case foundWait:
			return
		case foundOpened:
			ref, _ := j.index.find(r.mark + 1)
			c.seekTo(ref)
		case foundMark:
		case foundEntry:
			j.rewriteEntry()
		case foundFailed:
			j.unreadable(format.JournalName(c.number), c.pos, c.tip+1, c.errno)
		default:
			// It was intact when it was checked.
			j.damaged(format.JournalName(c.number), c.pos, c.tip+1, "cannot be read again")
		}
	}
}

// rewriteEntry copies the cursor's entry into the write, if it is behind the
// mark.
func (j *Journal) rewriteEntry() {
	r, c := &j.rewriter, &j.checker.cursor
	h := &c.entry.Header
	if h.Number <= r.mark {
		return
	}
	if r.entries == 0 {
		r.first = h.Number
	}
	if h.Number == r.mark+1 {
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
	if r.ended = h.Number == j.last; r.n >= rewriteBytes && !r.ended {
		j.rewriteFlush()
	}
}

// rewriteFlush writes what was collected.
func (j *Journal) rewriteFlush() {
	r := &j.rewriter
	clear(r.buf[r.n:blocks(int64(r.n))])
	prefix := format.JournalWrite{File: j.writer.file.number, Mark: r.mark, First: r.first, Bytes: uint32(r.n), Entries: r.entries}
	prefix.Put(r.buf, j.writer.seed)
	r.stage = rewriteWrite
	j.rewriteAgain()
}

// rewriteAgain submits the request of the present stage.
func (j *Journal) rewriteAgain() {
	r, w := &j.rewriter, &j.writer
	switch r.stage {
	case rewriteWrite:
		r.flight.Submit(&j.queue, disk.Request{Kind: disk.KindWrite, Lane: disk.LaneJournal, Handle: w.handle, Offset: r.offset, Buf: r.buf[:blocks(int64(r.n))]})
	case rewriteSync:
		r.flight.Submit(&j.queue, disk.Request{Kind: disk.KindSync, Lane: disk.LaneJournal, Handle: w.handle})
	case rewriteHeader:
		h := format.JournalHeader{File: w.file.number, ClusterID: j.clusterID, First: w.file.first, PrevHash: w.file.prevHash}
		h.Put(w.headerBuf)
		r.flight.Submit(&j.queue, disk.Request{Kind: disk.KindWrite, Lane: disk.LaneJournal, Handle: w.handle, Buf: w.headerBuf})
		r.flight.Submit(&j.queue, disk.Request{Kind: disk.KindSync, Lane: disk.LaneJournal, Handle: w.handle})
	case rewriteMark:
		// With the mark the next start has nothing to copy: starts that follow each
		// other closely do not use up a file each. Without the header it would name
		// what the older files may not have.
		prefix := format.JournalWrite{File: w.file.number, Mark: j.last, Bytes: op.WritePrefix}
		prefix.Put(w.markBuf, w.seed)
		r.flight.Submit(&j.queue, disk.Request{Kind: disk.KindWrite, Lane: disk.LaneJournal, Handle: w.handle, Offset: r.offset, Buf: w.markBuf})
		r.flight.Submit(&j.queue, disk.Request{Kind: disk.KindSync, Lane: disk.LaneJournal, Handle: w.handle})
	}
}

// rewriteDone: the new file counts, and what it holds no longer does elsewhere.
func (j *Journal) rewriteDone() {
	r, w := &j.rewriter, &j.writer
	w.file.headed = true
	w.offset = r.offset + format.JournalBlock
	j.setLimitsFor(w.file.first)
	j.index.cut(w.file.first)
	j.index.refs = append(j.index.refs, r.starts...)
	j.checker.cursor.close()
	j.rewritten()
}

// rewritten ends the stage: all that is kept is synced.
func (j *Journal) rewritten() {
	r := &j.rewriter
	r.buf, r.starts = nil, nil
	j.flushed, j.marked = j.last, j.last
	j.phase = phaseRewritten
	j.emit(Event{Kind: EventRewritten})
}

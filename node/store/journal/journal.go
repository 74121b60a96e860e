package journal

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store/flight"
)

// Options are a journal's properties; all must be set.
type Options struct {
	FileBytes      int64          // size of a file
	FreeFiles      int            // retired files kept for reuse
	IdleMarkAfter  clock.Duration // from the last flush to the mark-only write
	RetryEvery     clock.Duration // how soon what a full disk refused is repeated
	ReadChunkBytes int
	Owner          uint8       // of all tags
	Handles        disk.Handle // the first of HandleCount handles that are the journal's own
}

// HandleCount is how many handles a journal uses.
const HandleCount = 4 + writeHandles

// Handles below Options.Handles+4 are for reading; a file that is written to has
// the handle of its number.
const (
	handleCheck = iota
	handleRead
	writeHandles = 1 << 10
)

// EventKind says what happened.
type EventKind uint8

// The kinds of event.
const (
	EventNone      EventKind = iota
	EventChecked             // Number, Hash, Header of the last entry; Number 0 and no header when empty
	EventTornTail            // Path, Offset, Number, What
	EventDamage              // Path, Offset, Number, What
	EventRefused             // Path, Version
	EventRewritten           // what is kept is synced
	EventEntry               // Entry, borrowed until Next
	EventStreamed            // no more entries; the journal runs
	EventFlushed             // Number
	EventTruncated           // Number
	EventStalled             // the disk is full; repeated by itself
	EventFailed              // Err, Path
	EventRead                // Number, Data, or Err
	EventRetired             // Retire is done
)

// Event is something that happened. Bytes in it are borrowed until the next
// call of Next.
type Event struct {
	Kind    EventKind
	Err     disk.Errno
	Version uint8
	Number  op.Number
	Hash    op.Hash
	Header  op.Header
	Entry   op.Entry
	Data    []byte
	Path    string
	Offset  int64
	What    string
}

// phase is what the journal is at.
type phase uint8

const (
	phaseNew phase = iota
	phaseChecking
	phaseChecked
	phaseRewriting
	phaseRewritten
	phaseStreaming
	phaseRunning
	phaseFailed // also after damage: nothing more happens
)

// Slots of the procedures in tags.
const (
	slotWrite = iota + 1
	slotPrepare
	slotList
	slotCheck
	slotRewrite
	slotRead
	slotRetire
)

// file is a journal file from the first needed one on.
type file struct {
	number   uint64
	size     int64
	headed   bool // its header is valid (and, for the current one, queued)
	first    op.Number
	prevHash op.Hash
	limit    op.Number // entries from here on do not count; 0 for no limit
	used     bool      // headless, but valid writes were found in it
	held     int64     // bytes of the writes that recovery found to count
}

func (f *file) path() string { return format.JournalName(f.number) }

// counts says whether f holds anything that counts.
func (f *file) counts() bool { return f.headed && (f.limit == 0 || f.first < f.limit) }

// Journal is the log's files. See the package comment.
type Journal struct {
	options   Options
	clusterID [16]byte
	phase     phase
	queue     flight.Queue
	events    []Event
	eventAt   int

	files []file   // in order of number; the current one and those prepared are not in it
	free  []uint64 // retired, of full size, in order

	last     op.Number // appended, maybe not synced
	lastHash op.Hash
	header   op.Header // of the last entry that recovery found
	flushed  op.Number
	marked   op.Number // the highest entry that a synced mark names
	begun    uint64    // see Begun

	index    index
	writer   writer
	preparer preparer
	checker  checker
	rewriter rewriter
	reader   reader
	retirer  retirer

	appended uint64 // bytes written in this life
	flushes  uint64 // writes synced in this life
}

// New gives a journal that has not been opened.
func New(o Options) *Journal {
	j := &Journal{options: o}
	j.writer.flight = flight.Flight{Owner: o.Owner, Slot: slotWrite}
	j.preparer.flight = flight.Flight{Owner: o.Owner, Slot: slotPrepare}
	j.checker.flight = flight.Flight{Owner: o.Owner, Slot: slotList}
	j.rewriter.flight = flight.Flight{Owner: o.Owner, Slot: slotRewrite}
	j.retirer.flight = flight.Flight{Owner: o.Owner, Slot: slotRetire}
	j.checker.cursor = newCursor(j, slotCheck, o.Handles+handleCheck)
	j.reader.cursor = newCursor(j, slotRead, o.Handles+handleRead)
	j.writer.headerBuf = disk.AlignedBuffer(format.JournalBlock)
	j.writer.markBuf = disk.AlignedBuffer(format.JournalBlock)
	return j
}

// Take appends the requests queued since the last call to out.
func (j *Journal) Take(out []disk.Request) []disk.Request { return j.queue.Take(out) }

// Complete takes the outcome of a request of this journal.
func (j *Journal) Complete(now clock.Instant, c *disk.Completion) {
	if c.Tag.Owner != j.options.Owner {
		return
	}
	switch c.Tag.Slot {
	case slotWrite:
		if j.writer.flight.Land(c) {
			j.written(now)
		}
	case slotPrepare:
		if j.preparer.flight.Land(c) {
			j.prepared(now)
		}
	case slotList:
		if j.checker.flight.Land(c) {
			j.checkListed()
		}
	case slotCheck:
		if j.checker.cursor.Land(c) {
			j.cursorLanded()
		}
	case slotRewrite:
		if j.rewriter.flight.Land(c) {
			j.rewriteLanded(now)
		}
	case slotRead:
		if j.reader.cursor.Land(c) {
			j.readLanded()
		}
	case slotRetire:
		if j.retirer.flight.Land(c) {
			j.retireLanded()
		}
	}
}

// cursorLanded goes on with whichever procedure of recovery reads.
func (j *Journal) cursorLanded() {
	if j.phase == phaseChecking {
		j.checkStep()
	} else {
		j.checker.cursor.landed() // it was closed
	}
}

// Next overwrites ev with the next event and says whether there was one.
func (j *Journal) Next(ev *Event) bool {
	if j.eventAt < len(j.events) {
		*ev = j.events[j.eventAt]
		j.events[j.eventAt] = Event{}
		if j.eventAt++; j.eventAt == len(j.events) {
			j.events, j.eventAt = j.events[:0], 0
		}
		return true
	}
	return j.phase == phaseStreaming && j.streamNext(ev)
}

func (j *Journal) emit(e Event) { j.events = append(j.events, e) }

// fail ends the journal's life for good.
func (j *Journal) fail(err disk.Errno, path string) {
	if j.phase == phaseFailed {
		return
	}
	j.phase = phaseFailed
	j.emit(Event{Kind: EventFailed, Err: err, Path: path})
}

// damaged ends recovery.
func (j *Journal) damaged(path string, offset int64, number op.Number, what string) {
	if j.phase == phaseFailed {
		return
	}
	j.phase = phaseFailed
	j.emit(Event{Kind: EventDamage, Path: path, Offset: offset, Number: number, What: what})
}

// NextDeadline is when Tick wants to be called.
func (j *Journal) NextDeadline() clock.Instant {
	d := clock.Never
	if j.phase == phaseFailed {
		return d
	}
	if j.writer.state == writeStalled {
		d = j.writer.retryAt
	}
	if j.preparer.state == prepareStalled {
		d = min(d, j.preparer.retryAt)
	}
	if j.rewriter.stalled {
		d = min(d, j.rewriter.retryAt)
	}
	if j.CanAppend() && j.flushed > j.marked {
		d = min(d, j.writer.idleSince.Add(j.options.IdleMarkAfter))
	}
	return d
}

// Tick does what is due by now.
func (j *Journal) Tick(now clock.Instant) {
	if j.phase == phaseFailed {
		return
	}
	if j.writer.state == writeStalled && now >= j.writer.retryAt {
		j.submitWrite()
	}
	if j.preparer.state == prepareStalled && now >= j.preparer.retryAt {
		j.prepareAgain()
	}
	if j.rewriter.stalled && now >= j.rewriter.retryAt {
		j.rewriter.stalled = false
		j.rewriteAgain()
	}
	if j.CanAppend() && j.flushed > j.marked && now >= j.writer.idleSince.Add(j.options.IdleMarkAfter) {
		j.appendMark()
	}
}

// Last gives the last entry's number and hash.
func (j *Journal) Last() (op.Number, op.Hash) { return j.last, j.lastHash }

// Flushed gives the last entry known to be synced.
func (j *Journal) Flushed() op.Number { return j.flushed }

// Marked gives the last entry that a synced mark names.
func (j *Journal) Marked() op.Number { return j.marked }

// Appended gives how many bytes were written in this life.
func (j *Journal) Appended() uint64 { return j.appended }

// Flushes gives how many writes were synced in this life.
func (j *Journal) Flushes() uint64 { return j.flushes }

// Files gives how many files are kept, the current one among them.
func (j *Journal) Files() int { return len(j.files) + 1 }

// Stalled says whether a write waits for space.
func (j *Journal) Stalled() bool {
	return j.writer.state == writeStalled || j.writer.state == writeWaiting && j.preparer.state == prepareStalled
}

// Bytes gives the size of what is kept: all files from the first needed one on.
func (j *Journal) Bytes() int64 {
	n := j.writer.offset
	for i := range j.files {
		n += j.files[i].size
	}
	return n
}

// First gives the number of the file that holds the entry number, or would: the
// first one that a checkpoint at number-1 needs.
func (j *Journal) First(number op.Number) uint64 {
	needed := j.writer.file.number
	if j.writer.file.headed && j.writer.file.first <= number || len(j.files) == 0 {
		return needed
	}
	for i := len(j.files) - 1; i >= 0; i-- {
		f := &j.files[i]
		needed = f.number
		if f.counts() && f.first <= number {
			break
		}
	}
	return needed
}

// Begun gives the number of the newest file whose header is known to be synced: if
// it is found without one, it is damaged.
func (j *Journal) Begun() uint64 { return j.begun }

package journal

import (
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

// reader hands out entries from anywhere in the journal, over files: those that
// a start copies, those above the checkpoint in recovery, those that a follower
// lacks later.
type reader struct {
	cursor cursor
	next   op.Number // the entry that is wanted
	end    op.Number // the last one to hand out
	busy   bool

	// Of Read.
	max   int
	first op.Number
	out   []byte
}

// begin looks for the entries from number on, as far as they are flushed.
func (j *Journal) beginReading(number op.Number) {
	r := &j.reader
	r.next, r.end, r.busy = number, j.flushed, true
	r.cursor.Forget()
}

// readNext steps to the next entry that counts: foundEntry, foundWait, foundEnd
// when there is none, or foundBad.
func (j *Journal) readNext() found {
	r, c := &j.reader, &j.reader.cursor
	for {
		f := c.step()
		if f == foundWait || f == foundFailed {
			return f
		}
		if f == foundEnd && c.mode == modeClosed {
			ref, ok := j.index.find(r.next)
			switch {
			case r.next > r.end:
				r.busy = false
				return foundEnd
			case !ok:
				c.why = "the entry is no longer kept"
				return foundBad
			}
			c.open(ref.file)
			continue
		}
		ref, ok := j.index.find(r.next)
		switch {
		case r.next > r.end, !ok, ref.file != c.number:
			c.close() // then on in another file, if at all
		case f == foundOpened:
			c.seekTo(ref)
		case f == foundEntry && c.entry.Header.Number == r.next:
			r.next++
			return foundEntry
		case f == foundBad, f == foundEnd:
			return foundBad
		}
	}
}

// Stream goes on after Rewritten: the entries from number on come as events,
// one per call of Next, then Streamed, and the journal runs. When Next gives
// nothing, a read is under way.
func (j *Journal) Stream(number op.Number) {
	if j.phase != phaseRewritten {
		panic("journal: Stream of a journal that was not rewritten")
	}
	j.phase = phaseStreaming
	j.beginReading(number)
}

// streamNext gives the next entry as an event.
func (j *Journal) streamNext(ev *Event) bool {
	c := &j.reader.cursor
	switch j.readNext() {
	case foundEntry:
		*ev = Event{Kind: EventEntry, Entry: c.entry}
		return true
	case foundWait:
		return false
	case foundEnd:
		j.phase = phaseRunning
		j.checker = checker{}
		j.emit(Event{Kind: EventStreamed})
		j.prepareNext()
	case foundFailed:
		j.unreadable(format.JournalName(c.number), c.pos, j.reader.next, c.errno)
	default:
		// It was intact when it was checked.
		j.damaged(format.JournalName(c.number), c.pos, j.reader.next, "cannot be read again")
	}
	return j.Next(ev)
}

// Read reads flushed entries from number on, about max bytes but at least one:
// EventRead, whose Data is header and body of each, one behind the other. One
// Read at a time.
func (j *Journal) Read(number op.Number, max int) {
	r := &j.reader
	if j.phase != phaseRunning || r.busy {
		panic("journal: Read before the journal runs, or while another is under way")
	}
	j.beginReading(number)
	r.max, r.first, r.out = max, number, r.out[:0]
	j.readOn()
}

// Reading says whether a Read is under way.
func (j *Journal) Reading() bool { return j.reader.busy }

// readLanded takes in what the cursor read.
func (j *Journal) readLanded() {
	j.reader.cursor.landed()
	switch {
	case j.phase == phaseRewriting:
		j.rewriteCopy()
	case j.phase == phaseRunning && j.reader.busy:
		j.readOn()
	}
}

func (j *Journal) readOn() {
	r, c := &j.reader, &j.reader.cursor
	for {
		switch j.readNext() {
		case foundWait:
			return
		case foundEntry:
			r.out = append(append(r.out, c.entry.Raw...), c.entry.Body...)
			if len(r.out) >= r.max {
				r.end = r.next - 1
			}
		case foundEnd:
			j.emit(Event{Kind: EventRead, Number: r.first, Data: r.out})
			return
		default:
			r.busy = false
			err := disk.ErrIO
			if _, kept := j.index.find(r.next); !kept {
				err = disk.ErrNotExist
			}
			if c.Forget(); c.mode != modeClosed && c.mode != modeClosing {
				c.close()
			}
			j.emit(Event{Kind: EventRead, Number: r.first, Err: err, What: c.why})
			return
		}
	}
}

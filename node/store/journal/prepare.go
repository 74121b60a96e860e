package journal

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/store/flight"
)

// prepareState is what the preparer is at.
type prepareState uint8

const (
	prepareNone    prepareState = iota
	prepareRename               // a retired file gets the next number
	prepareFill                 // a new file is filled with zeros
	prepareStalled              // the disk is full: repeated at retryAt
)

// preparer keeps the files ready that the writer goes on to: retired ones under
// a new number, whose checksums make what they held void, or new ones of zeros.
type preparer struct {
	flight  flight.Flight
	state   prepareState
	number  uint64
	from    uint64 // the retired file that is renamed, 0 for none
	opened  bool
	retryAt clock.Instant

	ready []uint64 // files that wait, open, under their synced names, in order
	found []uint64 // files that an earlier life has prepared, to be taken over, in order
}

func (j *Journal) writeHandle(number uint64) disk.Handle {
	return j.options.Handles + 4 + disk.Handle(number%writeHandles)
}

// nextNumber gives the number after the highest file.
func (j *Journal) nextNumber() uint64 {
	n := j.writer.file.number
	for i := range j.files {
		n = max(n, j.files[i].number)
	}
	for _, number := range j.preparer.ready {
		n = max(n, number)
	}
	return n + 1
}

// Prepared gives how many files are ready to be gone on to.
func (j *Journal) Prepared() int { return len(j.preparer.ready) }

// prepareNext begins to prepare the next file, if one is wanted: one is kept
// ready, and a second as soon as an eighth of the current file is written.
func (j *Journal) prepareNext() {
	p, w := &j.preparer, &j.writer
	if p.state != prepareNone || p.flight.Busy() || j.phase != phaseRunning {
		return
	}
	wanted := 1
	if w.offset+int64(len(w.buf)) > j.options.FileBytes/8 {
		wanted = 2
	}
	switch {
	case len(p.ready) >= wanted:
	case len(p.found) > 0:
		number := p.found[0]
		p.found = p.found[:copy(p.found, p.found[1:])]
		j.prepareFound(number)
	default:
		p.number = j.nextNumber()
		j.prepareAgain()
	}
}

// prepareFound takes over a file that an earlier life has prepared. A killed
// process may have left it whole in the page cache alone: name and size are made
// durable before it becomes the current file.
func (j *Journal) prepareFound(number uint64) {
	p := &j.preparer
	p.number, p.state = number, prepareRename
	path, handle := format.JournalName(number), j.writeHandle(number)
	p.flight.Submit(&j.queue, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneBackground, Path: "journal"})
	p.flight.Submit(&j.queue, disk.Request{Kind: disk.KindOpen, Lane: disk.LaneBackground, Flags: disk.FlagDirect, Handle: handle, Path: path})
	p.flight.Submit(&j.queue, disk.Request{Kind: disk.KindSync, Lane: disk.LaneBackground, Handle: handle})
}

// prepareAgain begins with the file p.number, or begins again.
func (j *Journal) prepareAgain() {
	p := &j.preparer
	path, handle := format.JournalName(p.number), j.writeHandle(p.number)
	if len(j.free) > 0 && p.from == 0 {
		if p.state == prepareStalled && p.opened {
			// A new file found no room. A retired one takes its place.
			p.flight.Submit(&j.queue, disk.Request{Kind: disk.KindClose, Lane: disk.LaneBackground, Handle: handle})
			p.flight.Submit(&j.queue, disk.Request{Kind: disk.KindRemove, Lane: disk.LaneBackground, Path: path})
		}
		p.from = j.free[0]
		j.free = j.free[:copy(j.free, j.free[1:])]
	}
	if p.from > 0 {
		p.state = prepareRename
		p.flight.Submit(&j.queue, disk.Request{Kind: disk.KindRename, Lane: disk.LaneBackground, Path: format.JournalName(p.from), Path2: path})
		p.flight.Submit(&j.queue, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneBackground, Path: "journal"})
		p.flight.Submit(&j.queue, disk.Request{Kind: disk.KindOpen, Lane: disk.LaneBackground, Flags: disk.FlagDirect, Handle: handle, Path: path})
		return
	}
	if p.state != prepareStalled || !p.opened {
		p.flight.Submit(&j.queue, disk.Request{Kind: disk.KindOpen, Lane: disk.LaneBackground, Flags: disk.FlagCreate | disk.FlagDirect, Handle: handle, Path: path})
	}
	p.state = prepareFill
	p.flight.Submit(&j.queue, disk.Request{Kind: disk.KindZero, Lane: disk.LaneBackground, Handle: handle, Length: j.options.FileBytes})
	p.flight.Submit(&j.queue, disk.Request{Kind: disk.KindSync, Lane: disk.LaneBackground, Handle: handle})
	p.flight.Submit(&j.queue, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneBackground, Path: "journal"})
}

// prepared takes in the outcome.
func (j *Journal) prepared(now clock.Instant) {
	p := &j.preparer
	switch {
	case j.phase == phaseFailed:
		return
	case p.flight.Err == disk.ErrNoSpace && p.flight.ErrKind != disk.KindSync && p.flight.ErrKind != disk.KindSyncDir:
		p.state, p.retryAt = prepareStalled, now.Add(j.options.RetryEvery)
		p.opened = p.flight.ErrKind != disk.KindOpen
		if j.writer.state == writeWaiting || j.phase != phaseRunning {
			j.emit(Event{Kind: EventStalled, Err: disk.ErrNoSpace, Path: format.JournalName(p.number)})
		}
		return
	case p.flight.Err != disk.OK:
		j.fail(p.flight.Err, format.JournalName(p.number))
		return
	}
	p.state, p.from, p.opened = prepareNone, 0, false
	p.ready = append(p.ready, p.number)
	if j.phase == phaseRewriting {
		j.rewriteReady()
		return
	}
	if j.writer.state == writeWaiting {
		j.place()
	}
	j.prepareNext()
}

// takePrepared makes the first file that waits the current one.
func (j *Journal) takePrepared() {
	p := &j.preparer
	j.setCurrent(p.ready[0], j.options.FileBytes)
	p.ready = p.ready[:copy(p.ready, p.ready[1:])]
}

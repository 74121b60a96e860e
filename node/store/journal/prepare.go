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
	prepareReady                // the file waits, open, under its synced name
)

// preparer keeps the file ready that the writer goes on to: a retired one under
// a new number, whose checksums make what it held void, or a new one of zeros.
type preparer struct {
	flight  flight.Flight
	state   prepareState
	number  uint64
	from    uint64 // the retired file that is renamed, 0 for none
	size    int64
	opened  bool
	retryAt clock.Instant
}

func (j *Journal) writeHandle(number uint64) disk.Handle {
	return j.options.Handles + 4 + disk.Handle(number%writeHandles)
}

// nextNumber gives the number after the highest file.
func (j *Journal) nextNumber() uint64 {
	n := j.writer.file.number
	if len(j.files) > 0 {
		n = max(n, j.files[len(j.files)-1].number)
	}
	return n + 1
}

// Prepared says whether a file is ready to be gone on to.
func (j *Journal) Prepared() bool { return j.preparer.state == prepareReady }

// prepareNext begins to prepare the file after the current one, if none is.
func (j *Journal) prepareNext() {
	p := &j.preparer
	if p.state != prepareNone || p.flight.Busy() || j.phase == phaseFailed {
		return
	}
	p.number, p.size = j.nextNumber(), j.options.FileBytes
	j.prepareAgain()
}

// prepareAgain begins with the file p.number, or begins again.
func (j *Journal) prepareAgain() {
	p := &j.preparer
	path, handle := format.JournalName(p.number), j.writeHandle(p.number)
	if len(j.free) > 0 && p.state == prepareNone {
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
	p.flight.Submit(&j.queue, disk.Request{Kind: disk.KindZero, Lane: disk.LaneBackground, Handle: handle, Length: p.size})
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
	p.state, p.from = prepareReady, 0
	switch {
	case j.phase == phaseRewriting:
		j.rewriteReady()
	case j.writer.state == writeWaiting:
		j.place()
	}
}

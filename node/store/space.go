package store

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/store/flight"
)

// space watches the free space of the file system. Records that were appended and
// are not on the disk yet have it promised: a PUB is not taken for space that
// another one was.
type space struct {
	flight      flight.Flight
	at          clock.Instant // of the next question
	free, total int64         // the last answer
	known, low  bool
	said        int64 // free space in the last event

	// Bytes of records that the last answer may not count as taken: what waited to
	// be written when it was asked for, and what was appended since. next is the
	// same of the question under way.
	promised, next int64
}

// Reserve gives the free space in bytes below which a disk of total bytes counts
// as low: the smaller of ReservePercent and ReserveBytes.
func (o *Options) reserve(total int64) int64 {
	percent, bytes := total/100*int64(o.ReservePercent), o.ReserveBytes
	switch {
	case o.ReservePercent < 0 && o.ReserveBytes < 0:
		return 0
	case o.ReservePercent < 0:
		return bytes
	case o.ReserveBytes < 0:
		return percent
	}
	return min(percent, bytes)
}

// spaceTick asks when it is time.
func (s *Store) spaceTick(now clock.Instant) {
	if p := &s.space; now >= p.at && !p.flight.Busy() {
		p.at = clock.Never
		p.next = s.segments.DirtyBytes()
		p.flight.Submit(&s.queue, disk.Request{Kind: disk.KindSpace, Lane: disk.LaneRead})
	}
}

// spaceLanded takes in an answer.
func (s *Store) spaceLanded(now clock.Instant) {
	p := &s.space
	p.at = now.Add(s.options.SpaceEvery)
	if p.flight.Err != disk.OK {
		return // asked again
	}
	first := !p.known
	p.known, p.free, p.total, p.promised = true, p.flight.N, p.flight.Total, p.next
	s.spaceJudge(first)
}

// spacePromise notes that so many bytes of records were appended.
func (s *Store) spacePromise(bytes int64) {
	p := &s.space
	p.promised, p.next = p.promised+bytes, p.next+bytes
	if p.known && !p.low {
		s.spaceJudge(false)
	}
}

// spaceJudge reports a change worth it: low or not, or a thousandth of the disk.
func (s *Store) spaceJudge(first bool) {
	p := &s.space
	free := max(0, p.free-p.promised)
	low := p.free-p.promised < s.options.reserve(p.total)
	moved := max(free-p.said, p.said-free)
	if !first && low == p.low && moved*1000 < p.total {
		return
	}
	p.low, p.said = low, free
	s.emit(Event{Kind: EventSpaceChanged, Free: free, Total: p.total, Low: low})
}

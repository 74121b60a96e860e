package store

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/store/flight"
)

// space watches the free space of the file system.
type space struct {
	flight      flight.Flight
	at          clock.Instant // of the next question
	free, total int64
	known, low  bool
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
		p.flight.Submit(&s.queue, disk.Request{Kind: disk.KindSpace, Lane: disk.LaneRead})
	}
}

// spaceLanded reports a change worth it: low or not, or a thousandth of the disk.
func (s *Store) spaceLanded(now clock.Instant) {
	p := &s.space
	p.at = now.Add(s.options.SpaceEvery)
	if p.flight.Err != disk.OK {
		return // asked again
	}
	free, total := p.flight.N, p.flight.Total
	low := free < s.options.reserve(total)
	moved := max(free-p.free, p.free-free)
	if p.known && low == p.low && moved*1000 < total {
		return
	}
	p.known, p.low, p.free, p.total = true, low, free, total
	s.emit(Event{Kind: EventSpaceChanged, Free: free, Total: total, Low: low})
}

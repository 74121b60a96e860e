package session

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/fault"
)

// patience is the clock of leases and member timers (broker.md, "Delivery"). It
// stands still while changes are refused, and over a gap of more than a second
// between turns, in which no ACK could have been taken. So every deadline on it
// is extended by exactly the time in which a client could not do its part.
//
// Invariant 1: now never falls and never runs faster than the monotonic clock.
type patience struct {
	now    clock.Instant
	frozen bool // as of the end of the last turn
	last   clock.Instant
	wall   clock.WallMillis
	begun  bool
}

// tickPeriod keeps an undisturbed node's turns closer than gapMax while a
// deadline is running.
const tickPeriod = gapMax / 2

func (p *patience) advance(now clock.Reading) {
	if !p.begun {
		p.begun, p.last, p.now, p.wall = true, now.Mono, now.Mono, now.Wall
		return
	}
	gap := now.Mono.Sub(p.last)
	if fault.On("lease_on_wall_clock") {
		gap = clock.Duration(int64(now.Wall)-int64(p.wall)) * clock.Millisecond
		p.wall = now.Wall
	}
	p.last = now.Mono
	if gap > 0 && gap <= gapMax && !p.frozen || fault.On("lease_on_wall_clock") {
		p.now = p.now.Add(max(gap, 0))
	}
}

// next is when a turn is due for the sake of a deadline on this clock.
func (p *patience) next(deadline clock.Instant) clock.Instant {
	if deadline == clock.Never {
		return clock.Never
	}
	left := clock.Duration(max(0, deadline.Sub(p.now)))
	if p.frozen {
		left = tickPeriod
	}
	return p.last.Add(min(left, tickPeriod))
}

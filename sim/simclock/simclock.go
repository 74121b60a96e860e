// Package simclock is a node's clock in the simulator: it follows the world's time
// at a rate of its own, with a wall clock that is off and can jump.
//
// The life of a clock: New when the node is first made, Advance with the world's
// time before the node is driven, Restart when its process starts again. Faults
// are SetRate and StepWall.
//
// Invariants:
//
//  1. Mono never falls within one process life, whatever the rate does.
//  2. Mono after WorldAt(t) is at least t, and below t one world nanosecond
//     earlier: the scheduler wakes a node exactly when its deadline is reached.
//  3. A rate that changes does not change what was read before.
//
// It does not move by itself.
package simclock

import (
	"math/bits"

	"github.com/mortarmq/mortarmq/clock"
)

// Bounds of the rate, in permille of the world's.
const (
	RateMin    = 1
	RateNormal = 1000
	RateMax    = 1_000_000
)

// Options of a clock. The zero value is a clock that is right.
type Options struct {
	// Wall is the wall clock at world time 0; 0 means DefaultWall.
	Wall clock.WallMillis
	// WallSkewMillis is added to it.
	WallSkewMillis int64
	// RatePermille is how fast it runs; 0 means RateNormal.
	RatePermille int64
}

// DefaultWall is 2026-01-01T00:00:00Z.
const DefaultWall clock.WallMillis = 1767225600000

// Clock implements clock.Clock in virtual time. Its local time is a line that is
// bent wherever the rate changes.
type Clock struct {
	now   clock.Instant // world time of the last Advance
	since clock.Instant // world time of the last bend
	local clock.Instant // local time at since
	rate  int64
	birth clock.Instant // local time at which the process started
	wall  int64         // Unix nanoseconds at local time 0
}

// New gives a clock whose process starts at world time 0.
func New(o Options) *Clock {
	if o.Wall == 0 {
		o.Wall = DefaultWall
	}
	if o.RatePermille == 0 {
		o.RatePermille = RateNormal
	}
	c := &Clock{rate: clamp(o.RatePermille)}
	c.wall = (int64(o.Wall) + o.WallSkewMillis) * int64(clock.Millisecond)
	return c
}

func clamp(rate int64) int64 { return max(RateMin, min(rate, RateMax)) }

// Advance moves the world's time to now. It never goes back.
func (c *Clock) Advance(now clock.Instant) { c.now = max(c.now, now) }

// Read takes a reading at the present world time. A process's first is 1 or more.
func (c *Clock) Read() clock.Reading {
	local := c.localAt(c.now)
	wall := (c.wall + int64(local)) / int64(clock.Millisecond)
	return clock.Reading{Mono: local - c.birth + 1, Wall: clock.WallMillis(max(0, wall))}
}

func (c *Clock) localAt(world clock.Instant) clock.Instant {
	return c.local + clock.Instant(scale(uint64(world-c.since), uint64(c.rate), RateNormal))
}

// scale gives n*mul/div, rounded down.
func scale(n, mul, div uint64) uint64 {
	hi, lo := bits.Mul64(n, mul)
	q, _ := bits.Div64(hi%div, lo, div)
	return q
}

// WorldAt gives the world's time at which Read will first show mono or later: now
// if it does already, Never for Never.
func (c *Clock) WorldAt(mono clock.Instant) clock.Instant {
	if mono == clock.Never {
		return clock.Never
	}
	local := mono - 1 + c.birth
	if local <= c.localAt(c.now) {
		return c.now
	}
	hi, lo := bits.Mul64(uint64(local-c.local), RateNormal)
	lo, carry := bits.Add64(lo, uint64(c.rate)-1, 0) // rounded up
	if hi += carry; hi >= uint64(c.rate) {
		return clock.Never
	}
	q, _ := bits.Div64(hi, lo, uint64(c.rate))
	if q > uint64(clock.Never-c.since) {
		return clock.Never
	}
	return c.since + clock.Instant(q)
}

// SetRate makes the clock run at permille of the world's rate from now on.
func (c *Clock) SetRate(permille int64) {
	c.local = c.localAt(c.now)
	c.since, c.rate = c.now, clamp(permille)
}

// StepWall moves the wall clock by millis, back if that is negative.
func (c *Clock) StepWall(millis int64) { c.wall += millis * int64(clock.Millisecond) }

// Restart begins a new process life: Mono starts again, the wall goes on.
func (c *Clock) Restart() { c.birth = c.localAt(c.now) }

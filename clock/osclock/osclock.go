// Package osclock is the real clock: the operating system's monotonic and wall
// time.
package osclock

import (
	"time"

	"github.com/mortarmq/mortarmq/clock"
)

// Clock reads the operating system's clocks. Its origin is the moment of New.
type Clock struct {
	origin time.Time
}

// New gives a clock whose monotonic origin is now.
func New() *Clock { return &Clock{origin: time.Now()} }

// Read takes one reading of both clocks.
func (c *Clock) Read() clock.Reading {
	now := time.Now()
	return clock.Reading{
		Mono: clock.Instant(now.Sub(c.origin)) + 1,
		Wall: clock.WallMillis(max(0, now.UnixMilli())),
	}
}

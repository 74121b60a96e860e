// Package clock holds the project's notion of time: monotonic instants that
// order what happens inside one process, and wall milliseconds that only ever
// reach a record's timestamp (cluster.md, "log time").
//
// Deterministic code never reads a clock. A driver reads one (osclock in
// production, the simulator's in a run) and hands the reading to the code it
// drives, so that the same readings give the same behaviour.
//
// Invariants:
//
//  1. Mono never falls within one process life.
//  2. Wall may jump in either direction; nothing is decided by it.
package clock

// Instant is a monotonic time in nanoseconds since an origin that is the
// process's own. Instants of two processes are not comparable.
type Instant int64

// Never is later than every instant: the deadline of something that does not
// end by itself.
const Never Instant = 1<<63 - 1

// Duration is a span of monotonic time in nanoseconds.
type Duration int64

// The usual spans.
const (
	Nanosecond  Duration = 1
	Microsecond          = 1000 * Nanosecond
	Millisecond          = 1000 * Microsecond
	Second               = 1000 * Millisecond
	Minute               = 60 * Second
	Hour                 = 60 * Minute
)

// WallMillis is wall-clock time: Unix milliseconds, UTC.
type WallMillis uint64

// Reading is one look at the clock: both faces of it, taken together.
type Reading struct {
	Mono Instant
	Wall WallMillis
}

// Clock is what a driver reads. Read never blocks and may be called from any
// goroutine.
type Clock interface {
	Read() Reading
}

// Add gives the instant d after i, and Never when that would overflow.
func (i Instant) Add(d Duration) Instant {
	s := i + Instant(d)
	if d > 0 && s < i {
		return Never
	}
	return s
}

// Sub gives the span from earlier to i.
func (i Instant) Sub(earlier Instant) Duration { return Duration(i - earlier) }

// Millis gives d in whole milliseconds, rounded down.
func (d Duration) Millis() int64 { return int64(d / Millisecond) }

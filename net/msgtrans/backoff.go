package msgtrans

import (
	"errors"
	"math/rand/v2"
	"time"
)

// Backoff is how a client waits between attempts to dial again. The zero value
// tries for ever, after 100 ms at first and after at most 30 s.
type Backoff struct {
	// Disabled leaves a client without a connection when its first one has ended.
	Disabled bool
	// Min is the wait before the first attempt; it doubles with each. Default 100 ms.
	Min time.Duration
	// Max bounds the wait. Default 30 s.
	Max time.Duration
	// Attempts bounds the attempts in a row; then the client is closed with the last
	// error. 0 stands for no bound.
	//
	// The count goes on, and the wait grows, until a connection has proved itself: until
	// a packet has come on it or it has lasted for Max.
	Attempts int
}

// Validate reports the first field that cannot be kept.
func (b Backoff) Validate() error {
	switch {
	case b.Min < 0:
		return errors.New("msgtrans: Reconnect.Min is negative")
	case b.Max < 0:
		return errors.New("msgtrans: Reconnect.Max is negative")
	case b.Attempts < 0:
		return errors.New("msgtrans: Reconnect.Attempts is negative")
	}
	return nil
}

func (b Backoff) withDefaults() Backoff {
	orDefault(&b.Min, 100*time.Millisecond)
	orDefault(&b.Max, 30*time.Second)
	return b
}

// delay returns the wait before attempt n, which counts from 1: between half of it
// and all of it, so that clients that were cut off together do not return together.
func (b Backoff) delay(n int) time.Duration {
	d := b.Min
	for ; n > 1 && d < b.Max; n-- {
		d += min(d, b.Max-d)
	}
	d = min(d, b.Max)
	return d - time.Duration(rand.Int64N(int64(d)/2+1))
}

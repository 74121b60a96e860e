package core

import (
	"math/bits"

	"github.com/mortarmq/mortarmq/clock"
)

// rng is SplitMix64 (Steele, Lea, Flood 2014): one word of state, good enough for jitter and ids.
type rng uint64

func (r *rng) next() uint64 {
	*r += 0x9E3779B97F4A7C15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// below is uniform in [0, n), n > 0.
func (r *rng) below(n uint64) uint64 {
	hi, _ := bits.Mul64(r.next(), n)
	return hi
}

// id is a producer_id: never 0, which stands for a plain publish.
func (r *rng) id() uint64 {
	for {
		if id := r.next(); id != 0 {
			return id
		}
	}
}

// backoff is the pause before repeat number n, from 1: base doubled each time up to the maximum, of which half is random, so
// that clients that failed together do not come back together.
func (c *Core) backoff(n int) clock.Duration {
	d := c.opt.BackoffBase
	for i := 1; i < n && d < c.opt.BackoffMax; i++ {
		d *= 2
	}
	d = min(d, c.opt.BackoffMax)
	return d/2 + clock.Duration(c.rng.below(uint64(d/2)+1))
}

func assert(ok bool, what string) {
	if !ok {
		panic("client/core: " + what)
	}
}

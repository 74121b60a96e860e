// Package prng is the simulator's only source of chance: xoshiro256**, seeded by
// splitmix64. Its sequences are part of what a seed means, so they never change
// (prng_test.go pins them).
//
// Invariants:
//
//  1. The numbers of a Rand follow from its seed and the count of draws alone.
//  2. Fork follows from the seed and the label, not from what was drawn: taking
//     one event out of a plan leaves the others' chance as it was.
//
// It is not for secrets, and a Rand is not for two goroutines.
package prng

import "math/bits"

// Rand is a stream of pseudo-random numbers. Copying it copies its future.
type Rand struct {
	seed uint64
	s    [4]uint64
}

// New gives the stream of seed.
func New(seed uint64) *Rand {
	r := &Rand{seed: seed}
	state := seed
	for i := range r.s {
		r.s[i] = splitmix(&state)
	}
	return r
}

func splitmix(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Mix gives a well spread 64-bit value of two: how sub-seeds are made.
func Mix(a, b uint64) uint64 {
	state := a ^ bits.RotateLeft64(b*0x9fb21c651e98df25, 32)
	splitmix(&state)
	return splitmix(&state)
}

// Fork gives the stream of this stream's seed and label (invariant 2).
func (r *Rand) Fork(label string) *Rand { return New(r.SubSeed(label)) }

// ForkN is Fork for the n-th of several under one label.
func (r *Rand) ForkN(label string, n uint64) *Rand { return New(Mix(r.SubSeed(label), n)) }

// SubSeed gives the seed that Fork uses.
func (r *Rand) SubSeed(label string) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(label) {
		h = (h ^ uint64(label[i])) * 1099511628211
	}
	return Mix(r.seed, h)
}

// Clone gives a second stream with the same future.
func (r *Rand) Clone() *Rand { c := *r; return &c }

// Uint64 draws 64 bits.
func (r *Rand) Uint64() uint64 {
	s := &r.s
	result := bits.RotateLeft64(s[1]*5, 7) * 9
	t := s[1] << 17
	s[2] ^= s[0]
	s[3] ^= s[1]
	s[1] ^= s[2]
	s[0] ^= s[3]
	s[2] ^= t
	s[3] = bits.RotateLeft64(s[3], 45)
	return result
}

// Uint64n draws from 0 to n-1 without bias (Lemire). It panics for 0.
func (r *Rand) Uint64n(n uint64) uint64 {
	if n == 0 {
		panic("prng: nothing to draw from")
	}
	hi, lo := bits.Mul64(r.Uint64(), n)
	if lo < n {
		for threshold := -n % n; lo < threshold; {
			hi, lo = bits.Mul64(r.Uint64(), n)
		}
	}
	return hi
}

// Intn draws from 0 to n-1. It panics unless n is positive.
func (r *Rand) Intn(n int) int {
	if n <= 0 {
		panic("prng: nothing to draw from")
	}
	return int(r.Uint64n(uint64(n)))
}

// Range draws from low to high, both included. It panics when high < low.
func (r *Rand) Range(low, high int64) int64 {
	if high < low {
		panic("prng: empty range")
	}
	width := uint64(high-low) + 1
	if width == 0 {
		return int64(r.Uint64())
	}
	return low + int64(r.Uint64n(width))
}

// Bool is true in permille of 1000 draws. It draws even for 0 and 1000, so that
// a changed probability does not move the rest of the stream.
func (r *Rand) Bool(permille int) bool { return r.Intn(1000) < permille }

// Weighted draws an index of weights in proportion to them. It panics when
// their sum is not positive.
func (r *Rand) Weighted(weights ...int) int {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	n := r.Intn(sum)
	for i, w := range weights {
		if n < w {
			return i
		}
		n -= w
	}
	panic("prng: negative weight")
}

// Shuffle puts n elements in a random order.
func (r *Rand) Shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, r.Intn(i+1))
	}
}

// Fill fills b with random bytes.
func (r *Rand) Fill(b []byte) {
	for i := 0; i < len(b); i += 8 {
		v := r.Uint64()
		for j := i; j < min(i+8, len(b)); j++ {
			b[j] = byte(v)
			v >>= 8
		}
	}
}

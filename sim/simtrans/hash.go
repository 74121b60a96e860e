package simtrans

import "github.com/mortarmq/mortarmq/sim/prng"

// rolling is a 128-bit hash over everything that happened, and how much that was.
type rolling struct {
	a, b  uint64
	count uint64
}

func (r *rolling) add(words ...uint64) {
	for _, w := range words {
		r.a = prng.Mix(r.a, w)
		r.b = prng.Mix(r.b+0x9e3779b97f4a7c15, w^r.a)
	}
	r.count++
}

// text takes in a string.
func (r *rolling) text(s string) {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	r.add(h)
}

package sim

import (
	"hash/crc32"

	"github.com/mortarmq/mortarmq/checker"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/sim/prng"
)

// rolling is the hash over every effect of a run, 128 bits, and how many there
// were. Two runs of one plan have the same one after every effect.
type rolling struct {
	a, b   uint64
	events uint64
	each   []uint64 // the hash after every event, when kept
	keep   bool
}

// add takes an event in.
func (h *rolling) add(words ...uint64) {
	for _, w := range words {
		h.a = prng.Mix(h.a, w)
		h.b = (h.b ^ w) * 0x9fb21c651e98df25
		h.b ^= h.b >> 29
	}
	h.events++
	if h.keep {
		h.each = append(h.each, h.a^h.b)
	}
}

// sum is a fast hash of bytes for the rolling one.
func sum(b []byte) uint64 {
	return uint64(crc32.Checksum(b, op.Castagnoli))<<32 | uint64(crc32.ChecksumIEEE(b))
}

// identity is what names a message in a history: all of its content.
func identity(key, value []byte) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for _, c := range key {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h = (h ^ 0x100) * 1099511628211
	for len(value) >= 8 {
		v := uint64(value[0]) | uint64(value[1])<<8 | uint64(value[2])<<16 | uint64(value[3])<<24 |
			uint64(value[4])<<32 | uint64(value[5])<<40 | uint64(value[6])<<48 | uint64(value[7])<<56
		h = (h ^ v) * 1099511628211
		h ^= h >> 32
		value = value[8:]
	}
	for _, c := range value {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h ^ h>>29
}

// content makes the value of message n, unlike any other: its number, then what
// follows from it.
func content(n uint64, size int) []byte {
	v := make([]byte, max(size, 8))
	prng.New(n).Fill(v)
	for i := range 8 {
		v[i] = byte(n >> (8 * i))
	}
	return v
}

// recorder keeps what clients see. Indices into it are how they find their
// entries again.
type recorder struct {
	h        checker.History
	messages uint64 // numbers given to messages
	polls    uint64
	requests uint64 // of raw clients
}

func (r *recorder) publish(p checker.Publish) int {
	p.Return = checker.Forever
	r.h.Publishes = append(r.h.Publishes, p)
	return len(r.h.Publishes) - 1
}

func (r *recorder) settle(s checker.Settle) int {
	s.Return = checker.Forever
	r.h.Settles = append(r.h.Settles, s)
	return len(r.h.Settles) - 1
}

// operations is what clients asked for so far.
func (r *recorder) operations() uint64 {
	return uint64(len(r.h.Publishes)+len(r.h.Settles)) + r.polls + r.requests
}

// lastCall is when a client last settled a message, 0 when it never did.
func (r *recorder) lastCall(client int, at checker.Partition, sequence uint64) checker.Time {
	for i := len(r.h.Settles) - 1; i >= 0; i-- {
		if s := &r.h.Settles[i]; s.Client == client && s.Partition == at && s.Sequence == sequence {
			return s.Call
		}
	}
	return 0
}

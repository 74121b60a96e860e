package node

import (
	"testing"

	"github.com/mortarmq/mortarmq/node/session"
	"pgregory.net/rapid"
)

// Goal: refs come back in the order in which they went in, however the ring grows
// and wherever its head is then (invariant 3).
func TestRefsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q refQueue
		in, out := uint64(0), uint64(0)
		for range rapid.IntRange(1, 20).Draw(t, "rounds") {
			for range rapid.IntRange(0, 200).Draw(t, "push") {
				q.push(session.Ref{Arg: in})
				in++
			}
			for range rapid.IntRange(0, q.n).Draw(t, "pop") {
				if r := q.pop(); r.Arg != out {
					t.Fatalf("ref %d, want %d", r.Arg, out)
				}
				out++
			}
		}
	})
}

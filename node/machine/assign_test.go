package machine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mortarmq/mortarmq/node/op"
	"pgregory.net/rapid"
)

// fewestMoves finds, by trying all of them, the assignment that is balanced
// within one and takes the fewest partitions from members that stay.
func fewestMoves(members, before []op.MemberID) int {
	best := len(before) + 1
	count := make([]int, len(members))
	n, k := len(before), len(members)
	var try func(p, moves int)
	try = func(p, moves int) {
		if moves >= best {
			return
		}
		if p == n {
			for _, c := range count {
				if c < n/k || c > (n+k-1)/k {
					return
				}
			}
			best = moves
			return
		}
		held := slices.Contains(members, before[p])
		for i, m := range members {
			if count[i] > n/k {
				continue
			}
			count[i]++
			if held && m != before[p] {
				try(p+1, moves+1)
			} else {
				try(p+1, moves)
			}
			count[i]--
		}
	}
	try(0, 0)
	return best
}

func moves(members, before, after []op.MemberID) (n int) {
	for p := range before {
		if slices.Contains(members, before[p]) && before[p] != after[p] {
			n++
		}
	}
	return n
}

// checkAssignment judges an assignment by the three rules of broker.md.
func checkAssignment(members, before, after []op.MemberID, fail func(string, ...any)) {
	if len(members) == 0 {
		for _, o := range after {
			if o != 0 {
				fail("an owner without members: %v", after)
			}
		}
		return
	}
	count := map[op.MemberID]int{}
	for _, o := range after {
		if !slices.Contains(members, o) {
			fail("%d is no member: %v", o, after)
		}
		count[o]++
	}
	lo, hi := len(after), 0
	for _, m := range members {
		lo, hi = min(lo, count[m]), max(hi, count[m])
	}
	if hi-lo > 1 {
		fail("not balanced: %v", after)
	}
	want := -1
	if len(before) <= 6 && len(members) <= 4 {
		want = fewestMoves(members, before)
	}
	if got := moves(members, before, after); want >= 0 && got != want {
		fail("members %v, before %v, after %v: %d moves, %d would do", members, before, after, got, want)
	}
}

// Goal: one owner each, balanced within one, fewest moves, a function of its
// arguments, over random membership histories.
func TestAssign(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "partitions")
		if rapid.Bool().Draw(t, "large") {
			n = rapid.IntRange(1, 64).Draw(t, "partitions")
		}
		owners := make([]op.MemberID, n)
		var members []op.MemberID
		next := op.MemberID(1)
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			if len(members) == 0 || len(members) < maxMembers && rapid.Bool().Draw(t, "join") {
				members = append(members, next)
				next++
			} else {
				i := rapid.IntRange(0, len(members)-1).Draw(t, "who")
				members = slices.Delete(members, i, i+1)
			}
			before, again := slices.Clone(owners), slices.Clone(owners)
			assign(members, owners)
			checkAssignment(members, before, owners, t.Fatalf)
			if len(members) > 0 {
				if got, want := moves(members, before, owners), fewestByFlow(members, before); got != want {
					t.Fatalf("members %v, before %v, after %v: %d moves, %d by flow", members, before, owners, got, want)
				}
			}
			assign(members, again)
			if !slices.Equal(owners, again) {
				t.Fatal("not a function")
			}
			assign(members, again)
			if !slices.Equal(owners, again) {
				t.Fatal("moves although nothing changed")
			}
		}
	})
}

// flowEdge is an edge of a flow network; its reverse is its neighbour in the list
// (the index with the last bit flipped).
type flowEdge struct{ to, room, cost int }

// fewestByFlow finds the same as a min-cost flow, for sizes beyond the brute
// force: a unit from the source through each partition and a member to the sink.
// A member's first n/k units must be taken before any gets one more, so they are
// paid for with more than all moves cost.
func fewestByFlow(members, before []op.MemberID) int {
	n, k := len(before), len(members)
	source, sink, reward := n+k, n+k+1, n+1
	var edges []flowEdge
	out := make([][]int, n+k+2)
	link := func(a, b, room, cost int) {
		out[a] = append(out[a], len(edges))
		out[b] = append(out[b], len(edges)+1)
		edges = append(edges, flowEdge{b, room, cost}, flowEdge{a, 0, -cost})
	}
	for p, o := range before {
		link(source, p, 1, 0)
		for i, m := range members {
			cost := 0
			if m != o && slices.Contains(members, o) {
				cost = 1
			}
			link(p, n+i, 1, cost)
		}
	}
	for i := range k {
		link(n+i, sink, n/k, -reward)
		link(n+i, sink, 1, 0)
	}
	total := 0
	for range n {
		const far = 1 << 30
		dist, via := make([]int, n+k+2), make([]int, n+k+2)
		for i := range dist {
			dist[i] = far
		}
		dist[source] = 0
		for queue := []int{source}; len(queue) > 0; {
			a := queue[0]
			queue = queue[1:]
			for _, e := range out[a] {
				if x := edges[e]; x.room > 0 && dist[a]+x.cost < dist[x.to] {
					dist[x.to], via[x.to] = dist[a]+x.cost, e
					queue = append(queue, x.to)
				}
			}
		}
		total += dist[sink]
		for a := sink; a != source; a = edges[via[a]^1].to {
			edges[via[a]].room--
			edges[via[a]^1].room++
		}
	}
	return total + n/k*k*reward
}

// Goal: the two independent minima agree with each other where both can run.
func TestFewestMovesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 4).Draw(t, "members")
		var members []op.MemberID
		for i := range k {
			members = append(members, op.MemberID(i+1))
		}
		before := rapid.SliceOfN(rapid.Map(rapid.IntRange(0, k+1), func(i int) op.MemberID { return op.MemberID(i) }), 1, 6).Draw(t, "before")
		if a, b := fewestMoves(members, before), fewestByFlow(members, before); a != b {
			t.Fatal(fmt.Sprint(members, before, a, b))
		}
	})
}

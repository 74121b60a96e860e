package checker

import (
	"testing"

	"pgregory.net/rapid"
)

// Goal: the direct check of ownership and porcupine agree on any small history.
func TestOwnershipAgrees(t *testing.T) {
	seen := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		h := &History{}
		epochs := uint64(rapid.IntRange(1, 4).Draw(t, "epochs"))
		for e := uint64(1); e <= epochs; e++ {
			for range rapid.IntRange(1, 2).Draw(t, "deliveries") {
				member := 10 + e
				if rapid.IntRange(0, 20).Draw(t, "another") == 0 {
					member++
				}
				h.Deliveries = append(h.Deliveries, msg(e, e, e, member, Time(rapid.IntRange(0, 40).Draw(t, "at"))))
			}
		}
		for range rapid.IntRange(0, 6).Draw(t, "settles") {
			e := uint64(rapid.IntRange(1, int(epochs)).Draw(t, "epoch"))
			call := Time(rapid.IntRange(0, 40).Draw(t, "call"))
			s := ack(e, e, e, call, call+Time(rapid.IntRange(0, 20).Draw(t, "took")))
			if rapid.IntRange(0, 5).Draw(t, "unknown") == 0 {
				s.Return = Forever
			}
			h.Settles = append(h.Settles, s)
		}
		x := newIndex(h)
		lanes, ops := lockOps(x)
		for _, l := range lanes {
			found := lockDirect(x, l, ops[l])
			ok, conclusive := lockSearch(tightenLock(ops[l]), 1_000_000)
			if !conclusive || ok != (len(found) == 0) {
				t.Fatalf("porcupine %v (conclusive %v), direct %v of %+v", ok, conclusive, found, ops[l])
			}
			if free, _ := lockSearch(ops[l], 1_000_000); free != ok {
				t.Fatalf("tightening changed the verdict to %v: %+v", ok, ops[l])
			}
			seen[ok]++
		}
	})
	if seen[true] == 0 || seen[false] == 0 {
		t.Fatalf("%v: one verdict never came", seen)
	}
}

// Goal: when the budget is gone the check of ownership says so.
func TestOwnershipBudget(t *testing.T) {
	h := &History{Deliveries: []Delivery{msg(1, 1, 1, 5, 10), msg(1, 2, 2, 6, 20)}, Settles: []Settle{ack(1, 1, 1, 11, 12)}}
	found, unsure := ownership(newIndex(h), 1)
	if len(found) != 0 || len(unsure) != 1 {
		t.Fatalf("%v %v", found, unsure)
	}
}

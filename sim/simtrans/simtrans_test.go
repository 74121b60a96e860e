package simtrans

import (
	"flag"
	"testing"
)

var oneSeed = flag.Uint64("seed", 0, "run this seed alone, and say what came of it")

// Goal: the pure halves hold every property over some hundred seeds, and those
// together reach every state worth reaching.
func TestSeeds(t *testing.T) {
	if *oneSeed != 0 {
		r := Run(Options{Seed: *oneSeed})
		t.Log(r.String(), r.Marks)
		if r.Violation != nil {
			t.Fail()
		}
		return
	}
	seeds := uint64(300)
	if testing.Short() {
		seeds = 40
	}
	marks := map[string]int{}
	requests, answered, effects := 0, 0, uint64(0)
	for seed := uint64(1); seed <= seeds; seed++ {
		r := Run(Options{Seed: seed})
		if r.Violation != nil {
			t.Fatalf("%v\nagain: go test ./sim/simtrans -run TestSeeds -v -seed %d", &r, seed)
		}
		for name, n := range r.Marks {
			marks[name] += n
		}
		requests += r.Requests
		answered += r.Answered
		effects += r.Effects
	}
	t.Logf("%d seeds, %d effects, %d of %d requests answered; %v", seeds, effects, answered, requests, marks)
}

package simtrans

import (
	"flag"
	"testing"
)

var oneSeed = flag.Uint64("seed", 0, "run this seed alone, and say what came of it")

// wanted are the states that the seeds of TestSeeds have to reach together.
var wanted = []string{
	"a request answered", "a request timed out", "a request cancelled", "a request rejected", "a request died with its process",
	"a request too many", "an answer was dropped", "ids wrapped", "a pending id was passed over", "an answer of the ids' last lap",
	"a connection after another", "a peer died in mid-packet", "a silent peer was given up", "reading was paused",
	"a bit was flipped", "a packet was damaged", "a bomb was sent", "compressed by zstd", "compressed by zlib",
	"a connection is half-open", "a connection was reset", "one way was cut", "two were parted", "a link is slow",
	"a process was killed", "a machine lost power",
	"refused: msgtrans: unsupported version", "refused: msgtrans: unknown compression", "refused: msgtrans: unknown packet_type",
	"refused: msgtrans: FRAGMENTED is not used by version 1", "refused: msgtrans: packet is over the limit",
	"refused: msgtrans: compressed payload is corrupt", "refused: msgtrans: decompressed payload is over the limit",
}

// Goal: the pure halves hold every property over a hundred seeds, and those together
// reach every state worth reaching.
func TestSeeds(t *testing.T) {
	if *oneSeed != 0 {
		r := Run(Options{Seed: *oneSeed})
		t.Log(r.String(), r.Marks)
		if r.Violation != nil {
			t.Fail()
		}
		return
	}
	seeds := uint64(120)
	if testing.Short() {
		seeds = 30
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
	t.Logf("%d seeds, %d effects, %d of %d requests answered", seeds, effects, answered, requests)
	for _, name := range wanted {
		if marks[name] == 0 && !testing.Short() {
			t.Errorf("no seed came to: %s", name)
		}
	}
}

// Goal: a run follows from its seed: the same one gives the same hash over every
// effect, another one another.
func TestSameSeedSameRun(t *testing.T) {
	seen := map[[2]uint64]bool{}
	for seed := uint64(1); seed <= 10; seed++ {
		a, b := Run(Options{Seed: seed}), Run(Options{Seed: seed})
		if a.Hash != b.Hash || a.Effects != b.Effects {
			t.Errorf("seed %d: %v and %v", seed, &a, &b)
		}
		if seen[a.Hash] {
			t.Errorf("seed %d gave the run of another", seed)
		}
		seen[a.Hash] = true
	}
}

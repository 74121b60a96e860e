package sim

import "testing"

// Goal: seeds hold.
func TestSeeds(t *testing.T) {
	for seed := uint64(1); seed <= 3; seed++ {
		r := Run(Draw(seed), Options{})
		if r.Status != Held {
			t.Errorf("seed %d: %s at %d: %s", seed, r.Property, r.At, r.What)
		}
	}
}

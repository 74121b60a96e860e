package sim

import (
	"fmt"
	"testing"
)

// marksWanted are the states worth reaching, and how many seeds may pass before
// one of them was.
var marksWanted = []string{
	"node.torn_tail", "replica.epoch_started",
	"sim.replay_compared", "sim.crash_in_turn", "sim.crash_in_recovery", "sim.exit_after_io_fault", "sim.refused",
	"sim.checkpoint", "sim.segment_cut_back", "sim.low_space", "sim.drain", "sim.segment_or_checkpoint_stalled",
	"sim.dedup_over_restart", "sim.dead_letter", "sim.quarantined", "sim.revoked", "sim.left", "sim.redelivered",
	"sim.backoff_over_restart", "sim.redriven", "sim.redrive_cut_off", "sim.purge", "sim.reset", "sim.reset_to_time", "sim.delete",
	"code.SEQ_GAP", "code.SEQ_EXPIRED", "code.PRODUCER_SEQ_INVALID", "code.UNKNOWN_TOPIC", "code.UNKNOWN_PARTITION", "code.INVALID_TOPIC",
	"code.TOPIC_EXISTS_MISMATCH", "code.STALE_OWNER", "code.UNKNOWN_DELIVERY", "code.UNKNOWN_MEMBER", "code.STALE_GENERATION",
	"code.STORAGE_HIGH_WATERMARK", "code.RATE_LIMITED",
}

const marksWithin = 120

// Goal: the plan generator still reaches every state worth reaching; each seed
// on the way holds.
func TestMarks(t *testing.T) {
	if testing.Short() {
		t.Skip("many seeds")
	}
	reached := map[string]uint64{}
	missing := func() (names []string) {
		for _, m := range marksWanted {
			if reached[m] == 0 {
				names = append(names, m)
			}
		}
		return names
	}
	for seed := uint64(1); seed <= marksWithin; seed++ {
		r := Run(Draw(seed), Options{})
		if r.Status != Held {
			t.Fatalf("seed %d: %s at %d: %s", seed, r.Property, r.At, r.What)
		}
		for name, n := range r.Marks { // order-free: sums
			reached[name] += n
		}
		if len(missing()) == 0 {
			t.Logf("all %d marks within %d seeds", len(marksWanted), seed)
			return
		}
	}
	t.Errorf("not reached within %d seeds: %s", marksWithin, fmt.Sprint(missing()))
}

package sim

import (
	"fmt"
	"slices"

	"github.com/mortarmq/mortarmq/checker"
	"github.com/mortarmq/mortarmq/fault"
)

// Bug is a planted one: a wrong variant of the broker behind fault.On(Name).
type Bug struct {
	Name     string
	Property string   // that should catch it
	Also     []string // that may be first instead, for the same reason
	What     string
}

// Planted lists the planted bugs.
func Planted() []Bug { return bugs }

var bugs = []Bug{
	{"ack_before_sync", PropertyDurable, nil, "a publish is acknowledged when it is written, before the sync"},
	{"apply_before_commit", PropertyDurable, []string{PropertyReplay}, "ops are applied when they are proposed to the disk, before they are synced"},
	{"checkpoint_named_before_sync", PropertyAvailability, []string{PropertyReplay}, "the superblock names a checkpoint whose files are not synced"},
	{"torn_tail_taken_as_good", PropertyPanic, []string{PropertyReplay, PropertyInvariant}, "an entry at the journal's end is taken without a look at its body"},
	{"hole_taken_as_tail", PropertyReplay, nil, "damage with good entries behind it is cut off as if it were a torn tail"},
	{"dedup_lost_at_restart", checker.PropertyDuplicate, []string{PropertyReplay}, "producer windows are not restored from a checkpoint"},
	{"dedup_entry_for_refused_publish", checker.PropertyLost, nil, "a refused publish leaves its sequence in the window"},
	{"ledger_not_replayed", PropertyReplay, nil, "settlements in the journal are not replayed"},
	{"ack_floor_off_by_one", PropertyInvariant, nil, "the ack floor is one too far"},
	{"sequence_reused_after_recovery", PropertyReplay, []string{checker.PropertyInconsistent}, "a recovered partition begins one sequence too low"},
}

// Plant switches a planted bug on for the rest of the process, after proof that
// planting works at all.
func Plant(name string) error {
	if !slices.ContainsFunc(bugs, func(b Bug) bool { return b.Name == name }) {
		return fmt.Errorf("there is no planted bug %q: see --list-planted", name)
	}
	if !fault.Enabled {
		return fmt.Errorf("this binary holds no planted bugs: go run -tags faults ./cmd/sim --planted %s --seeds 1..1000", name)
	}
	return plant(name)
}

//go:build faults

package machine

import (
	"os"
	"os/exec"
	"testing"

	"github.com/mortarmq/mortarmq/fault"
)

const plantVariable = "MACHINE_TEST_PLANT"

func TestMain(m *testing.M) {
	if name := os.Getenv(plantVariable); name != "" {
		if err := fault.Plant(name); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// Goal: the model catches every bug that is planted in here, each in a process
// of its own, and nothing without one.
func TestPlanted(t *testing.T) {
	for _, name := range []string{"", "dedup_lost_at_restart", "dedup_entry_for_refused_publish", "ack_floor_off_by_one",
		"sequence_reused_after_recovery", "ownership_epoch_not_raised", "release_charges", "reused_delivery_accepts", "dead_letter_twice",
		"nack_delay_ignored", "floor_over_unsettled", "dead_letter_forgotten", "redrive_twice", "stale_ack_accepted", "vanished_charged_for_all",
		"reset_keeps_entries", "epochs_restart_with_group"} {
		cmd := exec.Command(os.Args[0], "-test.run=TestMachineAgainstModel", "-rapid.checks=1000", "-rapid.steps=150", "-rapid.nofailfile", "-rapid.shrinktime=0s")
		cmd.Env = append(os.Environ(), plantVariable+"="+name)
		out, err := cmd.CombinedOutput()
		if caught := err != nil; caught != (name != "") {
			t.Errorf("%q: caught %v\n%s", name, caught, out)
		}
	}
}

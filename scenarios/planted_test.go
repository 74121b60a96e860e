//go:build faults

package scenarios

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/mortarmq/mortarmq/sim"
)

// TestMain makes this binary one process per planted bug: what is planted stays.
func TestMain(m *testing.M) {
	if bug := os.Getenv("SCENARIO_PLANTED"); bug != "" {
		os.Exit(replay(bug, os.Getenv("SCENARIO")))
	}
	os.Exit(m.Run())
}

// replay plants a bug and runs a scenario; it prints what broke.
func replay(bug, name string) int {
	text, err := os.ReadFile(name + ".txt")
	if err == nil {
		err = sim.Plant(bug)
	}
	if err != nil {
		fmt.Println(err)
		return 2
	}
	p, err := sim.Parse(string(text))
	if err != nil {
		fmt.Println(err)
		return 2
	}
	r := sim.Run(p, sim.Options{})
	fmt.Println(r.Property, r.What)
	return int(sim.Verdict(p, r))
}

// Goal: each scenario about groups breaks when the broker does what the scenario
// is about wrongly.
func TestScenariosSee(t *testing.T) {
	for _, c := range []struct{ scenario, bug string }{
		{"ack_above_and_late", "ack_floor_off_by_one"},
		{"all_members_die_and_rejoin", "vanished_member_kept"},
		{"consumer_stopped_past_its_lease", "reused_delivery_id"},
		{"dead_letter_consumer_fails", "dead_letter_forgotten"},
		{"delayed_for_hours", "nack_delay_ignored"},
		{"delayed_for_hours", "backoff_lost_on_new_owner"},
		{"group_changed_while_pull_waits", "reset_keeps_entries"},
		{"group_changed_while_pull_waits", "epochs_restart_with_group"},
		{"lease_and_ack_race", "reused_delivery_id"},
		{"leaves_with_everything_leased", "vanished_charged_for_all"},
		{"poison_among_neighbours", "vanished_charged_for_all"},
		{"redrive_cut_off", "redrive_twice"},
		{"restart_amid_backoffs", "backoff_lost_on_new_owner"},
	} {
		t.Run(c.scenario+"/"+c.bug, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "SCENARIO_PLANTED="+c.bug, "SCENARIO="+c.scenario)
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != int(sim.Broke) {
				t.Fatalf("it holds: %v %s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}

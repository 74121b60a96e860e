//go:build faults

package session

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/mortarmq/mortarmq/fault"
)

// Goal: each bug that this package can be given is caught by one of its tests.
// A planted bug stays for the life of a process, so each has its own.
func TestPlantedBugs(t *testing.T) {
	for bug, by := range map[string]string{
		"credit_leak":         "TestRandomRuns",
		"reused_delivery_id":  "TestRandomRuns",
		"lease_on_wall_clock": "TestWallClock",
	} {
		t.Run(bug, func(t *testing.T) {
			run := func(plant string) ([]byte, error) {
				cmd := exec.Command(os.Args[0], "-test.run", fmt.Sprintf("^%s$", by), "-rapid.nofailfile", "-rapid.shrinktime=1ms")
				cmd.Env = append(os.Environ(), "SESSION_PLANT="+plant)
				return cmd.CombinedOutput()
			}
			if out, err := run("nothing"); err != nil {
				t.Fatalf("%s fails without a bug:\n%s", by, out)
			}
			out, err := run(bug)
			if err == nil {
				t.Fatalf("%s does not notice %s:\n%s", by, bug, out)
			}
			t.Logf("%.600s", out)
		})
	}
}

// TestMain plants the bug that a run of one test is for.
func TestMain(m *testing.M) {
	if bug := os.Getenv("SESSION_PLANT"); bug != "" {
		if err := fault.Plant(bug); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

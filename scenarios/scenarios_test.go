// Package scenarios replays regressions: plans that are small enough to read,
// each with a sentence that says what went wrong once.
package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/sim"
)

// Goal: every scenario ends as it says, comes by what it is about, and is
// written in the form that the simulator writes.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios: ", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(f, ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			p, err := sim.Parse(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if p.Title == "" || !strings.HasPrefix(string(text), "# ") {
				t.Error("it has no title, or no sentence that says what went wrong once")
			}
			if again, err := sim.Parse(p.String()); err != nil || again.String() != p.String() {
				t.Errorf("it does not survive being written: %v\n%s", err, p)
			}
			r := sim.Run(p, sim.Options{})
			if sim.Failed(p, r) {
				t.Errorf("%v, expected %s: %s at %d: %s (refused: %q)", r.Status, p.Expect, r.Property, r.At, r.What, r.Refused)
			}
		})
	}
}

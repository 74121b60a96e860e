//go:build faults

package sim_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"testing"

	"github.com/mortarmq/mortarmq/sim"
)

// starts are the seeds from which the hunt begins.
var starts = []uint64{1, 100_001, 200_001, 300_001, 400_001}

// caughtWithin is the most seeds that a planted bug may take.
const caughtWithin = 1000

// TestMain makes this binary one process per bug: failpoint's state is global.
func TestMain(m *testing.M) {
	if name := os.Getenv("SIM_PLANTED"); name != "" {
		os.Exit(hunt(name))
	}
	os.Exit(m.Run())
}

// hunt plants a bug and runs seeds until one breaks; it prints after how many,
// and which property.
func hunt(name string) int {
	if err := sim.Plant(name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	start, err := strconv.ParseUint(os.Getenv("SIM_START"), 10, 64)
	if err != nil {
		return 2
	}
	for n := range uint64(caughtWithin) {
		if r := sim.Run(sim.Draw(start+n), sim.Options{}); r.Status == sim.Broke {
			fmt.Printf("%d %s\n", n+1, catcher(name, r))
			return 0
		}
	}
	return 1
}

// catcher gives the broken property that is there for the bug, if one is, and the
// first that broke otherwise.
func catcher(name string, r *sim.Result) string {
	for _, b := range sim.Planted() {
		if b.Name != name {
			continue
		}
		for _, p := range append([]string{b.Property}, b.Also...) {
			for _, f := range r.All {
				if f.Property == p {
					return p
				}
			}
		}
	}
	return r.Property
}

// Goal: every planted bug is caught by the unchanged plan generator, from five
// starts (one with -short), within a thousand seeds, by the property that is
// there for it.
func TestPlanted(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	from := starts
	if testing.Short() {
		from = starts[:1]
	}
	for _, b := range sim.Planted() {
		t.Run(b.Name, func(t *testing.T) {
			var took []int
			by := map[string]int{}
			for _, start := range from {
				cmd := exec.Command(self)
				cmd.Dir = filepath.Dir(self)
				cmd.Env = append(os.Environ(), "SIM_PLANTED="+b.Name, fmt.Sprintf("SIM_START=%d", start))
				out, err := cmd.CombinedOutput()
				var n int
				var property string
				if err != nil {
					t.Errorf("from seed %d: not caught within %d seeds: %v %s", start, caughtWithin, err, out)
					continue
				}
				if _, err := fmt.Sscan(string(out), &n, &property); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				if property != b.Property && !slices.Contains(b.Also, property) {
					t.Errorf("from seed %d: caught by %s, which is not there for it", start, property)
				}
				took = append(took, n)
				by[property]++
			}
			sort.Ints(took)
			if len(took) > 0 {
				t.Logf("caught after %d seeds in the median, %d at worst, by %v", took[len(took)/2], took[len(took)-1], by)
			}
		})
	}
}

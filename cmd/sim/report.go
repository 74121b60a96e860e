package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/sim"
)

// print writes what came of one run.
func (c *config) print(p *sim.Plan, r *sim.Result, took time.Duration) {
	if p.Title != "" {
		fmt.Fprintln(c.stdout, p.Title)
	}
	fmt.Fprintf(c.stdout, "%s: seed %d: %d events, %d client operations, %d committed messages, %d deliveries, %d faults, %d restarts; %.1f simulated seconds in %.2f s (%.0f per second)\n",
		word(p, r), p.Seed, r.Events, r.Operations, r.Committed, r.Deliveries, r.Faults, r.Restarts,
		seconds(r), took.Seconds(), seconds(r)/max(took.Seconds(), 1e-9))
	if r.Refused != "" {
		fmt.Fprintf(c.stdout, "refused, as it must be after %s: %s\n", r.Excused, r.Refused)
	} else if r.Excused != "" {
		fmt.Fprintf(c.stdout, "beyond the atlas: %s\n", r.Excused)
	}
	if c.showMarks || c.first == c.last && len(r.Marks) > 0 {
		fmt.Fprintf(c.stdout, "marks: %s\n", marks(r.Marks))
	}
	for _, f := range r.All {
		fmt.Fprintf(c.stdout, "  %s at %.6f s: %s\n", f.Property, float64(f.At)/1e9, f.What)
	}
	if r.Status == sim.Inconclusive {
		fmt.Fprintf(c.stdout, "  %s\n", r.What)
	}
}

func seconds(r *sim.Result) float64 { return float64(r.Virtual) / 1e9 }

func word(p *sim.Plan, r *sim.Result) string {
	if r.Status == sim.Broke && !sim.Failed(p, r) {
		return "broke, as expected"
	}
	return r.Status.String()
}

func marks(m map[string]uint64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, m[name]))
	}
	return strings.Join(parts, ", ")
}

// reportFailure prints the one command that replays it and keeps the plan, unless
// it is in a file already.
func (c *config) reportFailure(p *sim.Plan, r *sim.Result, how string) {
	fmt.Fprintf(c.stdout, "replay: %s %s%s\n", c.program(), how, c.plantedFlag())
	if c.replay == "" {
		c.writePlan(p, r, ".txt")
	}
}

// program is how this one is run again.
func (c *config) program() string {
	if c.planted != "" || fault.Enabled {
		return "go run -tags faults ./cmd/sim"
	}
	return "go run ./cmd/sim"
}

func (c *config) plantedFlag() string {
	if c.planted == "" {
		return ""
	}
	return " --planted " + c.planted
}

// writePlan writes a plan that failed; its file's name ends in end.
func (c *config) writePlan(p *sim.Plan, r *sim.Result, end string) {
	dir, name := "sim-failures", fmt.Sprintf("%s-seed-%d", strings.ReplaceAll(r.Property, " ", "-"), p.Seed)
	if c.replay != "" { // beside what it was made of
		dir, name = filepath.Dir(c.replay), strings.TrimSuffix(filepath.Base(c.replay), ".txt")
	}
	if c.out != "" {
		dir = c.out
	}
	path := filepath.Join(dir, name+end)
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		text := fmt.Sprintf("# %s: %s\n%s", r.Property, r.What, p)
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		fmt.Fprintf(c.stderr, "sim: the plan could not be written: %v\n", err)
		return
	}
	fmt.Fprintf(c.stdout, "plan:   %s (%s --replay %s%s)\n", path, c.program(), path, c.plantedFlag())
}

// shrinkPlan looks for a smaller plan that breaks the same property.
func (c *config) shrinkPlan(p *sim.Plan) *sim.Plan {
	want := sim.Run(p, sim.Options{}).Property
	tried := 0
	small := sim.Shrink(p, func(candidate *sim.Plan) bool {
		tried++
		return sim.Run(candidate, sim.Options{}).Property == want
	}, 600)
	fmt.Fprintf(c.stdout, "shrunk from %d events to %d in %d runs\n", len(p.Events), len(small.Events), tried)
	return small
}

// total sums many runs up.
type total struct {
	runs, refused, excused, inconclusive uint64
	events, operations, committed        uint64
	virtual                              float64
	marks                                map[string]uint64
	ops, faults                          []uint64
	failed                               int
}

func (c *config) runMany() int {
	start := time.Now()
	var t total
	t.marks = map[string]uint64{}
	status := sim.Held
	lastLine := start
	sim.Many(c.first, c.last, c.workers, sim.Options{Panics: c.panics}, func(p *sim.Plan, r *sim.Result) bool {
		t.add(p, r)
		if v := sim.Verdict(p, r); v == sim.Broke || v != sim.Held && status == sim.Held {
			status = v
		}
		if sim.Failed(p, r) {
			t.failed++
			c.clear()
			c.print(p, r, time.Since(start))
			c.reportFailure(p, r, fmt.Sprintf("-seed %d", p.Seed))
		}
		if time.Since(lastLine) > c.progressEvery() {
			lastLine = time.Now()
			c.progress(&t, time.Since(start))
		}
		return (c.minutes == 0 || time.Since(start).Minutes() < c.minutes) && t.failed < 20 && (c.planted == "" || t.failed == 0)
	})
	c.clear()
	c.summary(&t, time.Since(start))
	return int(status)
}

func (t *total) add(p *sim.Plan, r *sim.Result) {
	t.runs++
	t.events += r.Events
	t.operations += r.Operations
	t.committed += r.Committed
	t.virtual += seconds(r)
	t.ops = append(t.ops, r.Operations)
	t.faults = append(t.faults, uint64(r.Faults))
	if r.Refused != "" {
		t.refused++
	} else if r.Excused != "" {
		t.excused++
	}
	if r.Status == sim.Inconclusive {
		t.inconclusive++
	}
	for name, n := range r.Marks {
		t.marks[name] += n
	}
}

// progress writes over its last line where somebody watches, and a line of its own
// where the output is kept.
func (c *config) progress(t *total, took time.Duration) {
	before, behind := "", "\n"
	if c.watched {
		before, behind = "\r", "   "
	}
	fmt.Fprintf(c.stderr, "%s%d seeds, %d failed, %.0f a minute, %.0f simulated seconds per second, %d marks%s",
		before, t.runs, t.failed, float64(t.runs)/took.Minutes(), t.virtual/took.Seconds(), len(t.marks), behind)
}

func (c *config) progressEvery() time.Duration {
	if c.watched {
		return time.Second
	}
	return time.Minute
}

func (c *config) clear() {
	if c.watched {
		fmt.Fprint(c.stderr, "\r\033[K")
	}
}

func (c *config) summary(t *total, took time.Duration) {
	fmt.Fprintf(c.stdout, "%d seeds in %.0f s (%.0f a minute): %d failed, %d refused as they must, %d beyond the atlas and well, %d inconclusive\n",
		t.runs, took.Seconds(), float64(t.runs)/took.Minutes(), t.failed, t.refused, t.excused, t.inconclusive)
	fmt.Fprintf(c.stdout, "%d events, %d client operations (median %d a seed), %d committed messages, median %d faults a seed, %.0f simulated seconds per second\n",
		t.events, t.operations, median(t.ops), t.committed, median(t.faults), t.virtual/took.Seconds())
	fmt.Fprintf(c.stdout, "marks: %s\n", marks(t.marks))
}

func median(v []uint64) uint64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}

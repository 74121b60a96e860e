// Command sim runs the simulator: a seed, many seeds, a scenario, a shrink, a
// planted bug. SIMULATION.md explains it.
package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/mortarmq/mortarmq/cmd/internal/terminal"
	"github.com/mortarmq/mortarmq/sim"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// config is the command line.
type config struct {
	seed, start    uint64
	seeds          string
	workers        int
	minutes        float64
	replay         string
	trace          bool
	shrink         bool
	determinism    bool
	planted        string
	listPlanted    bool
	plan           bool
	panics         bool
	out            string
	hashes         bool
	showMarks      bool
	first, last    uint64
	stdout, stderr io.Writer
	watched        bool // stderr is a terminal
}

const usage = `Run the broker in a simulated world, break what can break, and judge it.

  sim -seed 1                        one seed
  sim --seeds 1..1000 --workers 2    many
  sim --minutes 10                   as many as fit
  sim --replay FILE                  a scenario or a plan that failed
  sim --replay FILE --shrink         the smallest part of it that still fails
  sim --check-determinism -seed 1    the same run twice, in two processes
  sim --planted NAME --seeds 1..50   with a bug in the broker (build tag faults)

Exit codes: 0 held, 1 a property broke, 2 bad usage, 3 inconclusive.

`

func parse(args []string, c *config) error {
	f := pflag.NewFlagSet("sim", pflag.ContinueOnError)
	f.SetOutput(c.stderr)
	f.Usage = func() { fmt.Fprint(c.stderr, usage+f.FlagUsages()) }
	f.Uint64Var(&c.seed, "seed", 0, "run this seed")
	f.StringVar(&c.seeds, "seeds", "", "run seeds A..B")
	f.Uint64Var(&c.start, "from", 1, "with --minutes: the first seed")
	f.IntVar(&c.workers, "workers", 1, "runs at a time")
	f.Float64Var(&c.minutes, "minutes", 0, "run seeds for so long; 0.1 is 6 seconds")
	f.StringVar(&c.replay, "replay", "", "run the plan in this file")
	f.BoolVar(&c.trace, "trace", false, "print every event")
	f.BoolVar(&c.shrink, "shrink", false, "make a failing plan smaller and write that too, as NAME.min.txt")
	f.BoolVar(&c.determinism, "check-determinism", false, "run twice, the second time in another process, and compare every event")
	f.StringVar(&c.planted, "planted", "", "switch this planted bug on (build tag faults)")
	f.BoolVar(&c.listPlanted, "list-planted", false, "name the planted bugs")
	f.BoolVar(&c.plan, "plan", false, "print the plan and do not run it")
	f.BoolVar(&c.panics, "panics", false, "let a panic through, with its stack")
	f.StringVar(&c.out, "out", "", "directory for plans that failed (default sim-failures; with --replay that of FILE)")
	f.BoolVar(&c.showMarks, "marks", false, "print the marks reached")
	f.BoolVar(&c.hashes, "hashes", false, "write the hash after every event to standard output, binary (what --check-determinism reads)")
	_ = f.MarkHidden("hashes")
	if err := f.Parse(twoDashes(args)); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%q is no flag: see --help", f.Arg(0))
	}
	return c.check(f.Changed("seed"))
}

// twoDashes gives long flags written with one dash their second one.
func twoDashes(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		if len(a) > 2 && a[0] == '-' && a[1] != '-' {
			a = "-" + a
		}
		out[i] = a
	}
	return out
}

func (c *config) check(seed bool) error {
	modes := 0
	for _, on := range []bool{seed, c.seeds != "", c.minutes > 0, c.replay != "", c.listPlanted} {
		if on {
			modes++
		}
	}
	if modes != 1 {
		return fmt.Errorf("give one of -seed N, --seeds A..B, --minutes M, --replay FILE, --list-planted")
	}
	if seed {
		c.first, c.last = c.seed, c.seed
	}
	if c.minutes > 0 {
		c.first, c.last = c.start, 1<<63
	}
	if c.seeds == "" {
		return nil
	}
	a, b, ok := strings.Cut(c.seeds, "..")
	var err, err2 error
	c.first, err = strconv.ParseUint(a, 10, 64)
	c.last, err2 = strconv.ParseUint(b, 10, 64)
	if !ok || err != nil || err2 != nil || c.last < c.first {
		return fmt.Errorf("--seeds wants A..B with A <= B, not %q", c.seeds)
	}
	return nil
}

func run(args []string, stdout, stderr io.Writer) int {
	c := &config{stdout: stdout, stderr: stderr, watched: terminal.Is(stderr)}
	if err := parse(args, c); err != nil {
		if err == pflag.ErrHelp {
			return int(sim.Held)
		}
		fmt.Fprintln(stderr, "sim:", err)
		return int(sim.BadPlan)
	}
	if c.listPlanted {
		for _, b := range sim.Planted() {
			fmt.Fprintf(stdout, "%-34s %-24s %s\n", b.Name, b.Property, b.What)
		}
		return 0
	}
	if c.planted != "" {
		if err := sim.Plant(c.planted); err != nil {
			fmt.Fprintln(stderr, "sim:", err)
			return int(sim.BadPlan)
		}
	}
	switch {
	case c.replay != "":
		return c.runFile()
	case c.first == c.last:
		return c.runPlan(sim.Draw(c.first), fmt.Sprintf("-seed %d", c.first))
	}
	if c.determinism {
		return c.checkMany()
	}
	return c.runMany()
}

func (c *config) runFile() int {
	text, err := os.ReadFile(c.replay)
	if err == nil {
		var p *sim.Plan
		if p, err = sim.Parse(string(text)); err == nil {
			return c.runPlan(p, "--replay "+c.replay)
		}
	}
	fmt.Fprintln(c.stderr, "sim:", err)
	return int(sim.BadPlan)
}

// runPlan runs one plan and says what came of it.
func (c *config) runPlan(p *sim.Plan, how string) int {
	if c.plan {
		fmt.Fprint(c.stdout, p)
		return 0
	}
	if c.determinism {
		return c.checkDeterminism(p)
	}
	o := sim.Options{Panics: c.panics, KeepHashes: c.hashes}
	if c.trace {
		o.Trace = func(line string) { fmt.Fprintln(c.stdout, line) }
	}
	start := time.Now()
	r := sim.Run(p, o)
	if c.hashes {
		return c.writeHashes(r)
	}
	c.print(p, r, time.Since(start))
	if !sim.Failed(p, r) {
		return int(sim.Verdict(p, r))
	}
	c.reportFailure(p, r, how)
	if c.shrink {
		c.writePlan(c.shrinkPlan(p), r, ".min.txt")
	}
	return int(sim.Verdict(p, r))
}

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/mortarmq/mortarmq/sim"
)

// writeHashes writes the hash after every event, for the process that compares.
func (c *config) writeHashes(r *sim.Result) int {
	if err := binary.Write(c.stdout, binary.LittleEndian, r.Hashes); err != nil {
		return int(sim.Broke)
	}
	return 0
}

// checkDeterminism runs the plan here and in another process, whose garbage
// collector, processors, environment and map seeds are others, and compares
// every event.
func (c *config) checkDeterminism(p *sim.Plan) int {
	mine := sim.Run(p, sim.Options{KeepHashes: true})
	theirs, err := c.elsewhere(p)
	if err != nil {
		fmt.Fprintln(c.stderr, "sim:", err)
		return int(sim.BadPlan)
	}
	for i := range min(len(mine.Hashes), len(theirs)) {
		if mine.Hashes[i] != theirs[i] {
			fmt.Fprintf(c.stdout, "seed %d: event %d differs:\n%s\n", p.Seed, i+1, lineOf(p, uint64(i+1)))
			return int(sim.Broke)
		}
	}
	if len(mine.Hashes) != len(theirs) {
		fmt.Fprintf(c.stdout, "seed %d: %d events here, %d in the other process\n", p.Seed, len(mine.Hashes), len(theirs))
		return int(sim.Broke)
	}
	fmt.Fprintf(c.stdout, "deterministic: seed %d: %d events, hash %016x%016x\n", p.Seed, mine.Events, mine.Hash[0], mine.Hash[1])
	return 0
}

// elsewhere runs the plan in another process.
func (c *config) elsewhere(p *sim.Plan) ([]uint64, error) {
	dir, err := os.MkdirTemp("", "sim")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "plan.txt")
	if err := os.WriteFile(file, []byte(p.String()), 0o600); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"--hashes", "--replay", file}
	if c.planted != "" {
		args = append(args, "--planted", c.planted)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), "GOGC=13", "GOMAXPROCS=1", "GODEBUG=randautoseed=0", "MORTARMQ_SIM=elsewhere")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, c.stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("the other process: %w", err)
	}
	hashes := make([]uint64, out.Len()/8)
	return hashes, binary.Read(&out, binary.LittleEndian, hashes)
}

// lineOf gives the trace line of an event, as it is here.
func lineOf(p *sim.Plan, event uint64) string {
	var line string
	prefix := fmt.Sprintf("%d ", event)
	sim.Run(p, sim.Options{Trace: func(s string) {
		if len(s) > len(prefix) && s[:len(prefix)] == prefix {
			line = s
		}
	}})
	return line
}

// checkMany checks the determinism of a range of seeds, one after another.
func (c *config) checkMany() int {
	for seed := c.first; seed <= c.last; seed++ {
		if code := c.checkDeterminism(sim.Draw(seed)); code != 0 {
			return code
		}
	}
	fmt.Fprintf(c.stdout, "%d seeds are deterministic\n", c.last-c.first+1)
	return 0
}

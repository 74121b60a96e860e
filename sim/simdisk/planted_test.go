package simdisk

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/disk/disktest"
)

// plantedEnv names the bug that a child process runs the suite with.
const plantedEnv = "SIMDISK_PLANTED"

// bug changes requests on their way in, or completions on their way out.
type bug struct {
	name, caughtBy string
	submit         func(d *Disk, r *disk.Request)
	complete       func(c *disk.Completion) bool // false loses it
}

// planted are wrong disks, and a case of the suite that has to catch each.
var planted = []bug{
	{"lying sync", "SyncIsDurable", func(d *Disk, _ *disk.Request) { d.LieSyncs(-1) }, nil},
	{"lost completion of a failure", "Once", nil, func(c *disk.Completion) bool { return c.Err != disk.ErrBadHandle }},
	{"truncate ignored", "TruncateAndZero", func(_ *Disk, r *disk.Request) {
		if r.Kind == disk.KindTruncate {
			r.Kind = disk.KindSpace
		}
	}, func(c *disk.Completion) bool {
		if c.Kind == disk.KindSpace && c.Handle != 0 {
			c.Kind = disk.KindTruncate
		}
		return true
	}},
	{"zero only reserves", "Model", func(_ *Disk, r *disk.Request) {
		if r.Kind == disk.KindZero {
			r.Length = 0
		}
	}, nil},
	{"read-only ignored", "ReadOnly", func(_ *Disk, r *disk.Request) { r.Flags &^= disk.FlagReadOnly }, nil},
	{"exclusive ignored", "Open", func(_ *Disk, r *disk.Request) { r.Flags &^= disk.FlagExclusive }, nil},
	{"lanes mixed up", "LaneOrder", func(_ *Disk, r *disk.Request) { r.Lane = disk.LaneRead }, nil},
	{"size not told", "Open", nil, func(c *disk.Completion) bool {
		if c.Kind == disk.KindOpen {
			c.N = 0
		}
		return true
	}},
}

// wrong is a disk with a planted bug.
type wrong struct {
	*Disk
	bug bug
}

func (w wrong) Submit(reqs []disk.Request) {
	reqs = slices.Clone(reqs)
	for i := range reqs {
		if f := w.bug.submit; f != nil {
			f(w.Disk, &reqs[i])
		}
	}
	w.Disk.Submit(reqs)
}

func (w wrong) Poll(into []disk.Completion) []disk.Completion {
	for _, c := range w.Disk.Poll(nil) {
		if f := w.bug.complete; f == nil || f(&c) {
			into = append(into, c)
		}
	}
	return into
}

// Goal: the conformance suite catches wrong disks, each by the case that should.
// The suite fails its test, so that each bug runs in a process of its own.
func TestSuiteCatchesPlantedBugs(t *testing.T) {
	for _, p := range planted {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestPlanted$/^"+p.caughtBy+"$")
		cmd.Env = append(os.Environ(), plantedEnv+"="+p.name)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "--- FAIL: TestPlanted/"+p.caughtBy) {
			t.Errorf("%s is not caught by %s: %v\n%s", p.name, p.caughtBy, err, out)
		}
	}
}

// Goal: runs the suite with the bug that the environment names, for the test above.
func TestPlanted(t *testing.T) {
	i := slices.IndexFunc(planted, func(b bug) bool { return b.name == os.Getenv(plantedEnv) })
	if i < 0 {
		t.Skip("only as a child of TestSuiteCatchesPlantedBugs")
	}
	disktest.Run(t, func(t *testing.T) disktest.Harness {
		d := New(Options{Seed: 1})
		return disktest.Harness{
			Disk:      wrong{d, planted[i]},
			Step:      func() { step(t, d) },
			PowerLoss: func() { d.Crash(PowerLoss); d.Restart() },
		}
	})
}

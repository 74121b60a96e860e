package simnet

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/net/nettest"
)

// plantedEnv names the bug that a child process runs the suite with.
const plantedEnv = "SIMNET_PLANTED"

// bug drops requests on their way in, or events on their way out, where it says
// false, and may change both.
type bug struct {
	name, caughtBy string
	submit         func(r *net.Request) bool
	event          func(e *net.Event) bool
}

// planted are wrong networks, and a case of the suite that has to catch each.
var planted = []bug{
	{"a byte flips", "Bytes", nil, func(e *net.Event) bool {
		if len(e.Data) == 5000 {
			e.Data[0]++
		}
		return true
	}},
	{"pause ignored", "PauseRead", func(r *net.Request) bool { return r.Kind != net.RequestPauseRead }, nil},
	{"progress never ends", "Progress", nil, func(e *net.Event) bool { e.Queued *= 2; return e.Kind != net.EventProgress || e.Queued > 0 }},
	{"progress after everything", "Progress", nil, func(e *net.Event) bool { e.Queued = max(0, 1<<30-e.Queued); return true }},
	{"progress in large steps", "SlowReader", nil, func(e *net.Event) bool { return e.Kind != net.EventProgress || e.Queued == 0 || e.Queued > 20<<20 }},
	{"abort is close", "Abort", func(r *net.Request) bool {
		if r.Kind == net.RequestAbort {
			r.Kind = net.RequestClose
		}
		return true
	}, nil},
	{"close is abort", "CloseFlushes", func(r *net.Request) bool {
		if r.Kind == net.RequestClose {
			r.Kind = net.RequestAbort
		}
		return true
	}, nil},
	{"planes mixed up", "Open", nil, func(e *net.Event) bool { e.Plane = net.PlanePeer; return true }},
	{"cause forgotten", "Refused", nil, func(e *net.Event) bool { e.Cause = net.CauseReset; return true }},
}

// wrong is a host with a planted bug.
type wrong struct {
	*Host
	bug bug
}

func (w wrong) Submit(reqs []net.Request) {
	reqs = slices.Clone(reqs)
	if f := w.bug.submit; f != nil {
		kept := reqs[:0]
		for _, r := range reqs {
			if f(&r) {
				kept = append(kept, r)
			}
		}
		reqs = kept
	}
	w.Host.Submit(reqs)
}

func (w wrong) Poll(into []net.Event, budget int) []net.Event {
	for _, e := range w.Host.Poll(nil, budget) {
		if f := w.bug.event; f == nil || f(&e) {
			into = append(into, e)
		}
	}
	return into
}

// Goal: the conformance suite catches wrong networks, each by the case that should.
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
	nettest.Run(t, func(t *testing.T) nettest.Harness {
		w := New(Options{Seed: 1})
		s, c := w.Host("server"), w.Host("client")
		if _, err := s.Listen("server:7188", net.PlaneClient); err != nil {
			t.Fatal(err)
		}
		return nettest.Harness{Server: wrong{s, planted[i]}, Client: wrong{c, planted[i]}, Addr: "server:7188", Nowhere: "server:1", Step: func() { step(t, w) }}
	})
}

package sim

import (
	"slices"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/clock"
)

// Goal: seeds hold, and a run is a pure function of its plan.
func TestSeeds(t *testing.T) {
	for seed := uint64(1); seed <= 5; seed++ {
		p := Draw(seed)
		a := Run(p, Options{})
		if a.Status != Held {
			t.Errorf("seed %d: %s at %d: %s", seed, a.Property, a.At, a.What)
		}
		again, err := Parse(p.String())
		if err != nil {
			t.Fatal(err)
		}
		if b := Run(again, Options{KeepHashes: true, Trace: func(string) {}}); a.Hash != b.Hash || a.Events != b.Events {
			t.Errorf("seed %d: two runs differ: %x after %d events, %x after %d", seed, a.Hash, a.Events, b.Hash, b.Events)
		}
	}
}

// Goal: a plan survives being written and read, whatever the seed.
func TestPlanText(t *testing.T) {
	for seed := uint64(1); seed <= 300; seed++ {
		text := Draw(seed).String()
		p, err := Parse(text)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		if p.String() != text {
			t.Fatalf("seed %d reads back as\n%s\nand was\n%s", seed, p, text)
		}
	}
}

// Goal: what is no plan is refused with its line.
func TestBadPlans(t *testing.T) {
	const head = "mortarmq-plan 1\nend 1s\ntopic t 1\n"
	for _, c := range [][2]string{
		{"", "empty"},
		{"hello", "does not begin"},
		{head + "knob tempo 3", "no knob tempo"},
		{head + "at 1s explode seed=1", "no event explode"},
		{head + "at 1x kill seed=1", "1x"},
		{head + "at 1s kill down", "name=number"},
		{head + "at 1s publish topic=4 seed=1", "no topic 4"},
		{head + "frobnicate", "line 4"},
		{"mortarmq-plan 1\nend 1s", "needs a topic"},
	} {
		if _, err := Parse(c[0]); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%q: %v, wanted %q", c[0], err, c[1])
		}
	}
}

// Goal: kinds of fault are absent in a good share of plans and present in
// another; a median plan has at least five faults.
func TestPlansDiffer(t *testing.T) {
	const seeds = 400
	with := map[string]int{}
	for seed := uint64(1); seed <= seeds; seed++ {
		seen := map[string]bool{}
		for _, e := range Draw(seed).Events {
			seen[e.Kind] = true
		}
		for k := range seen { // order-free: counts
			with[k]++
		}
	}
	for _, k := range eventKinds {
		if slices.Contains([]string{"client", "publish", "step", "books"}, k) { // the last two are for scenarios
			continue
		}
		if n := with[k]; n == 0 || n > seeds*4/5 {
			t.Errorf("%s is in %d of %d plans", k, n, seeds)
		}
	}
}

// Goal: a plan that fails is cut down to what makes it fail.
func TestShrink(t *testing.T) {
	p := Draw(3)
	runs := 0
	fails := func(c *Plan) bool {
		runs++
		kill, publishes := false, int64(0)
		for i := range c.Events {
			e := &c.Events[i]
			kill = kill || e.Kind == "wall"
			if e.Kind == "publish" {
				publishes += e.Int("n", 0)
			}
		}
		return kill && publishes >= 3
	}
	if !fails(p) {
		t.Fatal("the plan of seed 3 has neither: take another")
	}
	small := Shrink(p, fails, 1000)
	if len(small.Events) != 2 || len(small.Knobs) != 0 || !fails(small) {
		t.Fatalf("%d events and %d knobs after %d runs:\n%s", len(small.Events), len(small.Knobs), runs, small)
	}
}

// Goal: damage that no fault of the plan accounts for is no excuse: the run
// breaks, though the node refuses as loudly as it should.
func TestDamageWithoutFault(t *testing.T) {
	p, err := Parse("mortarmq-plan 1\nseed 1\nend 3s\nknob checkpoint_every 1m\nknob checkpoint_bytes 16777216\ntopic t 1\n" +
		"at 0 client id=0 kind=producer topic=0 seed=1\nat 100ms publish client=0 n=100 size=100 gap=1ms seed=2\nat 2s kill down=10ms seed=3\n")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(p, Options{})
	w.at(clock.Instant(1500*clock.Millisecond), func() {
		m := w.host.journal.marks[len(w.host.journal.marks)/2]
		w.host.disk.Rot(m.path, m.offset+m.bytes/2, []byte{4})
	})
	w.runUntil(clock.Instant(p.End), func() bool { return w.calm })
	w.finish()
	if r := w.result(); r.Status != Broke || r.Property != PropertyAvailability {
		t.Fatalf("%v %s %s", r.Status, r.Property, r.What)
	}
}

// Goal: a loss that the disk model does not account for is found: what a restart
// forgets, and what a client was told and no durable write holds.
func TestForgottenWithoutFault(t *testing.T) {
	p, err := Parse("mortarmq-plan 1\nseed 1\nend 3s\ntopic t 1\n" +
		"at 0 client id=0 kind=producer topic=0 seed=1\nat 100ms publish client=0 n=200 size=100 gap=5ms seed=2\n")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(p, Options{})
	w.at(clock.Instant(500*clock.Millisecond), func() { w.host.disk.LieSyncs(-1) })
	w.runUntil(clock.Instant(p.End), func() bool { return w.calm })
	w.finish()
	if r := w.result(); r.Status != Broke || r.Property != PropertyDurable {
		t.Fatalf("%v %s %s", r.Status, r.Property, r.What)
	}
}

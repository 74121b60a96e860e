package simclock

import (
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/sim/prng"
)

// Goal: a clock without faults shows the world's time.
func TestRight(t *testing.T) {
	c := New(Options{})
	if r := c.Read(); r.Mono != 1 || r.Wall != DefaultWall {
		t.Errorf("at the start: %+v", r)
	}
	c.Advance(clock.Instant(90 * clock.Second))
	c.Advance(0)
	if r := c.Read(); r.Mono != clock.Instant(90*clock.Second)+1 || r.Wall != DefaultWall+90_000 {
		t.Errorf("90 s later: %+v", r)
	}
}

// Goal: skew and steps move the wall alone, a restart the monotonic time alone.
func TestSkewStepsAndRestart(t *testing.T) {
	c := New(Options{WallSkewMillis: -5000})
	c.Advance(clock.Instant(clock.Second))
	before := c.Read()
	c.StepWall(3_600_000)
	if r := c.Read(); r.Mono != before.Mono || r.Wall != before.Wall+3_600_000 || before.Wall != DefaultWall-4000 {
		t.Errorf("from %+v to %+v", before, r)
	}
	c.Restart()
	if r := c.Read(); r.Mono != 1 || r.Wall != before.Wall+3_600_000 {
		t.Errorf("after the restart: %+v", r)
	}
	c.StepWall(-2 * int64(DefaultWall))
	if r := c.Read(); r.Wall != 0 {
		t.Errorf("before 1970: %+v", r)
	}
}

// Goal, invariants 1 to 3: over random rates and steps Mono never falls, and
// WorldAt is the first instant at which a deadline is reached.
func TestRates(t *testing.T) {
	chance := prng.New(1)
	c := New(Options{RatePermille: 500})
	last := c.Read().Mono
	for i := range 20000 {
		switch chance.Intn(4) {
		case 0:
			c.SetRate(chance.Range(500, 2000))
		case 1:
			c.StepWall(chance.Range(-4_000_000, 4_000_000))
		}
		if i%1000 == 0 {
			c.SetRate(RateMax)
		}
		target := last.Add(clock.Duration(chance.Range(0, int64(10*clock.Second))))
		at := c.WorldAt(target)
		if at > c.now {
			early := *c
			early.Advance(at - 1)
			if m := early.Read().Mono; m >= target {
				t.Fatalf("the deadline %d is reached before WorldAt", target)
			}
		}
		c.Advance(at)
		m := c.Read().Mono
		if m < target || m < last {
			t.Fatalf("Mono is %d at WorldAt(%d), it was %d", m, target, last)
		}
		last = m
	}
	if c.WorldAt(clock.Never) != clock.Never {
		t.Error("Never comes")
	}
}

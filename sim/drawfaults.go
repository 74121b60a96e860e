package sim

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/sim/prng"
)

// A kind of fault is absent in a good share of plans, so that what others do
// alone is seen too.
const kindPresentPermille = 420

// beyondPermille of the plans hold a fault beyond the atlas.
const beyondPermille = 130

func (d *drawer) faults() {
	r := d.r.Fork("faults")
	for i, f := range []struct {
		draw func(*prng.Rand)
		most int
	}{
		{d.kill, 4}, {d.power, 4}, {d.stop, 2}, {d.pause, 3},
		{d.diskSlow, 3}, {d.diskStall, 3}, {d.syncFail, 2}, {d.writeFail, 2}, {d.enospc, 2},
		{d.wall, 3}, {d.rate, 2},
		{d.cut, 5}, {d.halfopen, 3}, {d.partition, 3}, {d.slowLink, 2},
		{d.clientCrash, 4}, {d.clientStall, 4}, {d.storm, 2}, {d.clientLeave, 5},
	} {
		sub := r.ForkN("kind", uint64(i)) // every kind has chances of its own
		present := sub.Bool(kindPresentPermille)
		for range 1 + sub.Intn(f.most) {
			one := prng.New(sub.Uint64())
			if present {
				f.draw(one)
			}
		}
	}
	if r.Bool(beyondPermille) {
		d.beyond(r)
	}
}

// down draws how long a node stays away.
func down(r *prng.Rand) Arg {
	return num("down", []clock.Duration{0, clock.Millisecond, 50 * clock.Millisecond, 2 * clock.Second, 12 * clock.Second}[r.Weighted(3, 2, 4, 2, 1)])
}

func (d *drawer) crash(r *prng.Rand, kind string) {
	args := []Arg{down(r), num("midturn", bit(r.Bool(500)))}
	if r.Bool(250) {
		args = append(args, num("loops", 1+r.Intn(4)))
	}
	if r.Bool(350) {
		args = append(args, num("on", 1+r.Intn(len(onWords)-1)))
	}
	d.add(d.at(r), kind, r, args...)
}

func (d *drawer) kill(r *prng.Rand)  { d.crash(r, "kill") }
func (d *drawer) power(r *prng.Rand) { d.crash(r, "power") }
func (d *drawer) stop(r *prng.Rand)  { d.add(d.at(r), "stop", r, down(r)) }

// forMillis draws a span.
func forMillis(r *prng.Rand, low, high int64) Arg {
	return num("for", clock.Duration(r.Range(low, high))*clock.Millisecond)
}

func (d *drawer) pause(r *prng.Rand) { d.add(d.at(r), "pause", r, forMillis(r, 5, 5000)) }
func (d *drawer) diskSlow(r *prng.Rand) {
	d.add(d.at(r), "disk_slow", r, num("permille", pick(r, 5000, 20_000)), forMillis(r, 100, 3000))
}
func (d *drawer) diskStall(r *prng.Rand) {
	d.add(d.at(r), "disk_stall", r, num("lane", r.Intn(3)), forMillis(r, 50, 4000))
}
func (d *drawer) syncFail(r *prng.Rand) {
	d.add(d.at(r), "sync_fail", r, num("area", r.Weighted(5, 1, 1, 1, 1)), down(r))
}
func (d *drawer) writeFail(r *prng.Rand) {
	d.add(d.at(r), "write_fail", r, num("area", r.Weighted(5, 1, 1, 1, 1)), down(r))
}
func (d *drawer) enospc(r *prng.Rand) {
	d.add(d.at(r), "enospc", r, num("free", pick(r, 0, 4096, 40_000)), forMillis(r, 200, 4000))
}

func (d *drawer) wall(r *prng.Rand) {
	d.add(d.at(r), "wall", r, num("step", clock.Duration(pick(r, -3600, 3600, -5, 5))*clock.Second))
}
func (d *drawer) rate(r *prng.Rand) {
	d.add(d.at(r), "rate", r, num("permille", pick(r, 500, 900, 999, 1001, 1100, 2000)))
}

func (d *drawer) someClient(r *prng.Rand) Arg { return num("client", r.Intn(d.nextClient)) }

func (d *drawer) cut(r *prng.Rand) { d.add(d.at(r), "cut", r, d.someClient(r)) }
func (d *drawer) halfopen(r *prng.Rand) {
	d.add(d.at(r), "halfopen", r, d.someClient(r))
}
func (d *drawer) partition(r *prng.Rand) {
	d.add(d.at(r), "partition", r, d.someClient(r), num("dir", r.Intn(3)), forMillis(r, 100, 15_000))
}
func (d *drawer) slowLink(r *prng.Rand) {
	d.add(d.at(r), "slow_link", r, d.someClient(r), num("delay", clock.Duration(pick(r, 5, 50, 300))*clock.Millisecond), forMillis(r, 200, 5000))
}
func (d *drawer) clientCrash(r *prng.Rand) {
	d.add(d.at(r), "client_crash", r, d.someClient(r), forMillis(r, 0, 2000))
}
func (d *drawer) clientStall(r *prng.Rand) {
	d.add(d.at(r), "client_stall", r, d.someClient(r), forMillis(r, 100, 8000))
}
func (d *drawer) clientLeave(r *prng.Rand) {
	d.add(d.at(r), "client_leave", r, d.someClient(r), forMillis(r, 0, 2000))
}
func (d *drawer) storm(r *prng.Rand) { d.add(d.at(r), "storm", r) }

// beyond adds one kind of fault that the atlas does not promise to survive, in
// the second half, and something that makes it matter.
func (d *drawer) beyond(r *prng.Rand) {
	half := d.p.End / 2
	at := func() clock.Duration { return half + clock.Duration(r.Range(0, int64(half)-1)) }
	when := at()
	switch r.Weighted(3, 4, 2, 2, 2) {
	case 0:
		d.add(when, "lie", r, num("n", pick(r, -1, 1, 5)))
	case 1:
		d.add(when, "rot", r, num("area", r.Weighted(6, 1, 1, 2, 1)), num("n", 1+r.Weighted(6, 1, 1)))
	case 2:
		d.add(when, "lose", r, num("area", r.Intn(len(areaWords))))
	case 3:
		d.add(when, "misdirect", r, num("area", r.Intn(len(areaWords))))
	default:
		d.add(when, "read_fail", r, num("area", r.Intn(len(areaWords))))
	}
	d.add(when+clock.Duration(r.Range(0, int64(500*clock.Millisecond))), "power", r, num("down", clock.Millisecond))
}

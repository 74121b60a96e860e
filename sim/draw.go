package sim

import (
	"fmt"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node"
	"github.com/mortarmq/mortarmq/sim/prng"
)

// Draw makes the plan of a seed.
func Draw(seed uint64) *Plan {
	d := drawer{p: &Plan{Seed: seed, Expect: "held"}, r: prng.New(prng.Mix(seed, 0x6d6f72746172))}
	d.knobs()
	d.topics()
	d.clients()
	d.operator()
	d.faults()
	d.p.sort()
	return d.p
}

type drawer struct {
	p *Plan
	r *prng.Rand

	producers, consumers, raws int
	nextClient                 int
}

func (d *drawer) add(at clock.Duration, kind string, r *prng.Rand, args ...Arg) {
	d.p.Events = append(d.p.Events, Event{At: at, Kind: kind, Args: args, Seed: r.Uint64()})
}

func num[T ~int | ~int64](name string, v T) Arg { return Arg{name, int64(v)} }

// pick draws one of the values.
func pick(r *prng.Rand, values ...int64) int64 { return values[r.Intn(len(values))] }

func (d *drawer) knobs() {
	r := d.r.Fork("knobs")
	set := func(name string, v int64) { d.p.Knobs = append(d.p.Knobs, Arg{name, v}) }
	d.p.End = clock.Duration(r.Range(4, 16)) * clock.Second
	set("journal_file", pick(r, 32<<10, 64<<10, 256<<10, 1<<20))
	set("checkpoint_bytes", pick(r, 64<<10, 256<<10, 1<<20))
	set("checkpoint_every", pick(r, 300, 1000, 5000, 30_000)*int64(clock.Millisecond))
	set("segment_bytes", pick(r, 8<<10, 32<<10, 256<<10))
	set("snapshot_records", pick(r, 8, 32, 8192))
	set("read_chunk", pick(r, 4<<10, 16<<10, 64<<10))
	set("piece_bytes", pick(r, 1<<10, 16<<10))
	set("lease", pick(r, 1000, 3000, 30_000)*int64(clock.Millisecond))
	set("backoff", pick(r, 10, 100, 500)*int64(clock.Millisecond))
	set("backoff_max", pick(r, 500, 2000)*int64(clock.Millisecond))
	set("attempts", pick(r, 1, 2, 5, 5))
	set("split", pick(r, 0, 300, 700))
	set("turn_max", pick(r, 10, 50, 500)*int64(clock.Microsecond))
	set("slow", pick(r, 500, 1000, 1000, 5000))
	set("credit_count", pick(r, 4, 64, 256))
	set("inflight", pick(r, 1, 16, 128))
	if r.Bool(150) {
		set("rate_limit", pick(r, 10, 500))
	}
	if r.Bool(300) {
		set("tokens", 1)
	}
	set("credit_bytes", pick(r, 128<<10, 256<<10)) // the largest message fits, not two of them
}

func (d *drawer) topics() {
	r := d.r.Fork("topics")
	for i := range 1 + r.Weighted(5, 3, 1) {
		d.p.Topics = append(d.p.Topics, Topic{fmt.Sprintf("t%d", i), int(pick(r, 1, 2, 4, 8))})
	}
}

func (d *drawer) clients() {
	r := d.r.Fork("clients")
	topics := len(d.p.Topics)
	start := func() clock.Duration { return clock.Duration(r.Range(0, int64(300*clock.Millisecond))) }
	var writers []int
	for range 1 + r.Intn(4) {
		d.add(start(), "client", r, num("id", d.nextClient), num("kind", clientProducer), num("topic", r.Intn(topics)),
			num("plain", bit(r.Bool(150))))
		writers = append(writers, d.nextClient)
		d.nextClient++
		d.producers++
	}
	for range r.Weighted(2, 3, 1) {
		group := r.Intn(3)
		topic := group % topics // where the consumers of that group are, if there are any
		if r.Bool(300) {
			topic = r.Intn(topics)
		}
		d.add(start(), "client", r, num("id", d.nextClient), num("kind", clientRaw), num("topic", topic), num("group", group),
			num("mute", pick(r, 0, 0, 0, 300, 1000)))
		d.rawWork(r, d.nextClient)
		d.nextClient++
		d.raws++
	}
	for g := range 1 + r.Intn(3) {
		topic := g % topics
		for range 1 + r.Weighted(30, 30, 20, 10, 3, 3, 2, 2) { // with two raw ones, as many as a group takes
			at := start()
			if r.Bool(150) {
				at = d.at(r) // late
			}
			d.consumer(r, at, topic, g)
		}
	}
	if r.Bool(200) {
		for range 1 + r.Intn(2) {
			d.consumer(r, start(), 0, 0, num("twin", 1))
		}
	}
	d.publishes(r, writers)
	if r.Bool(400) {
		for range 1 + r.Intn(4) {
			d.add(d.at(r), "hostile", r, num("n", 1+r.Intn(12)))
		}
	}
	if r.Bool(300) {
		for range 1 + r.Intn(3) {
			d.add(d.at(r), "churn", r, num("n", 1+r.Intn(4)))
		}
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// at draws an instant of the storm.
func (d *drawer) at(r *prng.Rand) clock.Duration {
	return clock.Duration(r.Range(int64(50*clock.Millisecond), int64(d.p.End)))
}

func (d *drawer) consumer(r *prng.Rand, at clock.Duration, topic, group int, more ...Arg) {
	args := []Arg{num("id", d.nextClient), num("kind", clientConsumer), num("topic", topic), num("group", group),
		num("think", pick(r, 0, 0, 1, 20)*int64(clock.Millisecond))}
	if r.Bool(400) {
		args = append(args, num("retry", r.Range(5, 150)))
	}
	if r.Bool(250) {
		args = append(args, num("reject", r.Range(5, 60)))
	}
	if r.Bool(250) {
		args = append(args, num("release", r.Range(5, 100)))
	}
	if r.Bool(250) {
		args = append(args, num("ignore", r.Range(5, 50)))
	}
	if r.Bool(200) {
		args = append(args, num("handout", r.Range(2, 20)))
	}
	if r.Bool(150) {
		args = append(args, num("strict", 1))
	}
	if r.Bool(150) {
		args = append(args, num("latest", 1))
	}
	d.add(at, "client", r, append(args, more...)...)
	d.nextClient++
	d.consumers++
}

// publishes spreads bursts over the storm.
func (d *drawer) publishes(r *prng.Rand, writers []int) {
	total := int(r.Range(400, 2200))
	size := pick(r, 16, 100, 1000)
	for total > 0 {
		n := min(total, int(r.Range(5, 120)))
		total -= n
		args := []Arg{num("client", writers[r.Intn(len(writers))]), num("n", n), num("size", size), num("keys", pick(r, 0, 0, 3, 50))}
		if r.Bool(30) {
			args[2].Value = pick(r, 20_000, 40_000, 100_000)
			args[1].Value = min(args[1].Value, 6)
		}
		if r.Bool(300) {
			args = append(args, num("gap", pick(r, 100, 1000, 10_000)*int64(clock.Microsecond)))
		}
		d.add(clock.Duration(r.Range(0, int64(d.p.End)*9/10)), "publish", r, args...)
	}
}

// rawWork gives a raw client things to do.
func (d *drawer) rawWork(r *prng.Rand, id int) {
	for range 3 + r.Intn(8) {
		d.add(d.at(r), "raw", r, num("client", id), num("n", 5+r.Intn(40)), num("odd", r.Range(0, 300)))
	}
}

// operator draws what an operator does: dead letters put back, more than once,
// or purged, groups reset and deleted, with their clients gone or not.
func (d *drawer) operator() {
	r := d.r.Fork("operator")
	topic := func() Arg { return num("topic", r.Intn(len(d.p.Topics))) }
	if r.Bool(350) {
		t := topic()
		for range 1 + r.Intn(4) {
			d.add(d.at(r), "redrive", r, t, num("n", pick(r, 1, 7, 1000)))
		}
	}
	if r.Bool(120) {
		d.add(d.at(r), "purge", r, topic())
	}
	for _, kind := range []string{"reset", "delete"} {
		if !r.Bool(200) {
			continue
		}
		for range 1 + r.Intn(2) {
			g := r.Intn(3)
			args := []Arg{num("topic", g%len(d.p.Topics)), num("group", g), num("clear", bit(r.Bool(800))), forMillis(r, 200, 2000)}
			if kind == "reset" {
				to, value := r.Intn(len(toWords)), r.Range(1, 300)
				if node.ResetKind(to) == node.ResetToTime {
					value *= 100 // up to half a minute
				}
				args = append(args, num("to", to), num("value", value))
			}
			d.add(d.at(r), kind, r, args...)
		}
	}
}

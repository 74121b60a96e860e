package simtrans

import (
	"fmt"
	"strconv"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/sim/prng"
	"github.com/mortarmq/mortarmq/sim/simnet"
)

// Result is what came of a run.
type Result struct {
	Seed      uint64
	Violation *Violation // nil if every property held
	Hash      [2]uint64  // over every effect
	Effects   uint64
	Requests  int
	Answered  int
	Faults    int
	Virtual   clock.Duration
	// Marks counts how often each state worth reaching was reached.
	Marks map[string]int
}

func (r *Result) String() string {
	verdict := "held"
	if r.Violation != nil {
		verdict = r.Violation.String()
	}
	return fmt.Sprintf("seed %d: %s; %d effects, %d of %d requests answered, %d faults, %d ms, hash %016x%016x",
		r.Seed, verdict, r.Effects, r.Answered, r.Requests, r.Faults, r.Virtual.Millis(), r.Hash[0], r.Hash[1])
}

// How long the parts of a run are, the storm apart.
const (
	defaultStorm = 40 * clock.Second
	// settle is long enough for a half-open connection to be noticed and replaced.
	settle   = 2*idleMax + 10*clock.Second
	lastWord = 3 * patienceMax
	farewell = 40 * clock.Second // simnet's patience with a flush and a drain
)

// world is hosts, the processes on them, and what happens to them.
type world struct {
	net       *simnet.World
	judge     *judge
	knobs     knobs
	options   Options
	chance    *prng.Rand
	now       clock.Instant
	hosts     []*simnet.Host
	endpoints []*endpoint // by host; nil while the process is down
	lives     uint64      // of processes, so far
	mending   []mend
	events    []net.Event
	faults    int
	actAt     clock.Instant
}

// mend takes a fault back.
type mend struct {
	at clock.Instant
	do func()
}

// Run makes the run of a seed.
func Run(o Options) Result {
	if o.Storm == 0 {
		o.Storm = defaultStorm
	}
	o.Parts = o.Parts.withDefaults()
	root := prng.New(o.Seed)
	w := &world{judge: newJudge(), knobs: drawKnobs(root.Fork("knobs")), options: o, chance: root.Fork("world")}
	w.net = simnet.New(simnet.Options{Seed: root.SubSeed("net"), Observe: func(e simnet.Effect) {
		w.judge.hash.text(e.What)
		w.judge.hash.add(uint64(e.At), uint64(e.Conn), uint64(e.Bytes))
	}})
	for i := range servers + w.knobs.clients {
		name := "server"
		if i >= servers {
			name = "client"
		}
		w.hosts = append(w.hosts, w.net.Host(name+strconv.Itoa(i)))
		w.endpoints = append(w.endpoints, nil)
	}
	for i := range w.hosts {
		w.up(i)
	}
	w.storm(clock.Instant(o.Storm))
	w.calm()
	return w.result()
}

func (w *world) result() Result {
	j := w.judge
	return Result{
		Seed: w.options.Seed, Violation: j.broken, Hash: [2]uint64{j.hash.a, j.hash.b}, Effects: j.hash.count,
		Requests: len(j.asked), Answered: j.answered, Faults: w.faults, Virtual: clock.Duration(w.now), Marks: j.marks,
	}
}

// up starts a process on a host, with lines to every server but itself.
func (w *world) up(i int) {
	h := w.hosts[i]
	h.Restart()
	w.lives++
	e := newEndpoint(h.Name(), w.judge, &w.knobs, w.options.Parts, w.chance.ForkN(h.Name(), w.lives))
	// A ConnID of a process that has died does not come again.
	e.nextID = net.ConnID(w.lives<<32 + 1)
	for s := range servers {
		if i < servers && s <= i {
			continue // servers dial upwards
		}
		port := 1 + int(prng.Mix(w.options.Seed, uint64(i*servers+s))%2)
		e.lines = append(e.lines, &line{addr: w.hosts[s].Name() + ":" + strconv.Itoa(port), redialAt: w.now})
	}
	if i < servers {
		w.listen(h, ":1", net.PlanePeer)
		w.listen(h, ":2", net.PlaneClient)
	}
	w.endpoints[i] = e
}

func (w *world) listen(h *simnet.Host, port string, plane net.Plane) {
	if _, err := h.Listen(h.Name()+port, plane); err != nil {
		panic("simtrans: " + err.Error())
	}
}

// down kills the process of a host, or its machine.
func (w *world) down(i int, kind simnet.CrashKind) {
	if w.endpoints[i] == nil {
		return
	}
	w.hosts[i].Crash(kind)
	w.endpoints[i] = nil
	w.judge.crashed(w.hosts[i].Name())
}

// storm lets everything go wrong until the given instant.
func (w *world) storm(until clock.Instant) {
	for w.now < until && w.judge.broken == nil {
		if w.actAt <= w.now {
			w.act()
			w.actAt = w.now.Add(clock.Duration(w.chance.Range(1, 2*int64(w.knobs.actEvery))))
		}
		w.step(min(until, w.actAt))
	}
}

// step goes on to the next instant at which anything happens, or to the limit.
func (w *world) step(limit clock.Instant) {
	at := min(limit, w.net.NextDeadline())
	for i, e := range w.endpoints {
		if e != nil {
			at = min(at, e.dueAt())
			if w.hosts[i].Pending() {
				at = w.now
			}
		}
	}
	for i := range w.mending {
		at = min(at, w.mending[i].at)
	}
	w.now = max(w.now, at)
	w.judge.now = w.now
	w.mend()
	w.net.Advance(w.now)
	first := w.chance.Intn(len(w.endpoints))
	for k := range w.endpoints {
		i := (first + k) % len(w.endpoints)
		if e := w.endpoints[i]; e != nil && (w.hosts[i].Pending() || e.dueAt() <= w.now) {
			w.turn(i)
		}
	}
}

// turn gives an endpoint what has arrived, all or some of it.
func (w *world) turn(i int) {
	h, e := w.hosts[i], w.endpoints[i]
	budget := net.ReadAheadBytes
	if w.chance.Bool(200) {
		budget = 1 + w.chance.Intn(4096)
	}
	w.events = h.Poll(w.events[:0], budget)
	e.turn(w.now, w.events, !h.Pending())
	w.submit(i)
}

func (w *world) submit(i int) {
	e := w.endpoints[i]
	w.hosts[i].Submit(e.submit)
	clear(e.submit)
	e.submit = e.submit[:0]
}

// mend takes back the faults whose time is over.
func (w *world) mend() {
	kept := w.mending[:0]
	for _, m := range w.mending {
		if m.at <= w.now {
			m.do()
			continue
		}
		kept = append(kept, m)
	}
	clear(w.mending[len(kept):])
	w.mending = kept
}

// runFor lets time pass without anybody's doing, until the time is over or until says so.
func (w *world) runFor(d clock.Duration, until func() bool) {
	end := w.now.Add(d)
	for w.now < end && w.judge.broken == nil && (until == nil || !until()) {
		w.step(end)
	}
}

package sim

import (
	"fmt"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/sim/prng"
	"github.com/mortarmq/mortarmq/sim/simnet"
)

// Options are what a run needs beside its plan. None of it changes what happens.
type Options struct {
	// Trace gets a line for every event, when set.
	Trace func(line string)
	// KeepHashes keeps the rolling hash after every event.
	KeepHashes bool
	// Panics lets a panic of the broker through, with its stack, instead of
	// making a finding of it.
	Panics bool
}

// world is one run.
type world struct {
	plan    *Plan
	options Options
	rand    *prng.Rand
	now     clock.Instant
	timers  timers
	hash    rolling
	rec     recorder
	judge   judge
	marks   *fault.Marks
	atlas   atlas

	net      *simnet.World
	host     *host
	clients  []actor // by the plan's id
	others   []actor // admin and hostile ones
	admin    *admin
	operator operator
	hostiles int

	ready   bool // the plan's topics are declared
	calm    bool // the storm is over
	stopped bool // the run has ended
	faults  int  // that happened
}

// actor is a client.
type actor interface {
	// due is when it wants a turn, Never when it does not.
	due() clock.Instant
	// turn gives it one.
	turn()
	// carryOut does what an event of the plan asks of it.
	carryOut(e *Event)
	// crash ends its process, which comes back after the span.
	crash(after clock.Duration)
	// depart makes it leave its group in good order and come back after the span.
	depart(span clock.Duration)
	// stall makes it deaf and idle until then.
	stall(until clock.Instant)
	// calm tells it that the storm is over: it is to finish and start nothing.
	calm()
	// busy says what it still waits for, "" for nothing.
	busy() string
	// leave makes it close its connections in good order.
	leave()
	// group is the consumer group that it is a member of, "" without one.
	group() string
	// place is where it lives in the network.
	place() *simnet.Host
}

func newWorld(p *Plan, o Options) *world {
	w := &world{plan: p, options: o, rand: prng.New(prng.Mix(p.Seed, 0x776f726c64)), marks: fault.NewMarks(), now: 1}
	w.hash.keep = o.KeepHashes
	w.judge.w, w.atlas.w, w.operator.w = w, w, w
	w.net = simnet.New(simnet.Options{Seed: w.rand.SubSeed("net"), Observe: w.netEffect,
		Link: simnet.Link{DelayMin: p.Span("link_min"), DelayMax: p.Span("link_max")}})
	w.host = newHost(w)
	w.admin = newAdmin(w)
	w.others = append(w.others, w.admin)
	for i := range p.Events {
		e := &p.Events[i]
		w.at(clock.Instant(e.At)+1, func() { w.carryOut(e) })
	}
	w.at(clock.Instant(p.End), w.beginCalm)
	return w
}

// at does f at an instant.
func (w *world) at(at clock.Instant, f func()) { w.timers.push(at, f) }

// after does f when the span has passed.
func (w *world) after(d clock.Duration, f func()) { w.at(w.now.Add(d), f) }

// note adds an event to the hash, and to the trace.
func (w *world) note(kind string, words ...uint64) {
	h := uint64(len(kind))
	for i := range len(kind) {
		h = h*31 + uint64(kind[i])
	}
	w.hash.add(append(words, h, uint64(w.now))...)
	if w.options.Trace != nil {
		w.options.Trace(fmt.Sprintf("%d %s %s %x", w.hash.events, stamp(w.now), kind, words))
	}
}

// tell adds a line to the trace that is no event.
func (w *world) tell(format string, args ...any) {
	if w.options.Trace != nil {
		w.options.Trace(fmt.Sprintf("  %s %s", stamp(w.now), fmt.Sprintf(format, args...)))
	}
}

// stamp writes an instant in seconds.
func stamp(t clock.Instant) string {
	return fmt.Sprintf("%d.%09ds", int64(t)/1_000_000_000, int64(t)%1_000_000_000)
}

// netEffect sees every effect of the network.
func (w *world) netEffect(e simnet.Effect) {
	w.note("net "+e.What, uint64(e.Conn), uint64(e.Bytes), sum([]byte(e.From+">"+e.To)))
}

// next is the next instant at which anything is due.
func (w *world) next() clock.Instant {
	at := min(w.timers.due(), w.net.NextDeadline(), w.host.due())
	for _, list := range [2][]actor{w.clients, w.others} {
		for _, a := range list {
			at = min(at, a.due())
		}
	}
	return at
}

// step goes to the next instant and does what is due then. It is false when
// nothing ever will be.
func (w *world) step() bool {
	at := w.next()
	if at == clock.Never {
		return false
	}
	w.now = max(w.now, at)
	for !w.stopped && w.timers.due() <= w.now {
		w.timers.pop()()
	}
	w.net.Advance(w.now)
	w.host.advance()
	for _, list := range [2][]actor{w.clients, w.others} {
		for _, a := range list {
			if !w.stopped && a.due() <= w.now {
				a.turn()
			}
		}
	}
	return true
}

// runUntil steps until f holds or the instant is reached.
func (w *world) runUntil(end clock.Instant, f func() bool) bool {
	for !w.stopped {
		if f() {
			return true
		}
		if w.next() > end || !w.step() {
			w.now = max(w.now, end)
			return f()
		}
	}
	return false
}

// carryOut does an event of the plan.
func (w *world) carryOut(e *Event) {
	if w.calm {
		return
	}
	w.note("event "+e.Kind, e.Seed)
	switch e.Kind {
	case "client":
		w.addClient(e)
	case "publish", "raw", "step":
		if a := w.client(e); a != nil {
			a.carryOut(e)
		}
	case "redrive", "purge", "reset", "delete":
		w.operator.take(e)
	case "books":
		w.expectBooks(e)
	case "hostile":
		w.addHostiles(e)
	case "churn":
		w.admin.churn(e)
	default:
		w.strike(e)
	}
}

// client gives the client that an event names, nil where it has not started.
func (w *world) client(e *Event) actor {
	if id := e.Int("client", 0); id >= 0 && id < int64(len(w.clients)) {
		return w.clients[id]
	}
	return nil
}

// addClient starts a client: id, kind, topic, and what the kind takes.
func (w *world) addClient(e *Event) {
	id := int(e.Int("id", 0))
	if id < 0 || id >= 1000 {
		return
	}
	for id >= len(w.clients) {
		w.clients = append(w.clients, &nobody{})
	}
	if _, free := w.clients[id].(*nobody); !free {
		return
	}
	switch e.Int("kind", 0) {
	case clientRaw, clientMember:
		w.clients[id] = newRaw(w, id, e)
	default:
		w.clients[id] = newClient(w, id, e)
	}
}

// beginCalm ends the storm.
func (w *world) beginCalm() {
	w.calm = true
	w.note("calm")
	w.net.HealAll()
	for _, a := range w.clients {
		w.resetLink(a.place())
	}
	w.host.heal()
	for _, a := range w.clients {
		a.calm()
	}
}

// finding ends the run with a broken property.
func (w *world) finding(property, format string, args ...any) {
	w.judge.finding(property, fmt.Sprintf(format, args...))
}

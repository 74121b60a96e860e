package sim

import (
	"fmt"

	"github.com/mortarmq/mortarmq/client/core"
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/sim/prng"
	"github.com/mortarmq/mortarmq/sim/simnet"
	"github.com/mortarmq/mortarmq/wire"
)

// admin is the client that declares the plan's topics before anything else, and
// makes and deletes others when the plan asks for it. It does not crash.
type admin struct {
	nobody
	w        *world
	net      *simnet.Host
	core     *core.Core
	in       []core.Input
	out      core.Effects
	events   []net.Event
	deadline clock.Instant
	ids      []uint16 // of the plan's topics
	declared int
	open     int // calls without an answer
	left     bool
}

// churnRef is added to the reference of a call that is not about a plan's topic.
const churnRef = 1 << 32

func newAdmin(w *world) *admin {
	o := core.Options{Addrs: []string{nodeAddr}, Seed: w.rand.SubSeed("admin")}
	if w.plan.Knob("tokens") != 0 {
		o.Token = []byte(token)
	}
	a := &admin{w: w, net: w.net.Host("admin"), core: core.New(o), deadline: w.now, ids: make([]uint16, len(w.plan.Topics))}
	a.declareNext()
	return a
}

// declareNext asks for the next of the plan's topics: one after the other, so
// that their ids are known.
func (a *admin) declareNext() {
	if a.declared == len(a.ids) {
		a.w.ready = true
		return
	}
	t := a.w.plan.Topics[a.declared]
	a.call(core.Input{Kind: core.InputDeclare, Ref: uint64(a.declared), Topic: t.Name, Count: uint16(t.Partitions)})
}

func (a *admin) call(in core.Input) {
	a.open++
	a.in = append(a.in, in)
	a.deadline = a.w.now
}

// topicID gives the id of the plan's topic.
func (a *admin) topicID(i int) uint16 { return a.ids[i] }

// churn makes and deletes n topics that nobody uses.
func (a *admin) churn(e *Event) {
	r := prng.New(e.Seed)
	for range e.Int("n", 1) {
		kind := core.InputDeclare
		if r.Bool(400) {
			kind = core.InputDelete
		}
		a.call(core.Input{Kind: kind, Ref: churnRef, Topic: fmt.Sprintf("churn%d", r.Intn(4)), Count: uint16(r.Intn(4))})
	}
}

func (a *admin) due() clock.Instant {
	if a.net.Pending() {
		return min(a.deadline, a.w.now)
	}
	return a.deadline
}

func (a *admin) turn() {
	a.events = a.net.Poll(a.events[:0], 64<<10)
	for i := range a.events {
		a.in = append(a.in, core.Input{Kind: core.InputNet, Net: a.events[i]})
	}
	a.core.Turn(a.w.now, a.in, &a.out)
	clear(a.in)
	a.in = a.in[:0]
	a.deadline = a.out.Deadline
	for i := range a.out.Requests {
		a.w.note("admin "+netKind(a.out.Requests[i].Kind), sum(a.out.Requests[i].Data))
	}
	a.net.Submit(a.out.Requests)
	for i := range a.out.Events {
		a.event(&a.out.Events[i])
	}
}

func (a *admin) event(e *core.Event) {
	if e.Kind != core.EventDeclared {
		return
	}
	a.open--
	if e.Ref == churnRef {
		return
	}
	if e.Err.Failed() {
		a.w.finding(PropertyAvailability, "topic %s cannot be declared: %s %s", a.w.plan.Topics[e.Ref].Name, e.Err.Code, e.Err.Message)
		return
	}
	if e.Declared == wire.DeclareIdempotent && e.Partitions != uint16(a.w.plan.Topics[e.Ref].Partitions) {
		a.w.finding(PropertyProtocol, "topic %d has %d partitions", e.Ref, e.Partitions)
	}
	a.ids[e.Ref] = e.TopicID
	a.declared++
	a.declareNext()
}

func (a *admin) place() *simnet.Host { return a.net }

func (a *admin) busy() string {
	if a.open > 0 {
		return fmt.Sprintf("admin waits for %d declarations", a.open)
	}
	return ""
}

func (a *admin) leave() {
	if !a.left {
		a.left = true
		a.in = append(a.in, core.Input{Kind: core.InputClose})
		a.deadline = a.w.now
	}
}

// nobody stands where the plan has no client. Actors that the plan asks for less
// than of a client have the rest from it.
type nobody struct{}

func (nobody) group() string         { return "" }
func (nobody) due() clock.Instant    { return clock.Never }
func (nobody) turn()                 {}
func (nobody) carryOut(*Event)       {}
func (nobody) crash(clock.Duration)  {}
func (nobody) depart(clock.Duration) {}
func (nobody) stall(clock.Instant)   {}
func (nobody) calm()                 {}
func (nobody) busy() string          { return "" }
func (nobody) leave()                {}
func (nobody) place() *simnet.Host   { return nil }

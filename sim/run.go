package sim

import (
	"fmt"

	"github.com/mortarmq/mortarmq/checker"
	"github.com/mortarmq/mortarmq/clock"
)

// Status is how a run ended.
type Status int

// The statuses, which are exit codes too.
const (
	Held         Status = 0
	Broke        Status = 1
	BadPlan      Status = 2
	Inconclusive Status = 3
)

func (s Status) String() string {
	return [...]string{"held", "broke", "bad plan", "inconclusive"}[s]
}

// Result is what came of a run.
type Result struct {
	Status   Status
	Property string // the first that broke
	At       clock.Instant
	What     string
	All      []checker.Finding
	// Refused says that the node refused to go on because of a fault beyond the
	// atlas, and how it named it.
	Refused string
	// Excused names a fault beyond the atlas that happened.
	Excused string

	Events     uint64 // effects taken into the hash
	Operations uint64 // of clients
	Committed  uint64 // messages in the final logs
	Faults     int    // that happened
	Deliveries int
	Restarts   int
	Checks     uint64 // acknowledgements held against the disk model
	Virtual    clock.Duration
	Hash       [2]uint64
	Hashes     []uint64
	Marks      map[string]uint64
}

// Bounds of what follows the storm, in virtual time.
const (
	damagedMax = clock.Minute // with a damaged partition, which is never done
	settleTime = 3 * clock.Second
	closeMax   = 2 * clock.Minute
	stopMax    = clock.Minute
	readMax    = clock.Minute
	setupMax   = 5 * clock.Minute
)

// Run runs a plan. It is a pure function of it: see Options for the rest.
func Run(p *Plan, o Options) *Result {
	w := newWorld(p, o)
	w.runUntil(clock.Instant(p.End), func() bool { return w.calm })
	w.finish()
	return w.result()
}

// finish lets the world come to rest and looks at what is left.
func (w *world) finish() {
	if w.stopped {
		return
	}
	if !w.drain() {
		return
	}
	// What a dead client sent may still be on its way to the node.
	w.runUntil(w.now.Add(settleTime), func() bool { return false })
	if !w.drain() || !w.closeAll() || !w.stopNode() {
		return
	}
	w.verifyOffline()
	if w.stopped || !w.readLogs() {
		return
	}
	w.resolve()
	w.host.leases.judge(&w.rec.h)
	v := checker.Check(&w.rec.h, checker.Options{})
	w.judge.inconclusive = v.Inconclusive
	if w.atlas.beyondWhat != "" {
		v.Findings = w.atlas.excuse(v.Findings)
	}
	w.judge.findings = append(w.judge.findings, v.Findings...)
}

// drain waits until every client has what it asked for and every group has
// nothing left.
func (w *world) drain() bool {
	if !w.ready && !w.runUntil(w.now.Add(setupMax), func() bool { return w.ready }) {
		w.stuck("the plan's topics are not declared")
		return false
	}
	reason := ""
	checkAt := w.now
	end, started := w.now.Add(w.plan.Span("drain")), w.now
	ok := w.runUntil(end, func() bool {
		if w.atlas.damaged && w.now > started.Add(damagedMax) {
			w.stuck(reason) // what is damaged stays so
			return false
		}
		if w.now < checkAt {
			return false
		}
		checkAt = w.now.Add(10 * clock.Millisecond)
		reason = w.busy()
		return reason == ""
	})
	if !ok && !w.stopped {
		w.stuck(reason)
	}
	return ok
}

// stuck ends the run: something never came to its end.
func (w *world) stuck(reason string) {
	if w.atlas.forgot { // its clients wait for what cannot come back
		w.stopped = true
		return
	}
	if w.atlas.beyondWhat != "" && w.atlas.damaged {
		w.atlas.refused = "a partition is damaged and was refused: " + reason
		w.stopped = true
		return
	}
	w.finding(PropertyLiveness, "at %s, %s after the storm: %s", stamp(w.now), stamp(w.now-clock.Instant(w.plan.End)), reason)
}

// busy says what is still waited for.
func (w *world) busy() string {
	if !w.host.serving() {
		return "the node does not serve: " + w.host.lastDown
	}
	for _, list := range [2][]actor{w.clients, w.others} {
		for _, a := range list {
			if s := a.busy(); s != "" {
				return s
			}
		}
	}
	if s := w.operator.busy(); s != "" {
		return s
	}
	v := w.host.node.Machine().View()
	for g, ok := v.NextGroup(0); ok; g, ok = v.NextGroup(g.ID) {
		for p := range g.Partitions {
			if c, ok := v.Cursor(g.ID, partitionID(p)); ok && c.Unsettled > 0 {
				return fmt.Sprintf("group %s has %d unsettled messages in partition %d (floor %d, next %d, last %d, %d dead)", g.Name, c.Unsettled, p, c.Floor, c.NextFirst, c.LastSeq, c.Dead)
			}
		}
	}
	return ""
}

// closeAll lets every client leave: nothing of them may stay behind.
func (w *world) closeAll() bool {
	w.judge.sample() // the last books, with everything settled
	for _, list := range [2][]actor{w.clients, w.others} {
		for _, a := range list {
			a.leave()
		}
	}
	ok := w.runUntil(w.now.Add(closeMax), func() bool {
		return w.host.serving() && w.host.node.Sessions().Stats().Connections == 0
	})
	if !ok && !w.stopped {
		w.finding(PropertyLeak, "%d connections are left after every client has gone", w.host.node.Sessions().Stats().Connections)
	}
	return ok
}

// result sums the run up.
func (w *world) result() *Result {
	r := &Result{
		All: w.judge.findings, Refused: w.atlas.refused, Excused: w.atlas.beyondWhat,
		Events: w.hash.events, Operations: w.rec.operations(), Faults: w.faults, Deliveries: len(w.rec.h.Deliveries),
		Restarts: w.host.incarnation - 1, Checks: w.judge.checks,
		Virtual: clock.Duration(w.now), Hash: [2]uint64{w.hash.a, w.hash.b}, Hashes: w.hash.each, Marks: map[string]uint64{},
	}
	w.marks.AddTo(r.Marks)
	for i := range w.rec.h.Logs {
		r.Committed += uint64(len(w.rec.h.Logs[i].Records))
	}
	for _, m := range w.plan.Reach {
		if r.Marks[m] == 0 && len(r.All) == 0 {
			r.All = append(r.All, checker.Finding{Property: PropertyReach, What: "the run did not come by " + m})
		}
	}
	if len(w.rec.h.Logs) == 0 { // they were not read: what clients know of
		for i := range w.rec.h.Publishes {
			if w.rec.h.Publishes[i].Outcome == checker.OK {
				r.Committed++
			}
		}
	}
	switch {
	case len(r.All) > 0:
		f := r.All[0]
		r.Status, r.Property, r.At, r.What = Broke, f.Property, clock.Instant(f.At), f.What
		if f.Property == PropertyPlan {
			r.Status = BadPlan
		}
	case len(w.judge.inconclusive) > 0:
		r.Status, r.What = Inconclusive, w.judge.inconclusive[0]
	}
	return r
}

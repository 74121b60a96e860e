package sim

import (
	"fmt"
	"math"

	"github.com/mortarmq/mortarmq/checker"
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/op"
)

// Properties that a run checks itself, beside those of package checker.
const (
	PropertyReach        = "reach"        // a scenario did not come by what it is about
	PropertyExpectation  = "expectation"  // a scenario went otherwise than it says
	PropertyPlan         = "plan"         // the plan asks for something that cannot be
	PropertyPanic        = "panic"        // an assertion or a crash of the broker or a client
	PropertyDurable      = "durable"      // acknowledged before it was durable, asked of the disk model
	PropertyInvariant    = "invariant"    // machine.Check
	PropertyCredit       = "credit"       // a client was sent more than it had given credit for
	PropertyMemory       = "memory"       // something is larger than its limit
	PropertyReplay       = "replay"       // a restarted node's state is not the one that died
	PropertyAvailability = "availability" // it ended or refused without a fault that may cause it
	PropertyLiveness     = "liveness"     // it did not serve everybody to the end in time
	PropertyOffline      = "offline"      // the directory does not verify
	PropertyProtocol     = "protocol"     // a client was sent what no broker sends
	PropertyLeak         = "leak"         // connections outlived their clients
	PropertyLease        = "lease"        // redelivered before the lease of the last delivery was over
	PropertyBackoff      = "backoff"      // redelivered before its backoff or delay was over
	PropertySpin         = "spin"         // turns without end at one instant
	spinTurns            = 20_000         // turns at one instant that are too many
	boundsEvery          = clock.Duration(1) * clock.Millisecond
	sampleEvery          = clock.Duration(97) * clock.Millisecond
)

// judge looks on while the world runs.
type judge struct {
	w            *world
	findings     []checker.Finding
	sampleAt     clock.Instant
	boundsAt     clock.Instant
	samples      int
	spinAt       clock.Instant
	spin         int
	checks       uint64 // acknowledgements held against the disk model
	inconclusive []string
}

// finding notes a broken property and ends the run.
func (j *judge) finding(property, what string) {
	if j.w.stopped {
		return
	}
	j.w.note("finding " + property)
	j.w.tell("FINDING %s: %s", property, what)
	j.findings = append(j.findings, checker.Finding{Property: property, At: checker.Time(j.w.now), What: what})
	j.w.stopped = true
}

// beforeSend is the moment before what a turn asked for happens: all that was applied
// may be in them, so all of it must be durable.
func (j *judge) beforeSend() {
	h := j.w.host
	if !h.serving() {
		return
	}
	applied, _, _ := h.node.Machine().View().Applied()
	if applied == h.applied {
		return
	}
	h.applied = applied
	j.checks++
	if w := h.journal.settle(applied); w != nil && !j.w.atlas.lying() {
		j.finding(PropertyDurable, fmt.Sprintf("op %d was applied and answered; a power loss now may take the write of ops up to %d: %s offset %d, %d bytes",
			applied, w.last, w.path, w.offset, w.bytes))
	}
}

// acked is the moment at which a client learns that its message is safe.
func (j *judge) acked(m placed) {
	j.checks++
	if !j.w.host.journal.holds(m) && !j.w.atlas.lying() {
		j.finding(PropertyDurable, fmt.Sprintf("a client was told that message %x is in topic %d partition %d; no durable journal write holds it", m.identity, m.topic, m.partition))
	}
}

// afterTurn samples invariants and books.
func (j *judge) afterTurn() {
	w := j.w
	if w.now == j.spinAt {
		if j.spin++; j.spin > spinTurns {
			j.finding(PropertySpin, fmt.Sprintf("%d turns at one instant", j.spin))
		}
	} else {
		j.spinAt, j.spin = w.now, 0
	}
	if w.host.digest.known {
		j.afterRestart()
	}
	if w.now >= j.boundsAt && w.host.serving() {
		j.boundsAt = w.now.Add(boundsEvery)
		if err := w.host.node.Sessions().Bounds(); err != nil {
			j.finding(PropertyMemory, err.Error())
			return
		}
	}
	if w.now >= j.sampleAt && w.host.serving() {
		j.sampleAt = w.now.Add(sampleEvery)
		j.sample()
	}
}

// sample checks the machine and writes its books into the history.
func (j *judge) sample() {
	m := j.w.host.node.Machine()
	j.samples++
	if err := m.Check(); err != nil {
		j.finding(PropertyInvariant, err.Error())
		return
	}
	v := m.View()
	for g, ok := v.NextGroup(0); ok; g, ok = v.NextGroup(g.ID) {
		for p := range g.Partitions {
			c, ok := v.Cursor(g.ID, op.PartitionID(p))
			if !ok {
				continue
			}
			o, _ := v.Owner(g.ID, op.PartitionID(p))
			if c.Quarantined > 0 {
				j.w.marks.Mark("sim.quarantined")
			}
			j.w.rec.h.Books = append(j.w.rec.h.Books, checker.Book{
				At: checker.Time(j.w.now), Group: groupKey(g.Name, uint16(g.Topic)),
				Partition: checker.Partition{Topic: uint16(g.Topic), Partition: p},
				LastSeq:   uint64(c.LastSeq), Start: c.Start, Floor: uint64(c.Floor), NextFirst: uint64(c.NextFirst),
				Unsettled: c.Unsettled, Delivered: c.Delivered, Dropped: c.Dropped, DLQ: c.DLQ, Quarantined: c.Quarantined,
				Ownership: uint64(o.Epoch),
			})
		}
	}
}

// groupKey names a group in a history.
func groupKey(name string, topic uint16) string { return name }

// beforeCrash keeps what the next incarnation that serves must have come back to.
// One that dies before it serves leaves that as it was.
func (j *judge) beforeCrash() {
	h := j.w.host
	h.journal.dying()
	if h.node == nil || !h.served {
		return
	}
	j.sample()
	applied, _, _ := h.node.Machine().View().Applied()
	h.digest = digestAt{known: true, number: applied, vouched: h.journal.vouched(), back: math.MaxUint64, digest: h.node.Machine().Digest()}
}

// afterRestart compares the state that recovery came to. Entries that were
// synced and not yet applied when the node died come on top: then there is
// nothing to compare with.
func (j *judge) afterRestart() {
	h := j.w.host
	applied, _, _ := h.node.Machine().View().Applied()
	d := &h.digest
	switch {
	case h.serving():
		if d.back < d.number && !j.w.atlas.mayForget(d) {
			j.finding(PropertyReplay, fmt.Sprintf("op %d was applied before the crash, and a durable mark vouches for op %d; the restarted node came back to op %d and serves", d.number, d.vouched, d.back))
		}
		d.known = false
		h.failures = 0
	case h.node.Standing():
		if d.back = min(d.back, applied); applied != d.number || d.back < d.number {
			return
		}
		j.w.marks.Mark("sim.replay_compared")
		if now := h.node.Machine().Digest(); now != d.digest && !j.w.atlas.mayLose() {
			j.finding(PropertyReplay, fmt.Sprintf("at op %d the state was %x before the crash and is %x after it", applied, d.digest, now))
		}
		d.digest = h.node.Machine().Digest()
	}
}

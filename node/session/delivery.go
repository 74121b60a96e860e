package session

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
)

// entryState is what a handed, unsettled sequence is doing.
type entryState uint8

const (
	entryOut     entryState = iota // with the owner, under a lease
	entryWaiting                   // for its due time
	entryDead                      // for its dead letter
)

// Flags of an entry.
const (
	entrySettling uint8 = 1 << iota // an ACK or NACK of it is in the log's queue
	entryExpiring                   // an Expire of it is
)

// never is later than every log time.
const never = int64(^uint64(0) >> 1)

// entry is a handed, unsettled sequence of a lane.
type entry struct {
	seq      op.Sequence
	delivery op.DeliveryID
	at       int64 // out: the lease's end, patient; waiting: due, log time
	lane     uint32
	link     link // in the lane's lease list
	place    uint32
	size     uint32 // of the value in bytes: what it took of the credit
	attempts uint16 // deliveries so far
	state    entryState
	flags    uint8
}

// find gives the entry of a sequence.
func (g *groups) find(l uint32, seq op.Sequence) (uint32, *entry, bool) {
	e, ok := g.table.get(l, seq, &g.entries)
	if !ok {
		return none, nil, false
	}
	return e, g.entries.at(e), true
}

// newEntry makes the entry of a sequence that is handed out now or was before.
func (g *groups) newEntry(l uint32, ln *lane, seq op.Sequence) (uint32, *entry) {
	e, en := g.entries.take()
	*en = entry{seq: seq, lane: l}
	g.table.put(e, &g.entries)
	ln.entries++
	return e, en
}

// lease puts an entry under a lease that begins now.
func (s *Sessions) lease(e uint32, en *entry, ln *lane) {
	g := &s.groups
	en.state = entryOut
	en.at = int64(s.watch.now.Add(s.cfg.DeliveryLease))
	ln.out.pushBack(e, &g.entries)
	u := g.subs.at(ln.owner - 1)
	u.outLen++
	u.outSize += uint64(en.size)
	g.leases.lower(en.lane, clock.Instant(en.at))
}

// unlease takes an out entry out of the lease list.
func (g *groups) unlease(e uint32, en *entry, ln *lane) {
	ln.out.remove(e, &g.entries)
	u := g.subs.at(ln.owner - 1)
	u.outLen--
	u.outSize -= uint64(en.size)
}

// detach takes an entry out of the list or heap that its state put it in.
func (s *Sessions) detach(e uint32, en *entry, ln *lane) {
	g := &s.groups
	switch en.state {
	case entryOut:
		g.unlease(e, en, ln)
	case entryWaiting, entryDead:
		ln.removeDue(en, &g.entries)
	}
}

// drop forgets the entry of a sequence that is settled.
func (s *Sessions) drop(e uint32, en *entry, ln *lane) {
	g := &s.groups
	s.detach(e, en, ln)
	if ln.stuck == en.seq {
		ln.stuck = 0
	}
	g.table.remove(e, &g.entries)
	g.entries.release(e)
	ln.entries--
}

// wait puts an entry in line for its next delivery.
func (s *Sessions) wait(e uint32, en *entry, ln *lane, due op.LogMillis) {
	s.detach(e, en, ln)
	en.state, en.flags, en.at = entryWaiting, 0, int64(due)
	ln.pushDue(e, en, &s.groups.entries)
}

// die puts an entry aside until its dead letter is written.
func (s *Sessions) die(e uint32, en *entry, ln *lane) {
	s.detach(e, en, ln)
	en.state, en.flags, en.at = entryDead, 0, never
	ln.pushDue(e, en, &s.groups.entries)
}

// clearLane forgets all entries of a lane.
func (s *Sessions) clearLane(l uint32, ln *lane) {
	g := &s.groups
	for e := ln.out.head; e != none; e = ln.out.head {
		s.drop(e, g.entries.at(e), ln)
	}
	for len(ln.due) > 0 {
		e := ln.due[len(ln.due)-1]
		s.drop(e, g.entries.at(e), ln)
	}
}

// loadLane makes the entries of what the group was handed before this owner.
func (s *Sessions) loadLane(gr *group, l uint32, ln *lane) {
	g := &s.groups
	for d, ok := s.view.NextDelivery(gr.id, ln.part, 0); ok; d, ok = s.view.NextDelivery(gr.id, ln.part, d.Sequence) {
		e, en := g.newEntry(l, ln, d.Sequence)
		en.delivery, en.attempts = d.Delivery, d.Attempts
		switch d.State {
		case machine.DeliveryDead:
			en.state, en.at = entryDead, never
		case machine.DeliveryWaiting, machine.DeliveryOut:
			en.state, en.at = entryWaiting, int64(d.Due)
			if fault.On("backoff_lost_on_new_owner") {
				en.at = 0
			}
		}
		ln.pushDue(e, en, &g.entries)
	}
}

// expireLeases proposes Expire for every delivery whose lease has ended.
func (s *Sessions) expireLeases() {
	g := &s.groups
	if s.now < g.pause {
		return
	}
	for {
		l, ok := g.leases.due(s.watch.now)
		if !ok {
			return
		}
		ln := g.lanes.at(l)
		refused := s.expireLane(l, ln)
		if ln.out.head != none {
			g.leases.lower(l, clock.Instant(g.entries.at(ln.out.head).at))
		}
		if refused {
			g.pause = s.now.Add(retryPause)
			return
		}
	}
}

// expireLane does so for one lane; it says whether that was refused.
func (s *Sessions) expireLane(l uint32, ln *lane) bool {
	g := &s.groups
	for e := ln.out.head; e != none; e = ln.out.head {
		en := g.entries.at(e)
		if clock.Instant(en.at) > s.watch.now {
			return false
		}
		if en.flags == 0 {
			gr := g.groups.at(ln.group)
			s.o = op.Op{
				Kind: op.KindExpire, Group: gr.id, Partition: ln.part, Sequence: en.seq,
				Delivery: en.delivery, Ownership: ln.epoch,
			}
			if s.broker.Propose(&s.o, Ref{}) != 0 {
				return true
			}
			en.flags |= entryExpiring
			s.stats.Expired++
		}
		// What is under way ends by its outcome, however long the log takes for it: it
		// is only looked at again.
		en.at = int64(s.watch.now.Add(s.cfg.DeliveryLease))
		ln.out.remove(e, &g.entries)
		ln.out.pushBack(e, &g.entries)
	}
	return false
}

// acked ends the delivery that an applied Ack settled.
func (s *Sessions) acked(o *op.Op, res *machine.Result) {
	s.settled(o, res.Code == 0)
}

// settled takes note of the outcome of an op that settles a sequence.
func (s *Sessions) settled(o *op.Op, done bool) {
	l, ln, ok := s.groups.laneOf(o.Group, o.Partition)
	if !ok {
		return
	}
	e, en, ok := s.groups.find(l, o.Sequence)
	if !ok {
		return
	}
	if done {
		full := ln.entries == maxUnsettled
		s.drop(e, en, ln)
		if full {
			s.wakeLane(ln)
		}
	} else if en.delivery == o.Delivery {
		en.flags &^= entrySettling
	}
}

// givenBack takes note of an applied Nack or Expire.
func (s *Sessions) givenBack(o *op.Op, res *machine.Result) {
	l, ln, ok := s.groups.laneOf(o.Group, o.Partition)
	if ok {
		if e, en, found := s.groups.find(l, o.Sequence); found {
			switch {
			case res.Code != 0:
				if en.delivery == o.Delivery {
					en.flags = 0
				}
			case res.Dead:
				s.die(e, en, ln)
			default:
				settling := en.flags & entrySettling
				s.wait(e, en, ln, res.Due)
				if o.Kind == op.KindExpire {
					en.flags = settling // an ACK or NACK that came after it is still to be decided
				}
				s.wakeLane(ln)
			}
		}
	}
	if res.Code == 0 && res.Dead {
		s.checkDead(o.Group, o.Partition)
	}
}

// delivered takes note of an applied Deliver. Where it was refused the ownership
// has changed before it, and with it the lane.
func (s *Sessions) delivered(o *op.Op, res *machine.Result) {
	if res.Code != 0 {
		s.stats.DeliverRefused++
	}
}

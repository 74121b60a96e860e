package session

import (
	"fmt"

	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// check verifies the invariants that doc.go and the structs name; when nothing
// is in the log's queue, lanes are also held against the machine's ledger.
func check(w *world) error {
	s := w.s
	for i := range s.conns.used {
		if err := checkConn(s, i, s.conns.at(i)); err != nil {
			return err
		}
	}
	g := &s.groups
	entries, lanes := 0, map[uint32]bool{}
	for id := range g.byID {
		if g.byID[id] == 0 {
			continue
		}
		gr := g.groups.at(g.byID[id] - 1)
		if int(gr.id) != id || len(gr.members) == 0 {
			return fmt.Errorf("group %d is %d with %d members", id, gr.id, len(gr.members))
		}
		for p, l := range gr.lanes {
			ln := g.lanes.at(l)
			lanes[l] = true
			entries += int(ln.entries)
			if int(ln.part) != p || g.groups.at(ln.group) != gr {
				return fmt.Errorf("lane %d of group %d is not its own", p, id)
			}
			if err := checkLane(w, gr, l, ln); err != nil {
				return fmt.Errorf("group %d partition %d: %w", id, p, err)
			}
		}
		for _, m := range gr.members {
			u := g.subs.at(m)
			if u.group != gr.id || u.gone {
				return fmt.Errorf("member %d of group %d is in group %d", u.member, id, u.group)
			}
			if err := checkSub(s, u); err != nil {
				return err
			}
		}
	}
	if len(lanes) != g.lanes.inUse() || entries != g.entries.inUse() || entries != g.table.used {
		return fmt.Errorf("%d lanes of %d, %d entries of %d, %d in the table", len(lanes), g.lanes.inUse(), entries, g.entries.inUse(), g.table.used)
	}
	return nil
}

func checkConn(s *Sessions, i uint32, c *conn) error {
	if c.state == connFree {
		if c.held != nil || c.out != nil || c.ring.slots != nil || len(c.subs) > 0 || c.pulls != nil {
			return fmt.Errorf("a free connection holds something")
		}
		return nil
	}
	size, bound := 0, wire.MaxUnansweredRequests+1
	for n := c.ring.head; n != c.ring.tail; n++ {
		size += int(c.ring.at(n).size)
	}
	if size != c.size || c.ring.len() > bound || c.size > wire.MaxUnansweredBytes+wire.MaxFrameLen+4 {
		return fmt.Errorf("connection %d: %d requests of %d bytes unanswered, %d counted", c.id, c.ring.len(), size, c.size)
	}
	if c.ring.len() > 0 && c.ring.at(c.ring.head).kind != answerNone && c.state != connClosing {
		return fmt.Errorf("connection %d: a decided request waits at the head", c.id)
	}
	if c.out != nil {
		return fmt.Errorf("connection %d: output is left after the turn", c.id)
	}
	if c.hold == 0 && c.held != nil && c.state == connOpen {
		return fmt.Errorf("connection %d: %d bytes are held for no reason", c.id, len(c.held))
	}
	if c.pulls != nil {
		for k := range c.pulls.n {
			if p := c.pulls.q[k]; !c.ring.holds(p.n) || c.ring.at(p.n).op != wire.OpPull || c.ring.at(p.n).kind != answerNone {
				return fmt.Errorf("connection %d: a PULL that is none waits", c.id)
			}
		}
	}
	for k, cs := range c.subs {
		u := s.groups.subs.at(cs.sub)
		if u.conn != i || u.id != cs.id || k > 0 && c.subs[k-1].id >= cs.id {
			return fmt.Errorf("connection %d: subscription %d is not its own", c.id, cs.id)
		}
	}
	return nil
}

func checkSub(s *Sessions, u *sub) error {
	var out uint32
	var size uint64
	for k, l := range u.lanes {
		ln := s.groups.lanes.at(l)
		if ln.owner == 0 || s.groups.subs.at(ln.owner-1) != u || k > 0 && s.groups.lanes.at(u.lanes[k-1]).part >= ln.part {
			return fmt.Errorf("subscription invariant 1: lanes")
		}
		for e := ln.out.head; e != none; e = s.groups.entries.at(e).link.next {
			out++
			size += uint64(s.groups.entries.at(e).size)
		}
	}
	if out != u.outLen || size != u.outSize {
		return fmt.Errorf("subscription invariant 3: %d/%d out, %d/%d counted", out, size, u.outLen, u.outSize)
	}
	if u.taken.count < u.outLen && false {
		return fmt.Errorf("more out than taken")
	}
	return nil
}

func checkLane(w *world, gr *group, l uint32, ln *lane) error {
	g := &w.s.groups
	if ln.owner == 0 && ln.entries > 0 {
		return fmt.Errorf("lane invariant 3: %d entries without an owner", ln.entries)
	}
	seen := map[op.Sequence]*entry{}
	last := int64(0)
	for e := ln.out.head; e != none; e = g.entries.at(e).link.next {
		en := g.entries.at(e)
		if en.state != entryOut || en.at < last {
			return fmt.Errorf("invariant 3: lease list")
		}
		last = en.at
		seen[en.seq] = en
	}
	for k, e := range ln.due {
		en := g.entries.at(e)
		if en.state == entryOut || int(en.place) != k || k > 0 && dueBefore(en, g.entries.at(ln.due[(k-1)/2])) || (en.state == entryDead) != (en.at == never) {
			return fmt.Errorf("due heap at %d", k)
		}
		seen[en.seq] = en
	}
	if len(seen) != int(ln.entries) {
		return fmt.Errorf("lane invariant 1: %d entries, %d counted", len(seen), ln.entries)
	}
	for seq, en := range seen { // order-free: checks
		if _, found, ok := g.find(l, seq); !ok || found != en || seq >= ln.next {
			return fmt.Errorf("sequence %d is not in the table, or not below next", seq)
		}
	}
	if len(w.queue) > 0 || ln.owner == 0 {
		return nil
	}
	return checkLedger(w, gr, ln, seen)
}

// checkLedger holds a lane against the machine's ledger.
func checkLedger(w *world, gr *group, ln *lane, seen map[op.Sequence]*entry) error {
	v := w.m.View()
	cv, _ := v.Cursor(gr.id, ln.part)
	if cv.NextFirst != ln.next || cv.Handed != ln.entries {
		return fmt.Errorf("next %d of %d, %d entries of %d", ln.next, cv.NextFirst, ln.entries, cv.Handed)
	}
	for d, ok := v.NextDelivery(gr.id, ln.part, 0); ok; d, ok = v.NextDelivery(gr.id, ln.part, d.Sequence) {
		en := seen[d.Sequence]
		if en == nil {
			return fmt.Errorf("sequence %d has no entry", d.Sequence)
		}
		want := map[machine.DeliveryState]entryState{
			machine.DeliveryOut: entryOut, machine.DeliveryWaiting: entryWaiting, machine.DeliveryDead: entryDead,
		}[d.State]
		if en.state != want || en.delivery != d.Delivery || en.attempts != d.Attempts {
			return fmt.Errorf("sequence %d: state %d delivery %s attempts %d, the ledger says %d %s %d", d.Sequence, en.state,
				showID(uint64(en.delivery)), en.attempts, want, showID(uint64(d.Delivery)), d.Attempts)
		}
	}
	return nil
}

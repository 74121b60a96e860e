package simtrans

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/sim/simnet"
)

// act lets one thing happen: an endpoint does something, mostly, or something breaks.
func (w *world) act() {
	k := &w.knobs
	switch n := w.chance.Weighted(900, k.cut, k.split, k.reset, k.silence, k.kill, k.off, k.slow); n {
	case 0:
		w.application()
	default:
		w.strike(n)
	}
}

// application lets an endpoint do something on one of its connections.
func (w *world) application() {
	i := w.chance.Intn(len(w.endpoints))
	e := w.endpoints[i]
	if e == nil || len(e.conns) == 0 {
		return
	}
	c := e.conns[w.chance.Intn(len(e.conns))]
	k := &w.knobs
	what := w.chance.Weighted(500, 300, k.cancel, k.age, k.close, k.abort, k.half, k.damage, k.bomb, k.flip)
	if !c.usable() {
		return
	}
	e.now = w.now
	// A peer that is not known yet cannot be held to anything.
	if what >= 7 && (c.sworn.peer == nil || c.sworn.damagedAt >= 0 || c.sworn.tainted) {
		return
	}
	switch what {
	case 0:
		for range 1 + w.chance.Intn(4) {
			e.request(c)
		}
	case 1:
		for range 1 + w.chance.Intn(3) {
			e.message(c)
		}
	case 2:
		e.cancel(c)
	case 3:
		e.age(c)
	case 4:
		e.end(c, net.RequestClose)
	case 5:
		e.end(c, net.RequestAbort)
	case 6:
		e.half(c)
	case 7:
		e.damage(c)
	case 8:
		e.bomb(c)
	case 9:
		e.flip(c)
	}
	e.flush()
	w.submit(i)
}

// later plans the end of a fault.
func (w *world) later(most clock.Duration, do func()) {
	at := w.now.Add(clock.Duration(w.chance.Range(int64(clock.Millisecond), int64(most))))
	w.mending = append(w.mending, mend{at, do})
}

// strike breaks something between the endpoints, or one of them.
func (w *world) strike(what int) {
	w.faults++
	i := w.chance.Intn(len(w.hosts))
	j := (i + 1 + w.chance.Intn(len(w.hosts)-1)) % len(w.hosts)
	h, a, b := w.hosts[i], w.hosts[i].Name(), w.hosts[j].Name()
	switch what {
	case 1:
		w.judge.mark("one way was cut")
		w.net.Cut(a, b)
		w.later(20*clock.Second, func() { w.net.Heal(a, b) })
	case 2:
		w.judge.mark("two were parted")
		w.net.Partition([]string{a}, []string{b})
		w.later(20*clock.Second, func() { w.net.Heal(a, b); w.net.Heal(b, a) })
	case 3:
		if ids := h.Conns(); len(ids) > 0 {
			w.judge.mark("a connection was reset")
			h.Reset(ids[w.chance.Intn(len(ids))])
		}
	case 4:
		if ids := h.Conns(); len(ids) > 0 {
			w.judge.mark("a connection is half-open")
			h.Silence(ids[w.chance.Intn(len(ids))])
		}
	case 5, 6:
		kind := simnet.Kill
		if what == 6 {
			kind = simnet.PowerLoss
		}
		if w.endpoints[i] == nil {
			return
		}
		w.judge.mark([...]string{"a process was killed", "a machine lost power"}[kind])
		w.down(i, kind)
		w.later(10*clock.Second, func() { w.up(i) })
	case 7:
		w.judge.mark("a link is slow")
		w.net.SetLink(a, b, simnet.Link{DelayMin: clock.Millisecond, DelayMax: clock.Second, BytesPerSecond: w.chance.Range(2_000, 200_000)})
		w.later(15*clock.Second, func() { w.net.ResetLink(a, b) })
	}
}

// calm takes every fault back, and holds everybody to the end.
func (w *world) calm() {
	for _, m := range w.mending {
		m.do()
	}
	w.mending = nil
	w.net.HealAll()
	for _, e := range w.endpoints {
		e.honest = true
	}
	w.runFor(settle, nil)
	// Who may have been damaged unnoticed is not asked.
	w.each(func(e *endpoint, c *conn) {
		if c.sworn != nil && c.sworn.tainted {
			e.end(c, net.RequestAbort)
		}
	})
	w.runFor(2*backoffMax, nil)
	w.lastWords()
	w.farewell()
}

// each lets f do something with every connection.
func (w *world) each(f func(*endpoint, *conn)) {
	for i, e := range w.endpoints {
		e.now = w.now
		for _, c := range e.conns {
			f(e, c)
		}
		e.flush()
		w.submit(i)
	}
}

// lastWords has every connection ask something, which has to be answered.
func (w *world) lastWords() {
	j := w.judge
	first := len(j.asked)
	w.each(func(e *endpoint, c *conn) {
		switch {
		case !c.usable():
			return
		case c.sworn.peer != nil && c.sworn.peer.damagedAt >= 0:
			j.fail("damage", "conn %d is open after its peer sent a damaged packet", c.sworn.serial)
		}
		e.request(c)
		e.message(c)
	})
	if w.lines() == 0 {
		j.fail("life", "no connection is open after the storm")
	}
	w.runFor(lastWord, func() bool {
		for i := first; i < len(j.asked); i++ {
			if j.asked[i].end == pending {
				return false
			}
		}
		return true
	})
	for i := first; i < len(j.asked); i++ {
		if a := &j.asked[i]; a.end != answered {
			j.fail("life", "request %d was %s after the storm", i, endings[a.end])
		}
	}
}

// lines counts the connections that are wanted and open; all have to be.
func (w *world) lines() (open int) {
	for _, e := range w.endpoints {
		for _, l := range e.lines {
			if l.conn == nil || !l.conn.usable() {
				w.judge.fail("life", "%s is not connected to %s after the storm", e.name, l.addr)
				continue
			}
			open++
		}
	}
	return open
}

// farewell closes every connection in order and looks at what is left.
func (w *world) farewell() {
	j := w.judge
	for _, e := range w.endpoints {
		e.leaving = true
	}
	w.runFor(2*clock.Second, nil)
	w.each(func(e *endpoint, c *conn) {
		if c.line != nil && c.usable() {
			// Both are heard out: neither has anything on its way.
			if p := c.sworn.peer; p != nil && (c.sworn.heard != p.sent || p.heard != c.sworn.sent) {
				j.fail("order", "conn %d: %d of %d messages came, %d of %d went", c.sworn.serial, c.sworn.heard, p.sent, p.heard, c.sworn.sent)
			}
			e.end(c, net.RequestClose)
		}
	})
	w.runFor(farewell, nil)
	for _, e := range w.endpoints {
		if len(e.conns) > 0 && j.broken == nil {
			j.fail("life", "%s has %d connections when all are closed", e.name, len(e.conns))
		}
	}
	for i := range j.asked {
		if a := &j.asked[i]; a.end == pending && j.broken == nil {
			j.fail("once", "request %d has not ended", i)
		}
	}
}

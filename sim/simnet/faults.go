package simnet

import (
	"slices"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
)

// CrashKind says how a host dies.
type CrashKind uint8

// The kinds of crash.
const (
	// Kill ends the process; its machine ends the connections, in order or by a
	// reset, and refuses new ones.
	Kill CrashKind = iota
	// PowerLoss ends the machine: its peers hear nothing until they send something
	// and it is up again.
	PowerLoss
)

// Cut lets nothing through from one host to another, in that direction alone.
func (w *World) Cut(from, to string) { w.cut(from, to, true) }

// Heal opens that direction again; what waited arrives some time later.
func (w *World) Heal(from, to string) { w.cut(from, to, false) }

// Partition cuts both directions between every host of one side and every host of
// the other.
func (w *World) Partition(one, other []string) {
	for _, a := range one {
		for _, b := range other {
			w.Cut(a, b)
			w.Cut(b, a)
		}
	}
}

// HealAll opens everything.
func (w *World) HealAll() {
	for _, a := range w.hosts {
		for _, b := range w.hosts {
			w.Heal(a.name, b.name)
		}
	}
}

// IsCut reports whether that direction is cut.
func (w *World) IsCut(from, to string) bool { return w.route(w.Host(from), w.Host(to)).cut }

func (w *World) cut(from, to string, on bool) {
	a, b := w.Host(from), w.Host(to)
	r := w.route(a, b)
	if r.cut == on {
		return
	}
	r.cut = on
	if on {
		w.observe("cut", a, b, 0, 0)
		return
	}
	w.observe("heal", a, b, 0, 0)
	w.release(func(p *pipe) bool { return p.from == a && p.to == b })
	w.acknowledgeWaiting(b, a)
}

// release lets the packets of chosen pipes travel again.
func (w *World) release(chosen func(*pipe) bool) {
	held := w.held
	w.held = nil
	for _, p := range held {
		if !chosen(p) {
			w.held = append(w.held, p)
			continue
		}
		p.held = false
		again := w.now.Add(clock.Duration(w.rand.Range(int64(w.options.RepeatMax)/1000, int64(w.options.RepeatMax))))
		for i := range p.packets.all() {
			k := &p.packets.all()[i]
			k.due = max(k.due, again)
		}
		p.last = max(p.last, again)
		p.plan()
	}
}

// acknowledgeWaiting frees the windows of pipes whose acknowledgements waited.
func (w *World) acknowledgeWaiting(from, to *Host) {
	waiting := w.unacked
	w.unacked = nil
	for _, p := range waiting {
		if p.from != from || p.to != to {
			w.unacked = append(w.unacked, p)
			continue
		}
		n := p.unacked
		p.unacked = 0
		p.acknowledge(n)
	}
}

// SetLink changes delay and speed of one direction, for what is sent from now on.
func (w *World) SetLink(from, to string, l Link) { w.route(w.Host(from), w.Host(to)).Link = l }

// ResetLink gives one direction what the world's options say.
func (w *World) ResetLink(from, to string) { w.SetLink(from, to, w.options.Link) }

// Conns gives the host's open connections, sorted.
func (h *Host) Conns() []net.ConnID {
	ids := make([]net.ConnID, 0, len(h.order))
	for _, e := range h.order {
		if e.opened {
			ids = append(ids, e.id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Reset breaks a connection of the host: both ends see a reset, each when it gets
// there, and what was under way is lost in part.
func (h *Host) Reset(id net.ConnID) bool {
	e := h.conns[id]
	if e == nil || !e.opened {
		return false
	}
	h.world.observe("break", h, nil, id, 0)
	for _, p := range e.link.pipes {
		p.cutOff()
		p.send(packetReset, nil)
	}
	return true
}

// Silence makes a connection of the host half-open: both ends think that it is
// there, and nothing arrives any more.
func (h *Host) Silence(id net.ConnID) bool {
	e := h.conns[id]
	if e == nil || !e.opened {
		return false
	}
	h.world.observe("silence", h, nil, id, 0)
	for _, p := range e.link.pipes {
		p.silent = true
	}
	return true
}

// Crash ends the host's process, or its machine, also when its process is down
// already.
func (h *Host) Crash(kind CrashKind) {
	if h.state == machineDown || h.state == processDown && kind == Kill {
		return
	}
	w := h.world
	h.state = processDown
	if kind == PowerLoss {
		h.state = machineDown
	}
	w.observe([...]string{"kill", "power loss"}[kind], h, nil, 0, 0)
	for len(h.order) > 0 {
		e := h.order[len(h.order)-1]
		p := e.out()
		e.vanish()
		switch {
		case kind == PowerLoss:
			p.cutOff()
		case w.rand.Bool(500):
			p.send(packetEnd, nil)
		default:
			p.cutOff()
			p.send(packetReset, nil)
		}
	}
	clear(h.inbox)
	h.inbox, h.next, h.lent = h.inbox[:0], 0, nil
	h.listeners = nil
}

// Restart brings the host up again, with nothing on it.
func (h *Host) Restart() {
	if h.state == hostUp {
		return
	}
	h.state = hostUp
	h.world.observe("restart", h, nil, 0, 0)
	h.world.release(func(p *pipe) bool { return p.to == h && !h.world.route(p.from, h).cut })
}

// Up reports whether the host's process runs.
func (h *Host) Up() bool { return h.state == hostUp }

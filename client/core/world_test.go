package core

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mortarmq/mortarmq/client/internal/fakebroker"
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/wire"
)

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// link is a connection between the core and the fake broker: two streams of bytes under way.
type link struct {
	id       net.ConnID
	addr     string
	session  *fakebroker.Session // nil until opened
	up       []byte              // to the broker
	down     []byte              // to the core
	closing  bool                // the core has closed: what is under way still arrives
	dead     bool                // nothing arrives any more
	reported bool                // the core knows that it is closed
}

// world drives one core against a fake broker, byte by byte where the test wants it.
type world struct {
	t      failer
	core   *Core
	out    Effects
	now    clock.Instant
	broker *fakebroker.Broker
	down   map[string]bool   // addresses where nobody answers
	nodes  map[string]uint16 // which node is at an address, where it is not Broker.NodeID
	links  []*link

	outcomes map[uint64][]Published
	events   []Event
	onEvent  func(Event)
	onDeliv  func(Delivery)
	settled  []Settled
}

func newWorld(t failer, opt Options) *world {
	if opt.Addrs == nil {
		opt.Addrs = []string{"a:1"}
	}
	w := &world{t: t, core: New(opt), broker: fakebroker.New(), down: map[string]bool{}, nodes: map[string]uint16{}, outcomes: map[uint64][]Published{}, now: 1}
	w.turn()
	return w
}

// turn runs one turn and carries out its effects.
func (w *world) turn(in ...Input) {
	w.t.Helper()
	w.broker.Now = w.now
	w.core.Turn(w.now, in, &w.out)
	out := w.out // the application may cause further turns
	requests, published := slices.Clone(out.Requests), slices.Clone(out.Published)
	deliveries, events := slices.Clone(out.Deliveries), slices.Clone(out.Events)
	w.settled = append(w.settled, out.Settled...)
	for _, r := range requests {
		w.submit(r)
	}
	for _, o := range published {
		w.outcomes[o.Ref] = append(w.outcomes[o.Ref], o)
		if len(w.outcomes[o.Ref]) > 1 {
			w.t.Fatalf("C1: publish %d has two outcomes: %+v", o.Ref, w.outcomes[o.Ref])
		}
	}
	w.events = append(w.events, events...)
	for _, e := range events {
		if w.onEvent != nil {
			w.onEvent(e)
		}
	}
	for _, d := range deliveries {
		if w.onDeliv != nil {
			w.onDeliv(d)
		}
	}
}

func (w *world) submit(r net.Request) {
	if r.Kind == net.RequestDial {
		w.links = append(w.links, &link{id: r.Conn, addr: r.Addr})
		return
	}
	l := w.link(r.Conn)
	if l == nil || l.closing || l.dead {
		return
	}
	switch r.Kind {
	case net.RequestSend:
		l.up = append(l.up, r.Data...)
	case net.RequestClose, net.RequestAbort:
		l.closing = true
		l.down = nil
	}
}

func (w *world) link(id net.ConnID) *link {
	for _, l := range w.links {
		if l.id == id {
			return l
		}
	}
	return nil
}

// current is the link that the core uses, nil where there is none.
func (w *world) current() *link {
	for i := len(w.links) - 1; i >= 0; i-- {
		if l := w.links[i]; !l.closing && !l.reported {
			return l
		}
	}
	return nil
}

// open answers a dial.
func (w *world) open(l *link) {
	if l.session != nil || l.dead || l.closing {
		return
	}
	if w.down[l.addr] {
		l.dead, l.reported = true, true
		w.net(net.Event{Kind: net.EventClosed, Conn: l.id, Cause: net.CauseRefused})
		return
	}
	l.session = w.broker.Open()
	if id, ok := w.nodes[l.addr]; ok {
		l.session.NodeID = id
	}
	w.net(net.Event{Kind: net.EventOpened, Conn: l.id, Remote: l.addr})
}

func (w *world) net(e net.Event) { w.turn(Input{Kind: InputNet, Net: e}) }

// carryUp lets up to n bytes reach the broker.
func (w *world) carryUp(l *link, n int) bool {
	if l.session == nil || l.dead {
		return false
	}
	n = min(n, len(l.up))
	data := l.up[:n]
	l.up = l.up[n:]
	if n > 0 && !l.session.Closed {
		w.broker.Now = w.now
		l.session.Feed(data)
	}
	for _, o := range w.links {
		if o.session != nil {
			o.down = append(o.down, o.session.Out...)
			o.session.Out = nil
		}
	}
	if l.closing && len(l.up) == 0 {
		l.dead = true
		l.session.Drop()
	}
	return n > 0
}

// carryDown lets up to n bytes reach the core.
func (w *world) carryDown(l *link, n int) bool {
	if l.session == nil || l.reported || l.closing {
		return false
	}
	l.down = append(l.down, l.session.Out...)
	l.session.Out = nil
	n = min(n, len(l.down))
	if n > 0 {
		data := slices.Clone(l.down[:n])
		l.down = l.down[n:]
		w.net(net.Event{Kind: net.EventBytes, Conn: l.id, Data: data})
		for i := range data {
			data[i] = 0xDB // borrowed until the turn ended, not longer
		}
	}
	if len(l.down) == 0 && l.session.Closed && !l.reported && !l.closing {
		l.reported, l.dead = true, true
		w.net(net.Event{Kind: net.EventClosed, Conn: l.id, Cause: net.CauseEOF})
		return true
	}
	return n > 0
}

// cut breaks a link: of what is under way, keep bytes still reach the broker, later; the core hears of it now.
func (w *world) cut(l *link, keep int) {
	if l.dead || l.reported {
		return
	}
	l.down, l.reported = nil, true
	l.up = l.up[:min(keep, len(l.up))]
	l.closing = true
	if l.session == nil {
		l.dead = true
	}
	w.net(net.Event{Kind: net.EventClosed, Conn: l.id, Cause: net.CauseReset})
}

// flow carries everything there is, once; false when nothing moved.
func (w *world) flow() bool {
	moved := false
	for i := 0; i < len(w.links); i++ {
		l := w.links[i]
		if l.session == nil && !l.dead && !l.closing {
			w.open(l)
			moved = true
		}
		moved = w.carryUp(l, 1<<30) || moved
		moved = w.carryDown(l, 1<<30) || moved
	}
	w.links = slices.DeleteFunc(w.links, func(l *link) bool { return l.dead && (l.closing || l.reported) })
	return moved
}

// wait moves time to the core's deadline, but no further than max.
func (w *world) wait(max clock.Duration) {
	to := min(w.out.Deadline, w.now.Add(max))
	if to > w.now {
		w.now = to
	}
	w.broker.Now = w.now
	w.broker.Tick()
	w.turn()
}

// until lets the world go on undisturbed until done, or fails.
func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	for range 20000 {
		if done() {
			return
		}
		if !w.flow() {
			w.wait(100 * clock.Millisecond)
		}
	}
	w.t.Fatalf("never came: %s; phase %d, events %v", what, w.core.conn.phase, w.events[max(0, len(w.events)-6):])
}

func (w *world) saw(kind EventKind) bool { return w.find(kind) != nil }

func (w *world) find(kind EventKind) *Event {
	for i := range w.events {
		if w.events[i].Kind == kind {
			return &w.events[i]
		}
	}
	return nil
}

func (w *world) checkBroken() {
	w.t.Helper()
	if len(w.broker.Broken) > 0 {
		w.t.Fatalf("the client broke the protocol: %v", w.broker.Broken)
	}
}

// producer makes one that is ready.
func (w *world) producer(h Handle, topic string, opt *ProducerOptions) {
	w.t.Helper()
	w.turn(Input{Kind: InputProducer, Handle: h, Topic: topic, Producer: opt})
	w.until("producer ready", func() bool {
		return slices.ContainsFunc(w.events, func(e Event) bool { return e.Kind == EventProducerReady && e.Handle == h })
	})
}

func (w *world) publish(h Handle, ref uint64, partition uint16, key, value string) {
	w.turn(Input{Kind: InputPublish, Handle: h, Ref: ref, Partition: partition, Key: []byte(key), Value: []byte(value)})
}

func (w *world) outcome(ref uint64) Published {
	w.t.Helper()
	w.until(fmt.Sprintf("outcome of %d", ref), func() bool { return len(w.outcomes[ref]) > 0 })
	return w.outcomes[ref][0]
}

// once refuses the next request with the given op.
func once(op wire.Op, code wire.Code) func(wire.Op) (wire.Code, string) {
	done := false
	return func(o wire.Op) (wire.Code, string) {
		if done || o != op {
			return wire.CodeOK, ""
		}
		done = true
		return code, ""
	}
}

// often refuses every second request with the given op, n times.
func often(op wire.Op, code wire.Code, n int) func(wire.Op) (wire.Code, string) {
	seen := 0
	return func(o wire.Op) (wire.Code, string) {
		if o != op || n == 0 {
			return wire.CodeOK, ""
		}
		if seen++; seen%2 == 0 {
			return wire.CodeOK, ""
		}
		n--
		return code, ""
	}
}

var _ failer = (*testing.T)(nil)

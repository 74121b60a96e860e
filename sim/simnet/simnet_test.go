package simnet

import (
	"bytes"
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
)

// rig is two hosts with a connection, and what they saw of it.
type rig struct {
	testing.TB
	*World
	a, b   *Host // a dialled
	ida    net.ConnID
	idb    net.ConnID
	seenA  seen
	seenB  seen
	opened int
}

type seen struct {
	data   []byte
	closed bool
	cause  net.Cause
	queued int
}

func connected(t testing.TB, options Options) *rig {
	r := &rig{TB: t, World: New(options)}
	r.a, r.b = r.Host("a"), r.Host("b")
	r.listen()
	r.ida = 1
	r.a.Submit([]net.Request{{Kind: net.RequestDial, Conn: 1, Addr: "b:1"}})
	for r.opened < 2 {
		step(t, r.World)
		r.poll()
	}
	return r
}

func (r *rig) listen() {
	if _, err := r.b.Listen("b:1", net.PlanePeer); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) poll() {
	for _, e := range r.a.Poll(nil, 1<<20) {
		r.seenA.take(e, &r.opened, nil)
	}
	for _, e := range r.b.Poll(nil, 1<<20) {
		r.seenB.take(e, &r.opened, &r.idb)
	}
}

func (s *seen) take(e net.Event, opened *int, id *net.ConnID) {
	switch e.Kind {
	case net.EventOpened:
		*opened++
		if id != nil {
			*id = e.Conn
		}
	case net.EventBytes:
		s.data = append(s.data, e.Data...)
	case net.EventProgress:
		s.queued = e.Queued
	case net.EventClosed:
		s.closed, s.cause = true, e.Cause
	}
}

// pass lets d pass, polling all the time.
func (r *rig) pass(d clock.Duration) {
	end := r.now.Add(d)
	for r.NextDeadline() <= end {
		r.Advance(r.NextDeadline())
		r.poll()
	}
	r.Advance(end)
	r.poll()
}

func (r *rig) sendA(data string) {
	r.a.Submit([]net.Request{{Kind: net.RequestSend, Conn: r.ida, Data: []byte(data)}})
}

func (r *rig) sendB(data string) {
	r.b.Submit([]net.Request{{Kind: net.RequestSend, Conn: r.idb, Data: []byte(data)}})
}

// Goal, invariant 3: a cut holds back one direction alone and loses nothing; what
// waited arrives when it is healed, also after very long.
func TestCut(t *testing.T) {
	r := connected(t, Options{Seed: 1})
	r.Cut("a", "b")
	r.sendA("up")
	r.sendB("down")
	r.pass(clock.Hour)
	if len(r.seenB.data) != 0 || string(r.seenA.data) != "down" || r.seenA.closed || r.seenB.closed {
		t.Errorf("during the cut: %q and %q", r.seenA.data, r.seenB.data)
	}
	if !r.IsCut("a", "b") || r.IsCut("b", "a") {
		t.Error("IsCut")
	}
	r.Heal("a", "b")
	r.pass(2 * clock.Second)
	if string(r.seenB.data) != "up" {
		t.Errorf("after the heal: %q", r.seenB.data)
	}
}

// Goal, invariant 3: acknowledgements do not pass a cut: the sender's window stays
// full although its bytes arrive.
func TestCutHoldsAcknowledgements(t *testing.T) {
	r := connected(t, Options{Seed: 1, WindowBytes: 1000})
	r.Cut("b", "a")
	data := bytes.Repeat([]byte("x"), 5000)
	r.sendA(string(data))
	r.pass(clock.Minute)
	if n := len(r.seenB.data); n == 0 || n > 1000 || r.seenA.queued < 4000 {
		t.Errorf("%d bytes passed, %d are queued", n, r.seenA.queued)
	}
	r.Heal("b", "a")
	r.pass(clock.Minute)
	if len(r.seenB.data) != 5000 || r.seenA.queued != 0 {
		t.Errorf("%d bytes passed, %d are queued after the heal", len(r.seenB.data), r.seenA.queued)
	}
}

// Goal: a partition separates sides and nothing else, and dials across it time out.
func TestPartition(t *testing.T) {
	w := New(Options{Seed: 1})
	for _, n := range []string{"a", "b", "c"} {
		if _, err := w.Host(n).Listen(n+":1", net.PlanePeer); err != nil {
			t.Fatal(err)
		}
	}
	w.Partition([]string{"a"}, []string{"b", "c"})
	dial := func(from, to string, id net.ConnID) (kind net.EventKind, cause net.Cause, at clock.Instant) {
		w.Host(from).Submit([]net.Request{{Kind: net.RequestDial, Conn: id, Addr: to + ":1"}})
		for !w.Host(from).Pending() {
			w.Advance(w.NextDeadline())
		}
		e := w.Host(from).Poll(nil, 1)[0]
		return e.Kind, e.Cause, w.now
	}
	before := w.now
	if kind, cause, at := dial("b", "a", 1); kind != net.EventClosed || cause != net.CauseRefused || at.Sub(before) != 5*clock.Second {
		t.Errorf("across the partition: event %d, cause %d, after %d", kind, cause, at)
	}
	if kind, _, _ := dial("b", "c", 2); kind != net.EventOpened {
		t.Errorf("on one side: event %d", kind)
	}
	w.HealAll()
	if kind, _, _ := dial("b", "a", 3); kind != net.EventOpened {
		t.Errorf("after the heal: event %d", kind)
	}
}

// Goal: a process that is killed ends its connections, by end or reset, and is
// refused until it is back.
func TestKill(t *testing.T) {
	causes := map[net.Cause]bool{}
	for seed := range uint64(20) {
		r := connected(t, Options{Seed: seed})
		r.b.Crash(Kill)
		r.pass(clock.Second)
		if !r.seenA.closed || r.b.ConnCount() != 0 || r.b.Up() {
			t.Fatal("the peer does not notice a kill")
		}
		causes[r.seenA.cause] = true
		r.a.Submit([]net.Request{{Kind: net.RequestDial, Conn: 2, Addr: "b:1"}})
		r.seenA = seen{}
		r.pass(10 * clock.Millisecond)
		if !r.seenA.closed || r.seenA.cause != net.CauseRefused {
			t.Fatal("a dial to a killed process is not refused")
		}
		r.b.Restart()
		r.listen()
		r.opened = 0
		r.a.Submit([]net.Request{{Kind: net.RequestDial, Conn: 3, Addr: "b:1"}})
		r.pass(clock.Second)
		if r.opened != 2 {
			t.Fatal("no connection after the restart")
		}
	}
	if !causes[net.CauseEOF] || !causes[net.CauseReset] {
		t.Errorf("seen only %v", causes)
	}
}

// Goal, invariant 4: a machine that loses power leaves its peer half-open; a reset
// comes when the peer sends something and the machine is up again.
func TestPowerLoss(t *testing.T) {
	r := connected(t, Options{Seed: 2})
	r.b.Crash(PowerLoss)
	r.pass(clock.Hour)
	r.sendA("hello?")
	r.pass(clock.Hour)
	if r.seenA.closed {
		t.Fatal("the peer noticed the power loss by itself")
	}
	r.b.Restart()
	r.pass(2 * clock.Second)
	if !r.seenA.closed || r.seenA.cause != net.CauseReset || len(r.seenB.data) != 0 {
		t.Errorf("after the restart: closed %v, cause %d, %q", r.seenA.closed, r.seenA.cause, r.seenB.data)
	}
}

// Goal: a broken connection is reset at both ends; of what was under way a prefix
// arrives.
func TestReset(t *testing.T) {
	lengths := map[int]bool{}
	for seed := range uint64(40) {
		r := connected(t, Options{Seed: seed})
		for i := range 10 {
			r.sendA(string(rune('0' + i)))
		}
		if !r.a.Reset(1) || r.a.Reset(99) {
			t.Fatal("Reset")
		}
		r.pass(clock.Second)
		if r.seenA.cause != net.CauseReset || r.seenB.cause != net.CauseReset || !r.seenA.closed || !r.seenB.closed {
			t.Fatalf("causes %d and %d", r.seenA.cause, r.seenB.cause)
		}
		if !bytes.HasPrefix([]byte("0123456789"), r.seenB.data) {
			t.Fatalf("%q arrived", r.seenB.data)
		}
		lengths[len(r.seenB.data)] = true
	}
	if len(lengths) < 4 {
		t.Errorf("only %d different prefixes", len(lengths))
	}
}

// Goal: a half-open connection swallows everything, ends locally when it is closed,
// and new ones work.
func TestSilence(t *testing.T) {
	r := connected(t, Options{Seed: 1})
	r.b.Silence(r.b.Conns()[0])
	r.sendA("x")
	r.sendB("y")
	r.pass(clock.Hour)
	if len(r.seenA.data)+len(r.seenB.data) != 0 || r.seenA.closed || r.seenB.closed {
		t.Error("something passed a silent connection")
	}
	r.a.Submit([]net.Request{{Kind: net.RequestClose, Conn: 1}})
	r.pass(clock.Minute)
	if !r.seenA.closed || r.seenB.closed {
		t.Error("a silent connection cannot be closed, or the peer learns of it")
	}
	r.opened = 0
	r.a.Submit([]net.Request{{Kind: net.RequestDial, Conn: 2, Addr: "b:1"}})
	r.pass(clock.Second)
	if r.opened != 2 {
		t.Error("no new connection")
	}
}

// Goal: a slow link takes its time.
func TestSlowLink(t *testing.T) {
	r := connected(t, Options{Seed: 1})
	r.SetLink("a", "b", Link{DelayMin: clock.Second, DelayMax: clock.Second, BytesPerSecond: 100})
	before := r.now
	r.sendA(string(make([]byte, 1000)))
	for len(r.seenB.data) < 1000 {
		r.pass(clock.Millisecond)
	}
	if took := r.now.Sub(before); took < 10*clock.Second || took > 13*clock.Second {
		t.Errorf("1000 bytes took %d ms", took.Millis())
	}
	r.ResetLink("a", "b")
	r.sendA("x")
	r.pass(50 * clock.Millisecond)
	if len(r.seenB.data) != 1001 {
		t.Error("the link is still slow")
	}
}

// Goal, invariant 5: who keeps lent bytes beyond the next Poll sees that.
func TestPoison(t *testing.T) {
	r := connected(t, Options{Seed: 1})
	r.sendA("secret")
	var kept [][]byte
	for n := 0; n < 6; step(t, r.World) {
		for _, e := range r.b.Poll(nil, 100) {
			kept, n = append(kept, e.Data), n+len(e.Data)
		}
		if n == 6 {
			break
		}
	}
	r.b.Poll(nil, 100)
	for _, b := range kept[len(kept)-1:] {
		if b[0] != poison {
			t.Errorf("%q is still there", b)
		}
	}
}

// Goal: streams are cut at arbitrary places: single bytes and large pieces.
func TestPieces(t *testing.T) {
	r := connected(t, Options{Seed: 1})
	sizes := map[int]int{}
	for range 300 {
		r.sendA(string(make([]byte, 3000)))
		for end := r.now.Add(10 * clock.Millisecond); r.NextDeadline() <= end; {
			r.Advance(r.NextDeadline())
			for _, e := range r.b.Poll(nil, 1<<20) {
				sizes[len(e.Data)]++
			}
		}
	}
	if sizes[3000] == 0 || sizes[1] == 0 || len(sizes) < 20 {
		t.Errorf("%d whole, %d single bytes, %d different sizes", sizes[3000], sizes[1], len(sizes))
	}
}

// Goal: how many messages a second the simulator gets, to and fro.
func BenchmarkEcho(b *testing.B) {
	r := connected(b, Options{Seed: 1})
	msg := make([]byte, 200)
	var events []net.Event
	ask := func(h *Host, other *Host, id net.ConnID) {
		h.Submit([]net.Request{{Kind: net.RequestSend, Conn: id, Data: msg}})
		for got := 0; got < 200; {
			r.Advance(r.NextDeadline())
			events = other.Poll(events[:0], 1<<20)
			for _, e := range events {
				got += len(e.Data)
			}
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		ask(r.a, r.b, r.ida)
		ask(r.b, r.a, r.idb)
	}
}

// Goal, invariant 5 of the contract: Close goes on flushing for as long as the peer
// takes some, however long that is in all, and gives up when it takes nothing.
func TestCloseFlushesWhileBytesMove(t *testing.T) {
	for _, reads := range []bool{true, false} {
		w := New(Options{Seed: 5})
		s, c := w.Host("server"), w.Host("client")
		if _, err := s.Listen("server:1", net.PlaneClient); err != nil {
			t.Fatal(err)
		}
		c.Submit([]net.Request{{Kind: net.RequestDial, Conn: 1, Addr: "server:1"}})
		var accepted net.ConnID
		for accepted == 0 || len(c.Poll(nil, 1)) == 0 {
			step(t, w)
			for _, e := range s.Poll(nil, 1) {
				accepted = e.Conn
			}
		}
		const size = 2 << 20
		s.Submit([]net.Request{
			{Kind: net.RequestSend, Conn: accepted, Data: make([]byte, size)},
			{Kind: net.RequestClose, Conn: accepted},
		})
		got, cause := 0, net.Cause(255)
		for range 500 {
			w.Advance(w.now.Add(net.FlushMillis * clock.Millisecond * 2 / 3))
			if !reads && w.now < clock.Instant(2*net.FlushMillis*clock.Millisecond) {
				continue
			}
			for _, e := range c.Poll(nil, 128<<10) {
				got += len(e.Data)
				if e.Kind == net.EventClosed {
					cause = e.Cause
				}
			}
		}
		switch {
		case reads && (got != size || cause != net.CauseEOF):
			t.Errorf("a slow reader got %d bytes of %d, cause %d", got, size, cause)
		case !reads && (got == size || cause != net.CauseReset):
			t.Errorf("who read nothing got %d bytes of %d, cause %d", got, size, cause)
		}
	}
}

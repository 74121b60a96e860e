package nettest

import (
	"testing"

	"github.com/mortarmq/mortarmq/net"
)

// Harness is two fresh networks that reach each other. Both may be the same one.
type Harness struct {
	// Server listens on Addr for PlaneClient; Client dials.
	Server, Client net.Network
	Addr           string
	// Nowhere is an address that refuses connections.
	Nowhere string
	// Step returns when something may have happened. It is called only while the
	// contract promises that something will.
	Step func()
}

// Run runs the whole suite; open gives each test networks of its own.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, c := range []struct {
		name string
		run  func(*suite)
	}{
		{"Open", testOpen},
		{"Refused", testRefused},
		{"Bytes", testBytes},
		{"BorrowedData", testBorrowedData},
		{"PollBudget", testPollBudget},
		{"Nobody", testNobody},
		{"CloseFlushes", testCloseFlushes},
		{"CloseDrains", testCloseDrains},
		{"CloseOfBoth", testCloseOfBoth},
		{"CloseHasAnEnd", testCloseHasAnEnd},
		{"Abort", testAbort},
		{"EndWhileDialling", testEndWhileDialling},
		{"PauseRead", testPauseRead},
		{"PauseThenClose", testPauseThenClose},
		{"Progress", testProgress},
		{"SlowReader", testSlowReader},
		{"Many", testMany},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := open(t)
			s := &suite{T: t, Harness: h, nextID: 1}
			s.server = &end{s: s, network: h.Server, conns: map[net.ConnID]*seen{}}
			s.client = s.server
			if h.Client != h.Server {
				s.client = &end{s: s, network: h.Client, conns: map[net.ConnID]*seen{}}
			}
			c.run(s)
		})
	}
}

// suite drives a harness and checks invariant 1 on the way.
type suite struct {
	*testing.T
	Harness
	server, client *end
	nextID         net.ConnID
}

// end is one network and what it saw.
type end struct {
	s        *suite
	network  net.Network
	conns    map[net.ConnID]*seen
	accepted []net.ConnID
}

// seen is what was seen of a connection.
type seen struct {
	opened, closed bool
	plane          net.Plane
	remote         string
	cause          net.Cause
	data           []byte
	progress       []int
}

// queued is the last number that Progress told.
func (c *seen) queued() int {
	if len(c.progress) == 0 {
		return 0
	}
	return c.progress[len(c.progress)-1]
}

// poll takes in what happened; true if that was something.
func (e *end) poll() bool {
	events := e.network.Poll(nil, 1<<20)
	for _, ev := range events {
		e.take(ev)
	}
	return len(events) > 0
}

func (e *end) take(ev net.Event) {
	s := e.s
	c := e.conns[ev.Conn]
	if c == nil {
		c = &seen{plane: ev.Plane}
		e.conns[ev.Conn] = c
	}
	switch {
	case c.closed:
		s.Errorf("invariant 1: event %d of connection %d after Closed", ev.Kind, ev.Conn)
	case ev.Plane != c.plane:
		s.Errorf("connection %d changed its plane from %d to %d", ev.Conn, c.plane, ev.Plane)
	case ev.Kind == net.EventOpened:
		if c.opened {
			s.Errorf("invariant 1: connection %d opened twice", ev.Conn)
		}
		c.opened, c.remote = true, ev.Remote
		if ev.Plane != net.PlaneDialed {
			e.accepted = append(e.accepted, ev.Conn)
			if ev.Conn < net.FirstAccepted {
				s.Errorf("an accepted connection got the id %d of a dialler", ev.Conn)
			}
		}
		return
	case ev.Kind == net.EventClosed:
		if !c.opened && ev.Plane != net.PlaneDialed {
			s.Errorf("invariant 1: connection %d closed and never opened", ev.Conn)
		}
		c.closed, c.cause = true, ev.Cause
		return
	}
	if !c.opened {
		s.Errorf("invariant 1: event %d of connection %d before Opened", ev.Kind, ev.Conn)
	}
	switch ev.Kind {
	case net.EventBytes:
		if len(ev.Data) == 0 {
			s.Errorf("connection %d: Bytes without bytes", ev.Conn)
		}
		c.data = append(c.data, ev.Data...)
	case net.EventProgress:
		c.progress = append(c.progress, ev.Queued)
	default:
		s.Errorf("an event of kind %d", ev.Kind)
	}
}

// until polls both ends until done.
func (s *suite) until(done func() bool) {
	s.Helper()
	for !done() {
		happened := s.server.poll()
		happened = s.pollOther() || happened
		if s.Failed() {
			s.FailNow()
		}
		if !happened {
			s.Step()
		}
	}
}

// pollOther polls the client's end if it is not the server's too.
func (s *suite) pollOther() bool { return s.client != s.server && s.client.poll() }

// pair gives the ids of a new connection at the client's and the server's end.
func (s *suite) pair() (client, server net.ConnID) {
	s.Helper()
	client = s.nextID
	s.nextID++
	known := len(s.server.accepted)
	s.Client.Submit([]net.Request{{Kind: net.RequestDial, Conn: client, Addr: s.Addr}})
	s.until(func() bool {
		c := s.client.conns[client]
		return c != nil && c.opened && len(s.server.accepted) > known
	})
	return client, s.server.accepted[known]
}

func send(conn net.ConnID, data []byte) net.Request {
	return net.Request{Kind: net.RequestSend, Conn: conn, Data: data}
}

func ask(kind net.RequestKind, conn net.ConnID) net.Request {
	return net.Request{Kind: kind, Conn: conn}
}

// pattern gives n bytes that follow from seed and tell their place.
func pattern(seed, n int) []byte {
	b := make([]byte, n)
	x := uint32(seed)*2654435761 + 12345
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

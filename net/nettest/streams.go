package nettest

import (
	"bytes"
	"slices"

	"github.com/mortarmq/mortarmq/net"
)

// Goal, invariant 1: both ends learn of a connection, with its plane and the
// other's address, and of its end.
func testOpen(s *suite) {
	c, v := s.pair()
	client, server := s.client.conns[c], s.server.conns[v]
	if client.plane != net.PlaneDialed || server.plane != net.PlaneClient {
		s.Errorf("planes %d and %d", client.plane, server.plane)
	}
	if client.remote == "" || server.remote == "" {
		s.Errorf("remotes %q and %q", client.remote, server.remote)
	}
	s.Client.Submit([]net.Request{ask(net.RequestClose, c)})
	s.until(func() bool { return client.closed && server.closed })
	if client.cause != net.CauseLocal || server.cause != net.CauseEOF {
		s.Errorf("causes %d and %d", client.cause, server.cause)
	}
}

// Goal, invariant 1: a dial that fails is Closed alone.
func testRefused(s *suite) {
	s.Client.Submit([]net.Request{{Kind: net.RequestDial, Conn: 5, Addr: s.Nowhere}})
	s.until(func() bool { c := s.client.conns[5]; return c != nil && c.closed })
	if c := s.client.conns[5]; c.opened || c.cause != net.CauseRefused {
		s.Errorf("opened %v, cause %d", c.opened, c.cause)
	}
}

// Goal, invariant 2: what is sent arrives, both ways at once, in pieces of every
// size, several to a submission.
func testBytes(s *suite) {
	c, v := s.pair()
	up, down := pattern(1, 3<<20), pattern(2, 2<<20)
	sent, sentDown := 0, 0
	for i := 0; sent < len(up) || sentDown < len(down); i++ {
		var reqs, reqsDown []net.Request
		for j := range 1 + i%5 {
			n := min(len(up)-sent, 1+(i*i*97+j*j*j*4001)%60000)
			reqs = append(reqs, send(c, up[sent:sent+n]))
			sent += n
			n = min(len(down)-sentDown, 1+(i*131+j*70001)%90000)
			reqsDown = append(reqsDown, send(v, down[sentDown:sentDown+n]))
			sentDown += n
		}
		s.Client.Submit(reqs)
		s.Server.Submit(reqsDown)
		s.server.poll()
		s.pollOther()
	}
	client, server := s.client.conns[c], s.server.conns[v]
	s.until(func() bool { return len(server.data) >= len(up) && len(client.data) >= len(down) })
	if !bytes.Equal(server.data, up) || !bytes.Equal(client.data, down) {
		s.Error("other bytes arrived")
	}
	// What was gathered around a request of another kind is sent in order too.
	s.Client.Submit([]net.Request{send(c, []byte("a")), ask(net.RequestPauseRead, c), send(c, []byte("b")), ask(net.RequestResumeRead, c), send(c, nil), send(c, []byte("c"))})
	s.until(func() bool { return len(server.data) >= len(up)+3 })
	if got := string(server.data[len(up):]); got != "abc" {
		s.Errorf("%q arrived", got)
	}
}

// Goal, invariant 3: a request's Data is free after the submission, also what was
// queued; an event's Data holds until the next Poll.
func testBorrowedData(s *suite) {
	c, v := s.pair()
	data := pattern(3, 12<<20)
	scratch := slices.Clone(data)
	s.Client.Submit([]net.Request{send(c, scratch[:100]), send(c, scratch[100:])})
	clear(scratch)
	server := s.server.conns[v]
	var lent []net.Event
	var copies [][]byte
	for got := 0; got < len(data); {
		for i, e := range lent {
			if !bytes.Equal(e.Data, copies[i]) {
				s.Fatal("an event's Data changed before the next Poll")
			}
		}
		lent, copies = s.Server.Poll(nil, 1<<20), nil
		for _, e := range lent {
			s.server.take(e)
			copies = append(copies, slices.Clone(e.Data))
			got += len(e.Data)
		}
		s.pollOther()
		if len(lent) == 0 {
			s.Step()
		}
	}
	if !bytes.Equal(server.data, data) {
		s.Error("the Data of a request was used after its submission")
	}
}

// Goal: Poll gives of Bytes no more than its budget, except for a first event, and
// with every budget all arrives.
func testPollBudget(s *suite) {
	c, v := s.pair()
	data := pattern(4, 300<<10)
	s.Client.Submit([]net.Request{send(c, data)})
	server := s.server.conns[v]
	budgets := []int{1, 100, 5000, 70000, 0}
	for i := 0; len(server.data) < len(data); i++ {
		s.pollOther()
		budget, sum, count := budgets[i%len(budgets)], 0, 0
		events := s.Server.Poll(nil, budget)
		for _, e := range events {
			if len(e.Data) > 0 {
				count++
			}
			sum += len(e.Data)
			s.server.take(e)
		}
		if sum > budget && count > 1 {
			s.Fatalf("a Poll of %d bytes gave %d in %d events", budget, sum, count)
		}
		if len(events) == 0 {
			s.Step()
		}
	}
	if !bytes.Equal(server.data, data) {
		s.Error("other bytes arrived")
	}
}

// Goal, invariant 4: requests for connections that are closed or never were do
// nothing, and the network goes on.
func testNobody(s *suite) {
	c, v := s.pair()
	s.Server.Submit([]net.Request{ask(net.RequestAbort, v)})
	s.until(func() bool { return s.client.conns[c].closed && s.server.conns[v].closed })
	for _, id := range []net.ConnID{c, 999, net.FirstAccepted - 1, 0} {
		s.Client.Submit([]net.Request{
			send(id, []byte("x")), ask(net.RequestPauseRead, id), ask(net.RequestResumeRead, id),
			ask(net.RequestClose, id), ask(net.RequestAbort, id), {Kind: net.RequestInvalid, Conn: id},
		})
	}
	s.pair()
	if len(s.client.conns)+len(s.server.conns) > 4 && s.client != s.server {
		s.Errorf("%d and %d connections, want 2 each", len(s.client.conns), len(s.server.conns))
	}
}

// Goal: connections do not disturb each other: many at once, each sending its own
// pattern back and forth, some ending early.
func testMany(s *suite) {
	const n = 40
	var clients, servers []net.ConnID
	for range n {
		c, v := s.pair()
		clients, servers = append(clients, c), append(servers, v)
	}
	for round := range 20 {
		var reqs []net.Request
		for i, c := range clients {
			if i%10 == 9 && round == 10 {
				reqs = append(reqs, ask(net.RequestClose, c))
			}
			reqs = append(reqs, send(c, pattern(i*1000+round, 1+i*round*7)))
		}
		s.Client.Submit(reqs)
	}
	for i, v := range servers {
		var want []byte
		for round := range 20 {
			if i%10 != 9 || round < 10 {
				want = append(want, pattern(i*1000+round, 1+i*round*7)...)
			}
		}
		server := s.server.conns[v]
		s.until(func() bool { return len(server.data) >= len(want) })
		if !bytes.Equal(server.data, want) {
			s.Errorf("connection %d: other bytes", i)
		}
	}
}

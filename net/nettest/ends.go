package nettest

import (
	"bytes"

	"github.com/mortarmq/mortarmq/net"
)

// Goal, invariants 5 and 8: Close sends what was accepted before it, more than any
// socket buffers, and nothing that is sent after it.
func testCloseFlushes(s *suite) {
	c, v := s.pair()
	data := pattern(1, 12<<20)
	s.Client.Submit([]net.Request{send(c, data), ask(net.RequestClose, c), send(c, []byte("late")), ask(net.RequestClose, c)})
	s.Client.Submit([]net.Request{send(c, []byte("later"))})
	client, server := s.client.conns[c], s.server.conns[v]
	s.until(func() bool { return server.closed && client.closed })
	if !bytes.Equal(server.data, data) {
		s.Errorf("%d bytes arrived of %d, or others", len(server.data), len(data))
	}
	if server.cause != net.CauseEOF || client.cause != net.CauseLocal {
		s.Errorf("causes: %d at the peer, %d at the closer", server.cause, client.cause)
	}
}

// Goal, invariant 5: Close takes in what the peer still sends, so that the peer
// gets the last bytes and the end of the stream and no reset; none of it is told.
func testCloseDrains(s *suite) {
	c, v := s.pair()
	client, server := s.client.conns[c], s.server.conns[v]
	s.Client.Submit([]net.Request{send(c, pattern(2, 3<<20))})
	s.Server.Submit([]net.Request{send(v, []byte("goodbye")), ask(net.RequestClose, v)})
	before := len(server.data)
	s.until(func() bool { return client.closed && server.closed })
	if string(client.data) != "goodbye" || client.cause != net.CauseEOF {
		s.Errorf("the peer got %q and cause %d", client.data, client.cause)
	}
	if server.cause != net.CauseLocal || len(server.data) != before {
		s.Errorf("the closer got %d bytes after its Close and cause %d", len(server.data)-before, server.cause)
	}
}

// Goal: both ends may close at once. (The second may have learned of the first's
// end before it asked.)
func testCloseOfBoth(s *suite) {
	c, v := s.pair()
	s.Client.Submit([]net.Request{send(c, []byte("up")), ask(net.RequestClose, c)})
	s.Server.Submit([]net.Request{send(v, []byte("down")), ask(net.RequestClose, v)})
	client, server := s.client.conns[c], s.server.conns[v]
	s.until(func() bool { return client.closed && server.closed })
	if client.cause != net.CauseLocal || server.cause != net.CauseLocal && server.cause != net.CauseEOF {
		s.Errorf("causes %d and %d", client.cause, server.cause)
	}
}

// Goal, invariant 5: Close ends although the peer, which does not read, never ends
// its stream.
func testCloseHasAnEnd(s *suite) {
	c, v := s.pair()
	s.Client.Submit([]net.Request{ask(net.RequestPauseRead, c)})
	s.Server.Submit([]net.Request{ask(net.RequestClose, v)})
	server := s.server.conns[v]
	s.until(func() bool { return server.closed })
	if server.cause != net.CauseLocal {
		s.Errorf("cause %d", server.cause)
	}
}

// Goal, invariant 5: Abort ends at once, with what was queued, and the peer sees a
// reset.
func testAbort(s *suite) {
	c, v := s.pair()
	client, server := s.client.conns[c], s.server.conns[v]
	s.Server.Submit([]net.Request{ask(net.RequestPauseRead, v)})
	s.Client.Submit([]net.Request{send(c, pattern(3, 12<<20)), ask(net.RequestAbort, c), send(c, []byte("late")), ask(net.RequestAbort, c)})
	s.Server.Submit([]net.Request{ask(net.RequestResumeRead, v)})
	s.until(func() bool { return client.closed && server.closed })
	if client.cause != net.CauseLocal || server.cause != net.CauseReset {
		s.Errorf("causes: %d at the aborter, %d at the peer", client.cause, server.cause)
	}
	if !bytes.Equal(server.data, pattern(3, len(server.data))) {
		s.Error("the peer got other bytes")
	}
}

// Goal, invariant 5: Close and Abort end a dial; a Send before Opened does nothing.
func testEndWhileDialling(s *suite) {
	for i, kind := range []net.RequestKind{net.RequestClose, net.RequestAbort} {
		id := net.ConnID(100 + i)
		s.Client.Submit([]net.Request{{Kind: net.RequestDial, Conn: id, Addr: s.Addr}, send(id, []byte("early")), ask(kind, id)})
		s.until(func() bool { c := s.client.conns[id]; return c != nil && c.closed })
		if c := s.client.conns[id]; c.cause != net.CauseLocal {
			s.Errorf("cause %d", c.cause)
		}
	}
	_, v := s.pair()
	for _, id := range s.server.accepted {
		if id != v && len(s.server.conns[id].data) > 0 {
			s.Errorf("a Send before Opened arrived: %q", s.server.conns[id].data)
		}
	}
}

// Goal, invariants 6 and 7: a paused end gets no more than was read ahead, the
// other feels it, and everything comes after ResumeRead.
func testPauseRead(s *suite) {
	c, v := s.pair()
	client, server := s.client.conns[c], s.server.conns[v]
	s.Server.Submit([]net.Request{ask(net.RequestPauseRead, v)})
	data := pattern(5, 24<<20)
	s.Client.Submit([]net.Request{send(c, data)})
	s.until(func() bool { return len(client.progress) > 0 })
	s.echo(20)
	if n := len(server.data); n > net.ReadAheadBytes+64<<10 {
		s.Errorf("%d bytes came while reading was paused", n)
	}
	if client.queued() == 0 {
		s.Error("the sender felt nothing of the pause")
	}
	s.Server.Submit([]net.Request{ask(net.RequestResumeRead, v)})
	s.until(func() bool { return len(server.data) >= len(data) && client.queued() == 0 })
	if !bytes.Equal(server.data, data) {
		s.Error("other bytes arrived")
	}
}

// echo makes n round trips on a connection of its own: time passes.
func (s *suite) echo(n int) {
	s.Helper()
	c, v := s.pair()
	for i := range n {
		s.Client.Submit([]net.Request{send(c, []byte{1})})
		s.until(func() bool { return len(s.server.conns[v].data) == i+1 })
		s.Server.Submit([]net.Request{send(v, []byte{1})})
		s.until(func() bool { return len(s.client.conns[c].data) == i+1 })
	}
}

// Goal: a paused connection can be closed and aborted.
func testPauseThenClose(s *suite) {
	for _, kind := range []net.RequestKind{net.RequestClose, net.RequestAbort} {
		c, v := s.pair()
		s.Server.Submit([]net.Request{ask(net.RequestPauseRead, v)})
		s.Client.Submit([]net.Request{send(c, pattern(6, 1<<20))})
		s.Server.Submit([]net.Request{ask(kind, v)})
		server := s.server.conns[v]
		s.until(func() bool { return server.closed })
		if server.cause != net.CauseLocal {
			s.Errorf("cause %d", server.cause)
		}
	}
}

// Goal, invariant 7: what cannot be written at once is told, in numbers that never
// rise and end with 0 when nothing is added; what can be written is not told.
func testProgress(s *suite) {
	c, v := s.pair()
	client, server := s.client.conns[c], s.server.conns[v]
	s.Client.Submit([]net.Request{send(c, pattern(7, 100))})
	s.until(func() bool { return len(server.data) == 100 })
	if len(client.progress) != 0 {
		s.Errorf("a small send told %v", client.progress)
	}
	s.Client.Submit([]net.Request{send(c, pattern(8, 12<<20))})
	s.until(func() bool { return len(client.progress) > 0 && client.queued() == 0 })
	for i := 1; i < len(client.progress); i++ {
		if client.progress[i] > client.progress[i-1] {
			s.Fatalf("Progress went from %d to %d", client.progress[i-1], client.progress[i])
		}
	}
	s.until(func() bool { return len(server.data) == 100+12<<20 })
	if client.queued() != 0 {
		s.Errorf("%d bytes are queued at the end", client.queued())
	}
}

// slowPortion is what a slow reader takes at a time: much less than operating
// systems hold back before they call a socket writable again.
const slowPortion = 512 << 10

// Goal, invariant 7: the sender hears of each portion that a slow reader takes,
// before it takes the next one, whatever lies in buffers between them.
func testSlowReader(s *suite) {
	c, v := s.pair()
	client, server := s.client.conns[c], s.server.conns[v]
	s.Server.Submit([]net.Request{ask(net.RequestPauseRead, v)})
	data := pattern(9, 24<<20)
	s.Client.Submit([]net.Request{send(c, data)})
	s.until(func() bool { return len(client.progress) > 0 })
	for range 6 {
		told, taken := len(client.progress), len(server.data)
		s.Server.Submit([]net.Request{ask(net.RequestResumeRead, v)})
		s.until(func() bool { return len(server.data) >= taken+slowPortion })
		s.Server.Submit([]net.Request{ask(net.RequestPauseRead, v)})
		s.until(func() bool { return len(client.progress) > told })
	}
	s.Server.Submit([]net.Request{ask(net.RequestResumeRead, v)})
	s.until(func() bool { return len(server.data) == len(data) && client.queued() == 0 })
	if !bytes.Equal(server.data, data) {
		s.Error("other bytes arrived")
	}
}

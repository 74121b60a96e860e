package tcp

import (
	"io"
	stdnet "net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/net"
)

// closedBehind is a network with a clock of the test's, and a socket whose other
// end has sent more than the system takes and was closed.
func closedBehind(t *testing.T, size int) (n *Network, woken chan struct{}, socket stdnet.Conn, pass func(time.Duration)) {
	n, addr, woken := opened(t, Options{})
	var elapsed atomic.Int64
	begin := time.Now()
	n.now = func() time.Time { return begin.Add(time.Duration(elapsed.Load())) }
	sockets, ids := dialled(t, n, addr, woken, 1)
	n.Submit([]net.Request{
		{Kind: net.RequestSend, Conn: ids[0], Data: make([]byte, size)},
		{Kind: net.RequestClose, Conn: ids[0]},
	})
	return n, woken, sockets[0], func(d time.Duration) { elapsed.Add(int64(d)) }
}

// Goal, invariant 5 of the contract: Close goes on flushing for as long as the peer
// takes some, however long that is in all.
func TestCloseFlushesToASlowReader(t *testing.T) {
	const size = 16 << 20
	n, woken, socket, pass := closedBehind(t, size)
	got := 0
	for range 6 {
		k, err := io.ReadFull(socket, make([]byte, 512<<10))
		if got += k; err != nil {
			t.Fatalf("after %d bytes: %v", got, err)
		}
		for moved := false; !moved; {
			<-woken
			for _, e := range n.Poll(nil, 1<<20) {
				moved = moved || e.Kind == net.EventProgress
			}
		}
		pass(net.FlushMillis * time.Millisecond * 2 / 3)
	}
	rest, err := io.Copy(io.Discard, socket)
	if got += int(rest); err != nil || got != size {
		t.Fatalf("%d bytes of %d, %v", got, size, err)
	}
}

// Goal, invariant 5 of the contract: Close gives up on a peer that takes nothing.
func TestCloseGivesUpOnWhoReadsNothing(t *testing.T) {
	const size = 16 << 20
	n, _, socket, pass := closedBehind(t, size)
	for closed := false; !closed; {
		pass(net.FlushMillis * time.Millisecond)
		runtime.Gosched()
		for _, e := range n.Poll(nil, 1<<20) {
			closed = closed || e.Kind == net.EventClosed
		}
	}
	if got, err := io.Copy(io.Discard, socket); err == nil || got == size {
		t.Fatalf("the peer got %d bytes and no reset", got)
	}
}

// Goal: a connection that is being closed ends when both its writer and its reader
// have met a reset, whichever is first: the system tells one of them of an error and
// the other of an end.
func TestCloseMeetsAReset(t *testing.T) {
	for _, writerFirst := range []bool{true, false} {
		n, addr, woken := opened(t, Options{})
		_, ids := dialled(t, n, addr, woken, 1)
		c := n.lookup(ids[0])
		c.mu.Lock()
		c.writing = true
		c.mu.Unlock()
		c.close()
		if writerFirst {
			c.writeFailed()
			c.readFailed(io.EOF)
		} else {
			c.readFailed(io.EOF)
			c.writeFailed()
		}
		if got := n.Poll(nil, 1); len(got) != 1 || got[0].Kind != net.EventClosed || got[0].Cause != net.CauseLocal {
			t.Errorf("the writer first %v: %+v instead of the end", writerFirst, got)
		}
	}
}

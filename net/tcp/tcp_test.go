package tcp

import (
	"errors"
	"fmt"
	stdnet "net"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/net/nettest"
)

// Goal: no test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// waker is a Wake and the channel of its calls.
func waker() (woken chan struct{}, wake func()) {
	woken = make(chan struct{}, 1)
	return woken, func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
}

// opened is a network that listens, its address and the channel of its wake calls.
func opened(t testing.TB, options Options) (*Network, string, chan struct{}) {
	t.Helper()
	woken, wake := waker()
	options.Wake = wake
	n := New(options)
	t.Cleanup(func() { n.Close() })
	addr, err := n.Listen("127.0.0.1:0", net.PlaneClient)
	if err != nil {
		t.Fatal(err)
	}
	return n, addr, woken
}

// nowhere is an address that nobody listens on: the port was bound and given up.
func nowhere(t testing.TB) string {
	l, err := stdnet.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Goal: TCP keeps the contract of package net.
func TestConformance(t *testing.T) {
	nettest.Run(t, func(t *testing.T) nettest.Harness {
		n, addr, woken := opened(t, Options{})
		return nettest.Harness{Server: n, Client: n, Addr: addr, Nowhere: nowhere(t), Step: func() { <-woken }}
	})
}

// Goal: the contract holds also with a budget that is smaller than every read.
func TestConformanceSmallBudget(t *testing.T) {
	nettest.Run(t, func(t *testing.T) nettest.Harness {
		n, addr, woken := opened(t, Options{BudgetBytes: 1})
		return nettest.Harness{Server: n, Client: n, Addr: addr, Nowhere: nowhere(t), Step: func() { <-woken }}
	})
}

// Goal: the contract holds also if each reader that brings something is left behind
// and another goroutine reads on.
func TestConformanceLeftBehind(t *testing.T) {
	nettest.Run(t, func(t *testing.T) nettest.Harness {
		woken, wake := waker()
		n := New(Options{Wake: wake, Arrived: func(rest func()) bool {
			wake()
			go rest()
			return false
		}})
		t.Cleanup(func() { n.Close() })
		addr, err := n.Listen("127.0.0.1:0", net.PlaneClient)
		if err != nil {
			t.Fatal(err)
		}
		return nettest.Harness{Server: n, Client: n, Addr: addr, Nowhere: nowhere(t), Step: func() { <-woken }}
	})
}

// Goal: a port in use is refused with its address and what to do.
func TestListenInUse(t *testing.T) {
	n, addr, _ := opened(t, Options{})
	_, err := n.Listen(addr, net.PlanePeer)
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), addr) {
		t.Errorf("Listen: %v", err)
	}
	if _, err := n.Listen("256.0.0.1:1", net.PlanePeer); err == nil || errors.Is(err, ErrInUse) {
		t.Errorf("Listen on no address: %v", err)
	}
	n.Close()
	if _, err := n.Listen("127.0.0.1:0", net.PlanePeer); !errors.Is(err, ErrClosed) {
		t.Errorf("Listen after Close: %v", err)
	}
}

// Goal: connections to a port that was taken wait until they are accepted, and are
// refused when it was given back; those that were accepted live on.
func TestBind(t *testing.T) {
	n, _, woken := opened(t, Options{})
	l, err := n.Bind("127.0.0.1:0", net.PlanePeer)
	if err != nil {
		t.Fatal(err)
	}
	s, err := stdnet.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Write([]byte("x"))
	if e := n.Poll(nil, 1); len(e) != 0 {
		t.Fatalf("%+v before Accept", e)
	}
	l.Accept()
	got := ""
	for got == "" {
		<-woken
		for _, e := range n.Poll(nil, 1) {
			if e.Plane != net.PlanePeer {
				t.Errorf("an event of plane %d", e.Plane)
			}
			if l.Close(); e.Kind == net.EventOpened {
				n.Submit([]net.Request{{Kind: net.RequestSend, Conn: e.Conn, Data: []byte("y")}})
			}
			got += string(e.Data)
		}
	}
	b := make([]byte, 1)
	if _, err := s.Read(b); err != nil || string(b)+got != "yx" {
		t.Errorf("got %q and %q, %v", b, got, err)
	}
	if s, err := stdnet.Dial("tcp", l.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a connection after Close: %v, %v", s, err)
	}
}

// Goal: a reader that has something to tell does so before it throws away what comes
// behind, which may never end.
func TestToldBeforeDiscarding(t *testing.T) {
	for _, set := range []func(*conn){
		func(c *conn) { c.closing = true },
		func(c *conn) { c.broken, c.paused = true, true },
	} {
		l, err := stdnet.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		peer, err := stdnet.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := peer.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := peer.(*stdnet.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		raw, err := s.(*stdnet.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		c := newConn(New(Options{}), 1, net.PlaneClient)
		set(c)
		r := reader{c: c, arrived: true}
		if err := raw.Read(r.ready); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Read(make([]byte, 2)); n != 1 {
			t.Error("the byte was thrown away first", err)
		}
		l.Close()
		peer.Close()
		s.Close()
	}
}

// dialled opens k plain sockets to addr and waits until the network has them.
func dialled(t testing.TB, n *Network, addr string, woken chan struct{}, k int) ([]stdnet.Conn, []net.ConnID) {
	t.Helper()
	var sockets []stdnet.Conn
	var ids []net.ConnID
	for range k {
		s, err := stdnet.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		sockets = append(sockets, s)
	}
	for len(ids) < k {
		<-woken
		for _, e := range n.Poll(nil, 1<<20) {
			if e.Kind == net.EventOpened {
				ids = append(ids, e.Conn)
			}
		}
	}
	return sockets, ids
}

// Goal, invariant 1 of the package: an idle connection has one goroutine and no
// block, also after it has been used.
func TestIdleConnectionsAreCheap(t *testing.T) {
	n, addr, woken := opened(t, Options{})
	before := runtime.NumGoroutine()
	const k = 500
	sockets, ids := dialled(t, n, addr, woken, k)
	if n.ConnCount() != k {
		t.Errorf("ConnCount is %d", n.ConnCount())
	}
	for _, s := range sockets {
		s.Write([]byte("hello"))
	}
	for got := 0; got < k*5; {
		<-woken
		for _, e := range n.Poll(nil, 1<<20) {
			got += len(e.Data)
		}
	}
	n.Submit([]net.Request{ // two sends that are copied together
		{Kind: net.RequestSend, Conn: ids[0], Data: []byte("a")},
		{Kind: net.RequestSend, Conn: ids[0], Data: []byte("b")},
	})
	n.Poll(nil, 0)
	if extra := runtime.NumGoroutine() - before; extra > k {
		t.Errorf("%d goroutines for %d idle connections", extra, k)
	}
	for n.blocks.out.Load() > 0 { // a reader may just be giving its own back
		runtime.Gosched()
	}
}

// Goal: small reads of many connections share blocks: unpolled messages cost their
// bytes and not a block each.
func TestSmallReadsShareBlocks(t *testing.T) {
	n, addr, woken := opened(t, Options{})
	const k = 300
	sockets, _ := dialled(t, n, addr, woken, k)
	for _, s := range sockets {
		s.Write(make([]byte, 100))
	}
	unpolled := func() (sum int) {
		n.inbox.mu.Lock()
		defer n.inbox.mu.Unlock()
		return n.inbox.unpolled[net.PlaneClient]
	}
	for unpolled() < k*100 {
		runtime.Gosched()
	}
	if out := n.blocks.out.Load(); out > 2+int64(runtime.GOMAXPROCS(0)) {
		t.Errorf("%d blocks for %d bytes", out, k*100)
	}
	n.Poll(nil, 1<<20)
}

// Goal: the sends of one submission to one connection are one write, whatever lies
// between them. Writes are counted by an instrumented socket call.
func TestGather(t *testing.T) {
	n, addr, woken := opened(t, Options{})
	sockets, ids := dialled(t, n, addr, woken, 2)
	writes := 0
	try := n.out.try
	n.out.try = func(fd uintptr) bool { writes++; return try(fd) }
	var reqs []net.Request
	for i := range 50 {
		for _, id := range ids {
			reqs = append(reqs, net.Request{Kind: net.RequestSend, Conn: id, Data: []byte{byte(i)}})
		}
	}
	n.Submit(reqs)
	if writes != 2 {
		t.Errorf("%d writes for 2 connections", writes)
	}
	for _, s := range sockets {
		b := make([]byte, 50)
		for got := 0; got < 50; {
			k, err := s.Read(b[got:])
			if err != nil {
				t.Fatal(err)
			}
			got += k
		}
		for i := range b {
			if int(b[i]) != i {
				t.Fatalf("byte %d is %d", i, b[i])
			}
		}
	}
}

// Goal: an accept that fails for want of descriptors is counted and waited out,
// and the loop goes on and ends with the network.
func TestAcceptErrors(t *testing.T) {
	n, _, _ := opened(t, Options{})
	calls := make(chan int, 100)
	count := 0
	n.tasks.Go(func() {
		n.accept(func() (*stdnet.TCPConn, error) {
			count++
			calls <- count
			if count > 3 {
				return nil, stdnet.ErrClosed
			}
			return nil, &stdnet.OpError{Op: "accept", Err: syscall.EMFILE}
		}, net.PlaneClient)
	})
	for range 4 {
		<-calls
	}
	if n.AcceptErrors() != 3 {
		t.Errorf("%d errors counted", n.AcceptErrors())
	}
}

// Goal: readers stop at the plane's budget and go on when it is polled; the other
// planes are not held up.
func TestBudget(t *testing.T) {
	n, addr, woken := opened(t, Options{BudgetBytes: 300 << 10})
	sockets, _ := dialled(t, n, addr, woken, 4)
	const each = 4 << 20
	for _, s := range sockets {
		go s.Write(make([]byte, each))
	}
	unpolled := func() int {
		n.inbox.mu.Lock()
		defer n.inbox.mu.Unlock()
		return n.inbox.unpolled[net.PlaneClient]
	}
	for unpolled() <= 300<<10 {
		runtime.Gosched()
	}
	n.Submit([]net.Request{{Kind: net.RequestDial, Conn: 1, Addr: addr}})
	for got := 0; got < 4*each; {
		if u := unpolled(); u > 300<<10+4*blockBytes {
			t.Fatalf("%d bytes are unpolled", u)
		}
		for _, e := range n.Poll(nil, 64<<10) {
			got += len(e.Data)
		}
	}
}

// Goal: Close ends listeners, dials, readers and writers that are under way, and
// their ends can still be polled.
func TestCloseJoins(t *testing.T) {
	n, addr, woken := opened(t, Options{})
	_, ids := dialled(t, n, addr, woken, 3)
	n.Submit([]net.Request{
		{Kind: net.RequestSend, Conn: ids[0], Data: make([]byte, 16<<20)},
		{Kind: net.RequestPauseRead, Conn: ids[1]},
		{Kind: net.RequestSend, Conn: ids[2], Data: make([]byte, 16<<20)},
		{Kind: net.RequestClose, Conn: ids[2]},
		{Kind: net.RequestDial, Conn: 1, Addr: "192.0.2.1:1"},
	})
	n.Close()
	n.Submit([]net.Request{{Kind: net.RequestDial, Conn: 2, Addr: addr}, {Kind: net.RequestSend, Conn: ids[0], Data: []byte("x")}})
	closed := map[net.ConnID]bool{}
	for _, e := range n.Poll(nil, 1<<20) {
		if e.Kind == net.EventClosed {
			closed[e.Conn] = true
		}
	}
	if len(closed) != 4 || n.ConnCount() != 0 {
		t.Errorf("closed %v, %d left", closed, n.ConnCount())
	}
}

// Goal: what a message costs from submission to poll, for many connections in one
// submission.
func BenchmarkRoundTrip(b *testing.B) {
	for _, k := range []int{1, 64} {
		b.Run(fmt.Sprint(k), func(b *testing.B) {
			n, addr, woken := opened(b, Options{})
			var reqs []net.Request
			var events []net.Event
			for i := range k {
				n.Submit([]net.Request{{Kind: net.RequestDial, Conn: net.ConnID(i + 1), Addr: addr}})
				reqs = append(reqs, net.Request{Kind: net.RequestSend, Conn: net.ConnID(i + 1), Data: make([]byte, 200)})
			}
			for open := 0; open < 2*k; {
				<-woken
				events = n.Poll(events[:0], 1<<20)
				open += len(events)
			}
			b.ReportAllocs()
			for b.Loop() {
				n.Submit(reqs)
				for got := 0; got < 200*k; {
					<-woken
					events = n.Poll(events[:0], 1<<20)
					for _, e := range events {
						got += len(e.Data)
					}
				}
			}
			b.ReportMetric(float64(b.N*k)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

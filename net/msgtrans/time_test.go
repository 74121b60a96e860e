package msgtrans

import (
	"context"
	"errors"
	stdnet "net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// These tests run in a bubble whose clock jumps when everybody waits: the times
// that they compare are exact, and nothing sleeps.

// pipeStream is one end of a net.Pipe; ending one direction ends both.
type pipeStream struct{ stdnet.Conn }

func (p pipeStream) CloseWrite() error { return p.Close() }

func pipeLink(c stdnet.Conn, s *settings) link { return newStreamLink(pipeStream{c}, s) }

// pair connects two connections by a pipe.
func pair(a, b Options) (*Conn, *Conn) {
	left, right := stdnet.Pipe()
	sa, sb := a.withDefaults().settingsFor(TCP), b.withDefaults().settingsFor(TCP)
	ca := newConn(pipeLink(left, sa), Peer{Transport: TCP}, sa, nil)
	cb := newConn(pipeLink(right, sb), Peer{Transport: TCP}, sb, nil)
	ca.start(nil)
	cb.start(nil)
	return ca, cb
}

func closeBoth(a, b *Conn) {
	_ = a.Close()
	_ = b.Close()
	<-a.Done()
	<-b.Done()
}

// Goal: a request without an answer ends after 10 s by default, with its context's
// deadline before that, and each at its own time; an answer that comes later is
// dropped and counted.
func TestTimeoutsAreExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := make(chan Request, 10)
		a, b := pair(Options{}, Options{OnRequest: func(_ context.Context, r Request) {
			r.Hold()
			held <- r
		}})
		defer closeBoth(a, b)
		start := time.Now()
		var callers sync.WaitGroup
		for _, bound := range []time.Duration{3 * time.Second, 0, time.Second, 7 * time.Second, 20 * time.Second} {
			callers.Go(func() {
				ctx := t.Context()
				want := 10 * time.Second
				if bound > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, bound)
					defer cancel()
					want = min(want, bound)
				}
				_, err := a.Request(ctx, Message{})
				if !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v: %v", bound, err)
				}
				if took := time.Since(start); took != want {
					t.Errorf("bound %v: ended after %v, want %v", bound, took, want)
				}
			})
		}
		callers.Wait()
		for range 5 {
			if err := (<-held).Reply(t.Context(), Message{}); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if s := a.Stats(); s.Unmatched != 5 || s.Timeouts != 5 || s.Responses != 0 {
			t.Fatalf("%+v", s)
		}
	})
}

// Goal: without a packet a connection ends after IdleTimeout and at most a quarter
// more; one packet per IdleTimeout keeps it.
func TestIdleConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(Options{}, Options{IdleTimeout: time.Hour, OnMessage: func(context.Context, *Conn, Message) {}})
		defer closeBoth(a, b)
		for range 10 {
			time.Sleep(DefaultIdleTimeout - time.Second)
			if err := a.Send(t.Context(), Message{}); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		<-a.Done()
		if took := time.Since(start); took < DefaultIdleTimeout || took > DefaultIdleTimeout*5/4 {
			t.Fatalf("ended after %v", took)
		}
		if err := a.Err(); !errors.Is(err, ErrTimeout) {
			t.Fatal(err)
		}
	})
}

// Goal: a full send queue makes senders wait in order, for their context, requests
// also for RequestTimeout whatever their context allows, and loses nothing.
func TestFullSendQueueMakesSendersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left, right := stdnet.Pipe()
		set := Options{SendPackets: 4}.withDefaults().settingsFor(TCP)
		c := newConn(pipeLink(left, set), Peer{Transport: TCP}, set, nil)
		c.start(nil)
		for n := range 4 {
			if err := c.Send(t.Context(), Message{Biz: uint8(n)}); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Send(short, Message{Biz: 99}); !errors.Is(err, ErrTimeout) || time.Since(start) != time.Second {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
		if _, err := c.Request(t.Context(), Message{Biz: 99}); !errors.Is(err, ErrTimeout) || time.Since(start) != 11*time.Second {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
		long, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.Request(long, Message{Biz: 99}); !errors.Is(err, ErrTimeout) || time.Since(start) != 21*time.Second {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
		if err := c.RequestFunc(long, Message{Biz: 99}, nil); !errors.Is(err, ErrTimeout) || time.Since(start) != 31*time.Second {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
		var senders sync.WaitGroup
		for n := 4; n < 20; n++ {
			senders.Go(func() {
				if err := c.Send(t.Context(), Message{Biz: uint8(n)}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait() // it has its place in the queue
		}
		time.Sleep(time.Minute) // longer than any timeout but that of idle connections
		l := pipeLink(right, set)
		var p puller
		for n := range 20 {
			got, err := p.next(l)
			if err != nil || got.Biz != uint8(n) || got.ID != MessageID(n+1) {
				t.Fatalf("packet %d is %d with id %d, %v", n, got.Biz, got.ID, err)
			}
		}
		senders.Wait()
		_ = c.Close()
		l.abort(nil)
		<-c.Done()
	})
}

// Goal: what has HIGH_PRIORITY goes before what was queued earlier.
func TestHighPriorityOvertakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left, right := stdnet.Pipe()
		set := Options{}.withDefaults().settingsFor(TCP)
		c := newConn(pipeLink(left, set), Peer{Transport: TCP}, set, nil)
		c.start(nil)
		send := func(biz uint8, f Flags) {
			if err := c.Send(t.Context(), Message{Biz: biz, Flags: f, Payload: make([]byte, 300<<10)}); err != nil {
				t.Fatal(err)
			}
		}
		send(0, 0)
		synctest.Wait() // it is being written
		for n := range 4 {
			send(uint8(1+n), 0)
		}
		send(10, HighPriority)
		send(11, HighPriority)
		l := pipeLink(right, set)
		var p puller
		for n, want := range []uint8{0, 10, 11, 1, 2, 3, 4} {
			if got, err := p.next(l); err != nil || got.Biz != want {
				t.Fatalf("packet %d is %d, %v; want %d", n, got.Biz, err, want)
			}
		}
		_ = c.Close()
		l.abort(nil)
		<-c.Done()
	})
}

// Goal: when a connection ends the client dials again, with waits that double up to
// Max; everything pending fails, and ids begin at 1 again.
func TestReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := Options{RequestTimeout: time.Hour}
		var waits []time.Duration
		opened := 0
		set.OnEvent = func(e Event) {
			switch e.Kind {
			case EventReconnecting:
				waits = append(waits, e.Delay)
			case EventOpened:
				opened++
			}
		}
		resolved := set.withDefaults().settingsFor(TCP)
		peers := make(chan stdnet.Conn, 1)
		var refuse atomic.Int32
		connect := func(context.Context) (link, Peer, error) {
			if refuse.Add(-1) >= 0 {
				return nil, Peer{}, &Error{Op: "dial", Kind: ErrRefused}
			}
			left, right := stdnet.Pipe()
			peers <- right
			return pipeLink(left, resolved), Peer{Transport: TCP}, nil
		}
		c, err := newClient(t.Context(), resolved, Backoff{Min: time.Second, Max: 8 * time.Second}, connect)
		if err != nil {
			t.Fatal(err)
		}
		peer := <-peers
		var pending sync.WaitGroup
		for range 10 {
			pending.Go(func() {
				if _, err := c.Request(t.Context(), Message{}); !errors.Is(err, ErrClosed) {
					t.Errorf("pending: %v", err)
				}
			})
		}
		l := pipeLink(peer, resolved)
		var p puller
		for n := range 10 {
			if got, err := p.next(l); err != nil || got.ID != MessageID(n+1) {
				t.Fatalf("id %d, %v", got.ID, err)
			}
		}
		refuse.Store(5)
		_ = peer.Close()
		pending.Wait()
		// Sent while there is no connection: it waits for the next one.
		answered := make(chan error)
		go func() {
			m, err := c.Request(t.Context(), Message{})
			if err == nil && m.ID != 1 {
				err = errors.New("ids do not begin at 1")
			}
			answered <- err
		}()
		l = pipeLink(<-peers, resolved)
		got, err := pull(l)
		if err != nil || got.ID != 1 {
			t.Fatalf("id %d, %v", got.ID, err)
		}
		b, err := wire.Append(nil, &Packet{Type: TypeResponse, ID: got.ID}, wire.Bare)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.write(b, nil); err != nil {
			t.Fatal(err)
		}
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		l.abort(nil)
		synctest.Wait()
		for n, want := range []time.Duration{1, 2, 4, 8, 8, 8} {
			if waits[n] < want*time.Second/2 || waits[n] > want*time.Second {
				t.Errorf("wait %d was %v, want up to %d s and at least half of it", n, waits[n], want)
			}
		}
		if len(waits) != 6 || opened != 2 {
			t.Errorf("%d waits, %d connections", len(waits), opened)
		}
		if _, err := c.Request(t.Context(), Message{}); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// Goal: a client with a bound on its attempts ends with the last error.
func TestReconnectGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := Options{}.withDefaults().settingsFor(TCP)
		var peer stdnet.Conn
		connect := func(context.Context) (link, Peer, error) {
			if peer != nil {
				return nil, Peer{}, &Error{Op: "dial", Kind: ErrRefused}
			}
			var left stdnet.Conn
			left, peer = stdnet.Pipe()
			return pipeLink(left, set), Peer{Transport: TCP}, nil
		}
		c, err := newClient(t.Context(), set, Backoff{Attempts: 3}, connect)
		if err != nil {
			t.Fatal(err)
		}
		_ = peer.Close()
		<-c.Done()
		if !errors.Is(c.Err(), ErrRefused) {
			t.Fatal(c.Err())
		}
	})
}

// Goal: a connection whose peer takes a large packet little by little, for longer
// than IdleTimeout in all, is not idle; one whose peer takes nothing more is.
func TestSlowReaderIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := stdnet.Pipe()
		set := Options{IdleTimeout: time.Minute}.withDefaults().settingsFor(TCP)
		c := newConn(pipeLink(here, set), Peer{Transport: TCP}, set, nil)
		c.start(nil)
		const size = 8 << 20
		if err := c.Send(t.Context(), Message{Payload: make([]byte, size)}); err != nil {
			t.Fatal(err)
		}
		for got := 0; got < size/2; {
			n, err := there.Read(make([]byte, 20_000))
			if got += n; err != nil {
				t.Fatalf("after %d bytes: %v, %v", got, err, c.Err())
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute + 30*time.Second)
		if !errors.Is(c.Err(), ErrTimeout) {
			t.Errorf("a peer that takes nothing: %v", c.Err())
		}
		<-c.Done()
	})
}

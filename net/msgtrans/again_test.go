package msgtrans

import (
	"context"
	"errors"
	"math"
	stdnet "net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// hangUps connects to a server that takes every connection and calls meet with its end.
func hangUps(set *settings, meet func(n int, peer stdnet.Conn)) func(context.Context) (link, Peer, error) {
	n := 0
	return func(context.Context) (link, Peer, error) {
		left, right := stdnet.Pipe()
		n++
		go meet(n, right)
		return pipeLink(left, set), Peer{Transport: TCP}, nil
	}
}

// Goal: a server that accepts and hangs up is one that cannot be reached: waits grow
// and attempts are used up, until a connection proves itself by a packet or by time.
func TestHangUpsAreFailedAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := Options{}
		var attempts []int
		set.OnEvent = func(e Event) {
			if e.Kind == EventReconnecting {
				attempts = append(attempts, e.Attempt)
				if low := time.Second << (e.Attempt - 1) / 2; e.Delay < low || e.Delay > 2*low {
					t.Errorf("attempt %d after %v", e.Attempt, e.Delay)
				}
			}
		}
		resolved := set.withDefaults().settingsFor(TCP)
		packet := one(t, TCP, &Packet{Type: TypeOneWay, ID: 1})
		connect := hangUps(resolved, func(n int, peer stdnet.Conn) {
			switch n {
			case 3:
				_, _ = peer.Write(packet)
			case 5:
				time.Sleep(8 * time.Second)
			}
			_ = peer.Close()
		})
		c, err := newClient(t.Context(), resolved, Backoff{Min: time.Second, Max: 8 * time.Second, Attempts: 3}, connect)
		if err != nil {
			t.Fatal(err)
		}
		<-c.Done()
		wantKind(t, c.Err(), ErrClosed)
		if want := []int{1, 2, 1, 2, 1, 2, 3}; !slices.Equal(attempts, want) {
			t.Errorf("attempts %v, want %v", attempts, want)
		}
		_ = c.Close()
	})
}

// Goal: the events of a client come in their order, closed, reconnecting, opened, also
// if a handler of the old connection is slow; one that does not return, as it waits for
// the next connection, gets it after DrainTimeout.
func TestEventsOfReconnectAreInOrder(t *testing.T) {
	for name, slow := range map[string]func(ctx context.Context, c func() *Client){
		"slow handler":  func(context.Context, func() *Client) { time.Sleep(5 * time.Second) },
		"stuck handler": func(_ context.Context, c func() *Client) { _ = c().Send(context.Background(), Message{}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var kinds []EventKind
				var client *Client
				made := make(chan struct{})
				set := Options{
					OnMessage: func(ctx context.Context, _ *Conn, _ Message) {
						time.Sleep(time.Second) // the connection has ended meanwhile
						slow(ctx, func() *Client { <-made; return client })
					},
					OnEvent: func(e Event) {
						mu.Lock()
						defer mu.Unlock()
						if e.Kind != EventDraining {
							kinds = append(kinds, e.Kind)
						}
					},
				}
				set.DrainTimeout = 10 * time.Second
				resolved := set.withDefaults().settingsFor(TCP)
				packet := one(t, TCP, &Packet{Type: TypeOneWay, ID: 1})
				second := make(chan stdnet.Conn)
				connect := hangUps(resolved, func(n int, peer stdnet.Conn) {
					if n > 1 {
						second <- peer
						return
					}
					_, _ = peer.Write(packet)
					_ = peer.Close()
				})
				var err error
				client, err = newClient(t.Context(), resolved, Backoff{Min: time.Millisecond}, connect)
				if err != nil {
					t.Fatal(err)
				}
				close(made)
				peer := <-second
				synctest.Wait()
				mu.Lock()
				if want := []EventKind{EventOpened, EventClosed, EventReconnecting, EventOpened}; !slices.Equal(kinds, want) {
					t.Errorf("events %v, want %v", kinds, want)
				}
				mu.Unlock()
				_ = client.Close()
				_ = peer.Close()
			})
		})
	}
}

// Goal: a client may be closed from each of its callbacks, and then neither dials nor
// holds a connection.
func TestCloseInCallbacks(t *testing.T) {
	for _, kind := range []EventKind{EventClosed, EventReconnecting, EventOpened, EventDraining} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var client *Client
				ready, closed := make(chan struct{}), make(chan struct{})
				opened := 0
				set := Options{OnEvent: func(e Event) {
					if e.Kind == EventOpened {
						if opened++; opened == 1 {
							return // there is no client yet
						}
					}
					if e.Kind == kind {
						<-ready
						_ = client.Close()
						close(closed)
					}
				}}
				resolved := set.withDefaults().settingsFor(TCP)
				connect := hangUps(resolved, func(n int, peer stdnet.Conn) {
					<-ready
					if n == 1 {
						_ = peer.Close()
						return
					}
					_ = drainLink(pipeLink(peer, resolved))
				})
				var err error
				client, err = newClient(t.Context(), resolved, Backoff{Min: time.Millisecond}, connect)
				if err != nil {
					t.Fatal(err)
				}
				close(ready)
				<-closed
				<-client.ended
				synctest.Wait()
				if opened > 2 {
					t.Errorf("%d connections", opened)
				}
				client.mu.Lock()
				defer client.mu.Unlock()
				if len(client.live) > 0 {
					t.Errorf("%d connections are left", len(client.live))
				}
			})
		})
	}
}

// Goal: RequestTimeout bounds a request on a client as a whole: the wait for room on a
// connection that ends, the wait for the next one, and the wait for the Response.
func TestRequestTimeoutBoundsTheWaitForAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := Options{SendPackets: 1}.withDefaults().settingsFor(TCP)
		peers := make(chan stdnet.Conn, 1)
		connect := hangUps(set, func(_ int, peer stdnet.Conn) { peers <- peer })
		c, err := newClient(t.Context(), set, Backoff{Min: 4 * time.Second}, connect)
		if err != nil {
			t.Fatal(err)
		}
		peer := <-peers
		if err := c.Send(t.Context(), Message{}); err != nil { // nobody reads it
			t.Fatal(err)
		}
		start := time.Now()
		var callers sync.WaitGroup
		for _, ask := range []func() error{
			func() error { _, err := c.Request(t.Context(), Message{}); return err },
			func() error {
				ended := make(chan error, 1)
				if err := c.RequestFunc(t.Context(), Message{}, func(_ Message, err error) { ended <- err }); err != nil {
					return err
				}
				return <-ended
			},
		} {
			callers.Go(func() {
				if err := ask(); !errors.Is(err, ErrTimeout) || time.Since(start) != DefaultRequestTimeout {
					t.Errorf("after %v: %v", time.Since(start), err)
				}
			})
		}
		time.Sleep(5 * time.Second)
		_ = peer.Close()
		peer = <-peers // which takes what comes and does not answer
		go func() { _ = drainLink(pipeLink(peer, set)) }()
		callers.Wait()
		_ = c.Close()
		_ = peer.Close()
	})
}

// Goal: a Send has no timeout of its own: without a connection, too, it waits for its
// context, or for a connection.
func TestSendWaitsForAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := Options{}.withDefaults().settingsFor(TCP)
		peers := make(chan stdnet.Conn, 1)
		connect := hangUps(set, func(_ int, peer stdnet.Conn) { peers <- peer })
		c, err := newClient(t.Context(), set, Backoff{Min: time.Hour, Max: time.Hour}, connect)
		if err != nil {
			t.Fatal(err)
		}
		_ = (<-peers).Close()
		<-c.Conn().Done()
		synctest.Wait()
		start := time.Now()
		bounded, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Send(bounded, Message{}); !errors.Is(err, ErrTimeout) || time.Since(start) != time.Minute {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
		sent := make(chan error, 1)
		go func() { sent <- c.Send(t.Context(), Message{Biz: 7}) }()
		peer := <-peers
		if p, err := pull(pipeLink(peer, set)); err != nil || p.Biz != 7 {
			t.Fatalf("%+v, %v", p, err)
		}
		if err := <-sent; err != nil || time.Since(start) < time.Hour/2 {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
		_ = c.Close()
		_ = peer.Close()
	})
}

// Goal: waits stay within their bounds, whatever those are.
func TestBackoffDelay(t *testing.T) {
	for _, b := range []Backoff{{}, {Min: 1, Max: 1}, {Min: 1, Max: math.MaxInt64}, {Min: math.MaxInt64, Max: math.MaxInt64}, {Min: time.Hour, Max: time.Second}} {
		b = b.withDefaults()
		for n := 1; n < 100; n++ {
			if d := b.delay(n); d < min(b.Min, b.Max)/2 || d > b.Max {
				t.Fatalf("%+v: attempt %d after %v", b, n, d)
			}
		}
	}
}

package msgtrans

import (
	"context"
	"errors"
	stdnet "net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// Goal: what was accepted for sending and is lost is reported by Shutdown: after a
// reset while it drains, and after a close that left something unwritten.
func TestShutdownReportsLoss(t *testing.T) {
	for name, lose := range map[string]func(c *stdnet.TCPConn, own *Conn){
		"reset by the peer": func(c *stdnet.TCPConn, _ *Conn) { _ = c.SetLinger(0); _ = c.Close() },
		"closed here":       func(_ *stdnet.TCPConn, own *Conn) { _ = own.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			sock, err := stdnet.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer sock.Close()
			accepted := make(chan *stdnet.TCPConn, 1)
			go func() {
				c, err := sock.Accept()
				if err == nil {
					accepted <- c.(*stdnet.TCPConn)
				}
				close(accepted)
			}()
			draining := make(chan struct{})
			c := dial(t, "tcp://"+sock.Addr().String(), ClientOptions{Reconnect: Backoff{Disabled: true}, Options: Options{OnEvent: func(e Event) {
				if e.Kind == EventDraining {
					close(draining)
				}
			}}})
			own := c.Conn()
			for range 15 { // more than the system buffers
				if err := c.Send(t.Context(), Message{Payload: make([]byte, 1<<20)}); err != nil {
					t.Fatal(err)
				}
			}
			ended := make(chan error, 1)
			go func() { ended <- c.Shutdown(t.Context()) }()
			wait(t, draining, "the drain")
			peer := wait(t, accepted, "the peer's end")
			lose(peer, own)
			err = wait(t, ended, "the end of Shutdown")
			if !errors.Is(err, ErrRemote) && !errors.Is(err, ErrClosed) {
				t.Fatalf("15 messages were accepted and lost: %v", err)
			}
			_ = peer.Close()
		})
	}
}

// Goal: a peer that does not end its side within DrainTimeout may not have got what
// was sent: Shutdown says so.
func TestShutdownReportsAPeerThatDoesNotEnd(t *testing.T) {
	noLeaks(t)
	release := make(chan struct{})
	addr := rawPeer(t, TCP, func(link) { <-release })
	defer close(release)
	c := dial(t, addr, ClientOptions{Options: Options{DrainTimeout: 1}})
	if err := c.Send(t.Context(), Message{}); err != nil {
		t.Fatal(err)
	}
	wantKind(t, c.Shutdown(t.Context()), ErrTimeout)
}

// Goal: two ends that shut down at the same time, each with something to say, lose
// nothing of it, and both know.
func TestSimultaneousShutdown(t *testing.T) {
	for _, tr := range allTransports {
		t.Run(string(tr), func(t *testing.T) {
			noLeaks(t)
			const messages = 60
			for round := range 10 {
				var fromClient, fromServer atomic.Int64
				opened := make(chan *Conn, 1)
				s, addr := serve(t, tr, ServerOptions{Options: Options{
					OnMessage: func(context.Context, *Conn, Message) { fromClient.Add(1) },
					OnEvent: func(e Event) {
						if e.Kind == EventOpened {
							opened <- e.Conn
						}
					},
				}})
				c := dial(t, addr, ClientOptions{Reconnect: Backoff{Disabled: true}, Options: Options{OnMessage: func(context.Context, *Conn, Message) { fromServer.Add(1) }}})
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				if err := c.Send(ctx, Message{}); err != nil {
					t.Fatal(err)
				}
				sc := wait(t, opened, "the server's end")
				send := func(c *Conn, n int) {
					for range n {
						if err := c.Send(ctx, Message{Payload: make([]byte, 100_000)}); err != nil {
							t.Error(err)
						}
					}
				}
				send(sc, messages)
				back := messages * (round % 2) // in every other round the client has nothing more
				send(c.Conn(), back)
				var both sync.WaitGroup
				for _, end := range []func(context.Context) error{sc.Shutdown, c.Shutdown} {
					both.Go(func() {
						if err := end(ctx); err != nil {
							t.Errorf("round %d: %v", round, err)
						}
					})
				}
				both.Wait()
				wantKind(t, sc.Err(), ErrClosed)
				wantKind(t, c.Err(), ErrClosed)
				// What comes when an end has nothing more to wait for, it may discard.
				if n := fromServer.Load() + int64(c.Stats().Discarded); n != messages {
					t.Errorf("round %d: %d of %d messages came to the client", round, n, messages)
				}
				if n := fromClient.Load() + int64(s.Stats().Discarded); n != int64(back)+1 {
					t.Errorf("round %d: %d of %d messages came to the server", round, n, back+1)
				}
				cancel()
				_ = s.Close()
			}
		})
	}
}

// Goal: on a connection whose peer has ended its side the ids go on, and what is not
// sent yet and cannot be answered any more is refused.
func TestIdsGoOnAfterHalfClose(t *testing.T) {
	for _, tr := range transports {
		t.Run(string(tr), func(t *testing.T) {
			noLeaks(t)
			const messages, size = 12, 2 << 20
			opened := make(chan *Conn, 1)
			draining := make(chan struct{})
			s, addr := serve(t, tr, ServerOptions{Options: Options{SendPackets: 2, DrainTimeout: patience, Limits: Limits{PacketBytes: size + 100}, OnEvent: func(e Event) {
				switch e.Kind {
				case EventOpened:
					opened <- e.Conn
				case EventDraining:
					close(draining)
				}
			}}})
			set := s.opts.settingsFor(tr)
			_, set.TLS = certificates()
			l := rawDial(t, addr, set)
			sendRaw(t, l, one(t, tr, &Packet{Type: TypeOneWay, ID: 1}))
			c := wait(t, opened, "the server's end")
			var senders sync.WaitGroup
			var accepted atomic.Int32
			for range messages {
				senders.Go(func() {
					if err := c.Send(t.Context(), Message{Payload: make([]byte, size)}); err != nil {
						t.Error(err)
					}
					accepted.Add(1)
				})
			}
			// More than any transport buffers: some wait until the peer reads.
			waitUntil(t, "the queue is full", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return len(c.out.waiters) > 0 && len(c.out.waiters)+int(accepted.Load()) == messages
			})
			asked := make(chan error, 1)
			go func() {
				_, err := c.Request(t.Context(), Message{})
				asked <- err
			}()
			waitUntil(t, "the request waits", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return slices.ContainsFunc(c.out.waiters, func(w *waiter) bool { return w.call != nil })
			})
			if err := l.finish(); err != nil {
				t.Fatal(err)
			}
			wait(t, draining, "the drain")
			wantKind(t, wait(t, asked, "the end of the request"), ErrClosed)
			var p puller
			for n := range messages {
				if got, err := p.next(l); err != nil || got.Type != TypeOneWay || got.ID != MessageID(n+1) {
					t.Fatalf("packet %d is of type %d with id %d, %v", n, got.Type, got.ID, err)
				}
			}
			senders.Wait()
			if err := drainLink(l); err != nil {
				t.Fatal(err)
			}
			l.abort(&Error{Op: "test", Kind: ErrClosed})
		})
	}
}

package msgtrans

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Goal: a graceful close loses nothing that was accepted: requests in handlers are
// answered, messages are handled, queued packets arrive; new ones are refused.
func TestShutdownDrains(t *testing.T) {
	for _, tr := range allTransports {
		t.Run(string(tr), func(t *testing.T) {
			noLeaks(t)
			const requests, messages = 100, 900
			entered := make(chan struct{}, requests)
			release := make(chan struct{})
			var handled atomic.Int64
			draining := make(chan struct{}, 2)
			s, addr := serve(t, tr, ServerOptions{Options: Options{
				OnRequest: func(ctx context.Context, r Request) {
					entered <- struct{}{}
					<-release
					echo(ctx, r)
				},
				OnMessage: func(context.Context, *Conn, Message) {
					<-release
					handled.Add(1)
				},
				OnEvent: func(e Event) {
					if e.Kind == EventDraining {
						draining <- struct{}{}
					}
				},
			}})
			c := dial(t, addr, ClientOptions{Reconnect: Backoff{Disabled: true}})
			var callers sync.WaitGroup
			for range requests {
				callers.Go(func() {
					if m, err := c.Request(t.Context(), Message{Payload: make([]byte, 10_000)}); err != nil || len(m.Payload) != 10_000 {
						t.Errorf("%d bytes, %v", len(m.Payload), err)
					}
				})
			}
			for range requests {
				wait(t, entered, "a handler")
			}
			for range messages {
				if err := c.Send(t.Context(), Message{}); err != nil {
					t.Fatal(err)
				}
			}
			waitUntil(t, "every message is accepted", func() bool {
				in := &s.Conns()[0].in
				in.mu.Lock()
				defer in.mu.Unlock()
				return in.messages.len() == messages-1 // one is being handled
			})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			shut := make(chan error, 1)
			go func() { shut <- s.Shutdown(ctx) }()
			wait(t, draining, "the drain")
			close(release)
			callers.Wait()
			if err := wait(t, shut, "the end of Shutdown"); err != nil {
				t.Fatal(err)
			}
			if handled.Load() != messages {
				t.Fatalf("%d of %d messages were handled", handled.Load(), messages)
			}
			wait(t, c.Done(), "the client's end")
			wantKind(t, c.Err(), ErrClosed)
			if _, err := Dial(t.Context(), addr, ClientOptions{Options: Options{HandshakeTimeout: 200 * time.Millisecond}}); err == nil {
				t.Fatal("a server that is closed accepts")
			}
		})
	}
}

// Goal: a client's graceful close waits for its own answers, and its one-way
// messages arrive though it leaves at once.
func TestClientShutdownDrains(t *testing.T) {
	for _, tr := range allTransports {
		t.Run(string(tr), func(t *testing.T) {
			noLeaks(t)
			const messages = 2000
			var handled atomic.Int64
			all := make(chan struct{})
			_, addr := serve(t, tr, ServerOptions{Options: Options{OnRequest: echo, OnMessage: func(context.Context, *Conn, Message) {
				if handled.Add(1) == messages {
					close(all)
				}
			}}})
			c := dial(t, addr, ClientOptions{})
			answered := make(chan error, 100)
			for range 100 {
				if err := c.RequestFunc(t.Context(), Message{Payload: make([]byte, 1000)}, func(_ Message, err error) { answered <- err }); err != nil {
					t.Fatal(err)
				}
			}
			for range messages {
				if err := c.Send(t.Context(), Message{Payload: make([]byte, 1000)}); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := c.Shutdown(ctx); err != nil {
				t.Fatal(err)
			}
			for range 100 {
				if err := wait(t, answered, "an answer"); err != nil {
					t.Fatal(err)
				}
			}
			wait(t, all, "the last message")
			if err := c.Send(t.Context(), Message{}); !errors.Is(err, ErrClosed) {
				t.Fatal(err)
			}
		})
	}
}

// Goal: when the context of Shutdown ends, the rest is a hard close: handlers see
// their context end, pending requests fail with ErrClosed.
func TestShutdownEndsHard(t *testing.T) {
	noLeaks(t)
	entered := make(chan struct{})
	s, addr := serve(t, TCP, ServerOptions{Options: Options{OnRequest: func(ctx context.Context, _ Request) {
		close(entered)
		<-ctx.Done()
	}}})
	c := dial(t, addr, ClientOptions{Options: Options{RequestTimeout: patience}, Reconnect: Backoff{Disabled: true}})
	failed := make(chan error, 1)
	go func() {
		_, err := c.Request(t.Context(), Message{})
		failed <- err
	}()
	wait(t, entered, "the handler")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	wantKind(t, wait(t, failed, "the failure"), ErrClosed)
}

// Goal: a hard close of this end fails what is pending here with ErrClosed, and the
// other end hears of it.
func TestCloseFailsWhatIsPending(t *testing.T) {
	for _, tr := range transports {
		t.Run(string(tr), func(t *testing.T) {
			noLeaks(t)
			closed := make(chan error, 1)
			_, addr := serve(t, tr, ServerOptions{Options: Options{
				DrainTimeout: time.Millisecond,
				OnRequest:    func(_ context.Context, r Request) { r.Hold() },
				OnEvent: func(e Event) {
					if e.Kind == EventClosed {
						closed <- e.Err
					}
				},
			}})
			c := dial(t, addr, ClientOptions{Options: Options{RequestTimeout: patience}})
			failed := make(chan error, 50)
			for range 50 {
				if err := c.RequestFunc(t.Context(), Message{}, func(_ Message, err error) { failed <- err }); err != nil {
					t.Fatal(err)
				}
			}
			conn := c.Conn()
			waitUntil(t, "every request is written", func() bool { return conn.Stats().PacketsOut == 50 })
			_ = c.Close()
			for range 50 {
				wantKind(t, wait(t, failed, "a failure"), ErrClosed)
			}
			if err := wait(t, closed, "the server's end"); !errors.Is(err, ErrClosed) && !errors.Is(err, ErrRemote) {
				t.Fatal(err)
			}
		})
	}
}

// Goal: a peer that ends its side after a Request still gets the answer, where the
// transport lets it.
func TestHalfClosedPeerGetsItsAnswer(t *testing.T) {
	for _, tr := range []Transport{TCP, QUIC} {
		t.Run(string(tr), func(t *testing.T) {
			noLeaks(t)
			release := make(chan struct{})
			s, addr := serve(t, tr, ServerOptions{Options: Options{OnRequest: func(ctx context.Context, r Request) {
				<-release
				echo(ctx, r)
			}, OnEvent: func(e Event) {
				if e.Kind == EventDraining {
					close(release)
				}
			}}})
			set := s.opts.settingsFor(tr)
			_, set.TLS = certificates()
			l := rawDial(t, addr, set)
			sendRaw(t, l, one(t, tr, &Packet{Type: TypeRequest, ID: 7, Payload: []byte("last words")}))
			if err := l.finish(); err != nil {
				t.Fatal(err)
			}
			p, err := pull(l)
			if err != nil || p.ID != 7 || string(p.Payload) != "last words" {
				t.Fatalf("%+v, %v", p, err)
			}
			if err := drainLink(l); err != nil {
				t.Fatal(err)
			}
			l.abort(&Error{Op: "test", Kind: ErrClosed})
		})
	}
}

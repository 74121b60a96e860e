package msgtrans

import (
	"context"
	stdnet "net"
	"sync"
	"testing"
	"time"
)

// Goal: 1 000 connections come and go on each transport: gracefully, hard, at the
// server, in the middle of a handshake; no goroutine is left.
func TestNothingIsLeftOfConnections(t *testing.T) {
	for _, tr := range allTransports {
		t.Run(string(tr), func(t *testing.T) {
			total := 1000
			if poison || tr == TCPS || tr == WSS {
				total = 100 // the race detector and RSA are slow
			}
			noLeaks(t)
			o := Options{}
			if tr == QUIC {
				// What a client left in the middle is waited for, and one whose close did not
				// arrive: nothing else ends it.
				o.HandshakeTimeout, o.IdleTimeout = 5*time.Second, 20*time.Second
			}
			o.OnRequest = func(ctx context.Context, r Request) {
				if r.Biz == 1 {
					go r.Conn().Close()
				}
				echo(ctx, r)
			}
			s, addr := serve(t, tr, ServerOptions{Options: o})
			_, conf := certificates()
			a, err := parseAddress(addr)
			if err != nil {
				t.Fatal(err)
			}
			use := func(n int) {
				if n%4 == 3 {
					interrupted(t, a, conf != nil && n%8 == 3)
					return
				}
				c, err := Dial(t.Context(), addr, ClientOptions{Options: Options{TLS: conf}, Reconnect: Backoff{Disabled: true}})
				if err != nil {
					t.Error(err)
					return
				}
				conn := c.Conn()
				_, err = c.Request(t.Context(), Message{Biz: uint8(n % 4), Payload: make([]byte, 100)})
				if err != nil && n%4 != 1 {
					t.Error(err)
				}
				if n%4 == 0 {
					if err := c.Shutdown(t.Context()); err != nil {
						t.Error(err)
					}
				}
				_ = c.Close()
				if conn != nil {
					<-conn.Done()
				}
			}
			var users sync.WaitGroup
			places := make(chan struct{}, 20)
			for n := range total {
				places <- struct{}{}
				users.Go(func() {
					use(n)
					<-places
				})
			}
			users.Wait()
			waitUntil(t, "every place is free", func() bool { return s.Stats().Open == 0 })
			if st := s.Stats(); st.Accepted < uint64(total*3/4) {
				t.Fatalf("%+v", st)
			}
		})
	}
}

// interrupted begins a handshake and leaves: after the transport's connect, or after
// a part of what TLS, HTTP or QUIC would send.
func interrupted(t *testing.T, a address, say bool) {
	network, hello := "tcp", "GET /msgtrans HTTP/1.1\r\nUpgrade: webs"
	switch a.transport {
	case QUIC:
		// A handshake that is given up when it has begun.
		ctx, cancel := context.WithCancel(t.Context())
		set := Options{}.withDefaults().settingsFor(QUIC)
		_, set.TLS = certificates()
		if say {
			go cancel()
		}
		l, _, err := dialQUIC(ctx, a, set)
		if err == nil {
			l.abort(&Error{Op: "test", Kind: ErrClosed}) // before its stream is seen
		}
		cancel()
		return
	case TCP:
		hello = "\x01\x00\x01"
	case TCPS, WSS:
		hello = "\x16\x03\x01\x02\x00\x01"
	}
	c, err := stdnet.Dial(network, a.host)
	if err != nil {
		t.Error(err)
		return
	}
	if say {
		_, _ = c.Write([]byte(hello))
	}
	_ = c.Close()
}

// Goal: a server that is closed while handshakes are under way leaves nothing, and
// neither does a client whose dial is cancelled.
func TestCloseInTheMiddleOfHandshakes(t *testing.T) {
	for _, tr := range allTransports {
		t.Run(string(tr), func(t *testing.T) {
			noLeaks(t)
			asked := make(chan struct{}, 100)
			s, addr := serve(t, tr, ServerOptions{
				Options: Options{OnRequest: echo},
				Accept: func(ctx context.Context, _ *Peer) error {
					asked <- struct{}{}
					<-ctx.Done()
					return ctx.Err()
				},
			})
			a, err := parseAddress(addr)
			if err != nil {
				t.Fatal(err)
			}
			if tr != QUIC {
				for range 10 {
					c, err := stdnet.Dial("tcp", a.host) // and says nothing
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
				}
			}
			_, conf := certificates()
			var dialers sync.WaitGroup
			for range 10 {
				dialers.Go(func() {
					c, err := Dial(t.Context(), addr, ClientOptions{Options: Options{TLS: conf}, Reconnect: Backoff{Disabled: true}})
					if err != nil {
						return
					}
					conn := c.Conn()
					if _, err := c.Request(t.Context(), Message{}); err == nil {
						t.Error("a connection that was not accepted answers")
					}
					_ = c.Close()
					if conn != nil {
						<-conn.Done()
					}
				})
			}
			for range 10 {
				wait(t, asked, "a handshake")
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			dialers.Wait()
			if st := s.Stats(); st.Open != 0 || st.Accepted != 0 {
				t.Fatalf("%+v", st)
			}
		})
	}
}

package msgtrans

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	stdnet "net"
	"sync/atomic"
	"testing"
	"time"
)

// Goal: a connection has its place until its last handler has returned, on every
// transport, however long its socket has been closed.
func TestHandlersOfEndedConnectionsCount(t *testing.T) {
	for _, tr := range allTransports {
		t.Run(string(tr), func(t *testing.T) {
			noLeaks(t)
			release := make(chan struct{})
			entered := make(chan *Conn, 10)
			refused := make(chan error, 10)
			s, addr := serve(t, tr, ServerOptions{ConnsMax: 1, Options: Options{
				OnMessage: func(_ context.Context, c *Conn, _ Message) { entered <- c; <-release },
				OnEvent: func(e Event) {
					if e.Kind == EventRefused {
						refused <- e.Err
					}
				},
			}})
			c := dial(t, addr, ClientOptions{Reconnect: Backoff{Disabled: true}})
			if err := c.Send(t.Context(), Message{}); err != nil {
				t.Fatal(err)
			}
			first := wait(t, entered, "the handler")
			_ = first.Close()
			wait(t, c.Done(), "the client's end")
			_, conf := certificates()
			second, err := Dial(t.Context(), addr, ClientOptions{Reconnect: Backoff{Disabled: true}, Options: Options{TLS: conf}})
			if err == nil { // TCP says nothing
				wait(t, second.Done(), "the end of a second connection")
			}
			wantKind(t, wait(t, refused, "the refusal"), ErrLimit)
			if n := s.Stats().Open; n != 1 {
				t.Errorf("%d places are taken", n)
			}
			close(release)
			wait(t, first.Done(), "the end")
			waitUntil(t, "the place is free", func() bool { return s.Stats().Open == 0 })
		})
	}
}

// Goal: whatever an HTTP client sends and whatever it keeps back, it has its place for
// HandshakeTimeout at most and is reported.
func TestHTTPClientsAreBounded(t *testing.T) {
	const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	for name, request := range map[string]string{
		"nothing":                        "",
		"half a header":                  "GET /msgtrans HTTP/1.1\r\nHost: x\r\n",
		"no body for another path":       "POST /other HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n",
		"no body":                        "GET /msgtrans HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n",
		"no chunk":                       "GET /msgtrans HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
		"no body, another subprotocol":   "GET /msgtrans HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nSec-WebSocket-Protocol: other\r\n" + upgrade + "\r\n",
		"no body, and told to go on":     "POST /msgtrans HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n",
		"no upgrade, connection is kept": "GET /msgtrans HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			refused := make(chan error, 1)
			s, addr := serve(t, WS, ServerOptions{Options: Options{HandshakeTimeout: 200 * time.Millisecond, IdleTimeout: time.Hour, OnEvent: func(e Event) {
				if e.Kind == EventRefused {
					refused <- e.Err
				}
			}}})
			a, err := parseAddress(addr)
			if err != nil {
				t.Fatal(err)
			}
			c, err := stdnet.Dial("tcp", a.host)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, request); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, bufio.NewReader(c)); err != nil && errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			wait(t, refused, "the refusal")
			waitUntil(t, "the place is free", func() bool { return s.Stats().Open == 0 })
			if n := s.Stats().Refused; n != 1 {
				t.Fatalf("%d refusals", n)
			}
		})
	}
}

// Goal: HandshakeTimeout bounds the Accept hook: one that takes longer lets nobody in,
// and has its place for as long as it takes.
func TestAcceptHookIsBounded(t *testing.T) {
	for _, tr := range allTransports {
		t.Run(string(tr), func(t *testing.T) {
			noLeaks(t)
			release := make(chan struct{})
			refused := make(chan error, 10)
			s, addr := serve(t, tr, ServerOptions{
				Accept: func(context.Context, *Peer) error { <-release; return nil },
				Options: Options{HandshakeTimeout: 200 * time.Millisecond, OnRequest: echo, OnEvent: func(e Event) {
					if e.Kind == EventRefused {
						refused <- e.Err
					}
				}},
			})
			_, conf := certificates()
			failed := make(chan error, 1)
			go func() {
				c, err := Dial(t.Context(), addr, ClientOptions{Options: Options{TLS: conf}, Reconnect: Backoff{Disabled: true}})
				if err == nil {
					_, err = c.Request(t.Context(), Message{})
					_ = c.Close()
				}
				failed <- err
			}()
			if err := wait(t, failed, "the client's end"); err == nil {
				t.Fatal("a hook that has not agreed let a client in")
			}
			if n := s.Stats().Open; n != 1 {
				t.Errorf("%d places are taken while the hook is at work", n)
			}
			close(release)
			wantKind(t, wait(t, refused, "the refusal"), ErrTimeout)
			waitUntil(t, "the place is free", func() bool { return s.Stats().Open == 0 })
			if st := s.Stats(); st.Accepted != 0 || st.Refused != 1 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// Goal: a handshake that the client breaks off, because it does not know the
// certificate, is reported on every transport with TLS.
func TestFailedHandshakesAreReported(t *testing.T) {
	for _, tr := range []Transport{TCPS, WSS, QUIC} {
		t.Run(string(tr), func(t *testing.T) {
			noLeaks(t)
			refused := make(chan error, 1)
			s, addr := serve(t, tr, ServerOptions{Options: Options{OnEvent: func(e Event) {
				if e.Kind == EventRefused {
					refused <- e.Err
				}
			}}})
			if _, err := Dial(t.Context(), addr, ClientOptions{}); err == nil {
				t.Fatal("an unknown certificate was taken")
			}
			wantKind(t, wait(t, refused, "the report"), ErrRemote)
			if n := s.Stats().Refused; n != 1 {
				t.Fatalf("%d refusals", n)
			}
		})
	}
}

// Goal: with half of its places taken a QUIC server makes clients prove their address,
// and serves them.
func TestCrowdedServerStillServes(t *testing.T) {
	noLeaks(t)
	s, addr := serve(t, QUIC, ServerOptions{ConnsMax: 4, Options: Options{OnRequest: echo}})
	for n := range 4 {
		if crowded := s.crowded(); crowded != (n >= 2) {
			t.Errorf("%d of 4 places: crowded %v", n, crowded)
		}
		c := dial(t, addr, ClientOptions{})
		if _, err := c.Request(t.Context(), Message{}); err != nil {
			t.Fatal(err)
		}
	}
}

// Goal: a place is given back once, by its last holder, and then holds nobody.
func TestPlace(t *testing.T) {
	s := &Server{opts: ServerOptions{ConnsMax: 1}}
	var refused atomic.Int64
	s.opts.OnEvent = func(Event) { refused.Add(1) }
	l, ok := s.admit(Peer{})
	if !ok || !l.hold() {
		t.Fatal("a free place")
	}
	l.leave()
	if _, ok := s.admit(Peer{}); ok || s.places.Load() != 1 || refused.Load() != 1 {
		t.Fatalf("%d places, %d refusals", s.places.Load(), refused.Load())
	}
	l.leave()
	if l.hold() || s.places.Load() != 0 {
		t.Fatal("a place that was given back")
	}
	l.refuse(Peer{}, fmt.Errorf("once"))
	l.refuse(Peer{}, fmt.Errorf("twice"))
	if refused.Load() != 2 {
		t.Fatalf("%d refusals", refused.Load())
	}
}

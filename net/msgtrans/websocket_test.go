package msgtrans

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/mortarmq/mortarmq/net/ws"
)

// Goal: the subprotocol is offered and chosen; a client that offers none is taken,
// one that offers only others is not; pages of other hosts need to be admitted.
func TestWebSocketHandshake(t *testing.T) {
	noLeaks(t)
	for _, c := range []struct {
		name        string
		offer       []string
		origin      string
		admit       []string
		path        string
		status      int
		subprotocol string
	}{
		{name: "ours", offer: []string{Subprotocol}, subprotocol: Subprotocol},
		{name: "ours among others", offer: []string{"mortarmq.v0", Subprotocol}, subprotocol: Subprotocol},
		{name: "none"},
		{name: "only another", offer: []string{"mortarmq.v0"}, status: http.StatusBadRequest},
		{name: "another host's page", origin: "http://elsewhere.example", status: http.StatusForbidden},
		{name: "an admitted host's page", origin: "http://elsewhere.example", admit: []string{"*.example"}},
		{name: "another path", path: "/elsewhere", status: http.StatusNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, addr := serve(t, WS, ServerOptions{Options: Options{OnRequest: echo}, Origins: c.admit})
			if c.path != "" {
				addr = strings.TrimSuffix(addr, "/msgtrans") + c.path
			}
			o := ws.DialOptions{Subprotocols: c.offer, MessageBytesMax: 1 << 20, Header: http.Header{}}
			if c.origin != "" {
				o.Header.Set("Origin", c.origin)
			}
			conn, _, err := ws.Dial(t.Context(), addr, o)
			var status *ws.StatusError
			if c.status != 0 {
				if !errors.As(err, &status) || status.Code != c.status {
					t.Fatalf("got %v, want status %d", err, c.status)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Abort()
			if got := conn.Subprotocol(); got != c.subprotocol {
				t.Fatalf("subprotocol %q, want %q", got, c.subprotocol)
			}
			b := one(t, WS, &Packet{Type: TypeRequest, ID: 5, Payload: []byte("ping")})
			if err := conn.Write(b, []int{len(b)}); err != nil {
				t.Fatal(err)
			}
			if b, err = conn.Next(); err != nil || string(b[16:]) != "ping" {
				t.Fatalf("%q, %v", b, err)
			}
			if st := s.Stats(); st.Accepted != 1 {
				t.Fatalf("%+v", st)
			}
		})
	}
}

// Goal: a server without addresses of its own serves in an HTTP server of the
// caller's, with the same limit on connections.
func TestMountedServer(t *testing.T) {
	noLeaks(t)
	s, err := Listen(ServerOptions{ConnsMax: 1, Options: Options{OnRequest: echo}})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	t.Cleanup(func() { _ = s.Close() })
	addr := "ws" + strings.TrimPrefix(web.URL, "http") + "/any/path"
	c := dial(t, addr, ClientOptions{})
	if _, err := c.Request(t.Context(), Message{}); err != nil {
		t.Fatal(err)
	}
	_, err = Dial(t.Context(), addr, ClientOptions{})
	wantKind(t, err, ErrRefused)
	if err := c.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the place is free", func() bool { return s.Stats().Open == 0 })
	c = dial(t, addr, ClientOptions{})
	if _, err := c.Request(t.Context(), Message{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Dial(t.Context(), addr, ClientOptions{})
	wantKind(t, err, ErrRefused)
}

// Goal: a packet that cannot be read ends the connection with the status code of a
// protocol error, at either end; one over the limit with that of a message too big.
func TestWebSocketStatus(t *testing.T) {
	noLeaks(t)
	const limit = 4 << 10
	_, addr := serve(t, WS, ServerOptions{Options: Options{OnRequest: echo, Limits: Limits{PacketBytes: limit}}})
	for _, c := range []struct {
		name   string
		packet []byte
		status int
	}{
		{"another version", append([]byte{9}, make([]byte, 15)...), ws.StatusProtocolError},
		{"cut short", []byte{1, 0}, ws.StatusProtocolError},
		{"empty", nil, ws.StatusProtocolError},
		{"too big", make([]byte, limit+1), ws.StatusTooBig},
	} {
		conn, _, err := ws.Dial(t.Context(), addr, ws.DialOptions{Subprotocols: []string{Subprotocol}, MessageBytesMax: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Write(c.packet, []int{len(c.packet)}); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Next(); ws.CloseStatus(err) != c.status {
			t.Errorf("%s: the end is %v, want status %d", c.name, err, c.status)
		}
		conn.Abort()
	}
}

// Goal: an address may have any path, also one that is escaped, and a query is the
// client's alone.
func TestWebSocketPaths(t *testing.T) {
	noLeaks(t)
	for _, path := range []string{"", "/", "/a%20b", "/a%2Fb", "/%E6%B6%88%E6%81%AF", "/a//b/../c", "/p?q=1"} {
		s, err := Listen(ServerOptions{Options: Options{OnRequest: echo}}, "ws://127.0.0.1:0"+path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		c := dial(t, s.Addrs()[0], ClientOptions{})
		if _, err := c.Request(t.Context(), Message{}); err != nil {
			t.Errorf("%q: %v", s.Addrs()[0], err)
		}
	}
}

// Goal: pings are no packets: a peer that sends nothing else is idle, though each is
// answered.
func TestPingsAreNoPackets(t *testing.T) {
	noLeaks(t)
	_, addr := serve(t, WS, ServerOptions{Options: Options{IdleTimeout: 200 * time.Millisecond}})
	conn, _, err := websocket.Dial(t.Context(), addr, &websocket.DialOptions{Subprotocols: []string{Subprotocol}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	read := conn.CloseRead(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for read.Err() == nil {
		if err := conn.Ping(ctx); err != nil {
			break
		}
	}
	if ctx.Err() != nil {
		t.Fatal("a connection with nothing but pings is still there")
	}
}

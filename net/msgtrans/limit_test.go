package msgtrans

import (
	"bytes"
	"context"
	"errors"
	"math"
	stdnet "net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// Goal: one request too many fails with ErrLimit at once and harms nobody.
func TestPendingLimit(t *testing.T) {
	noLeaks(t)
	held := make(chan Request, 20)
	_, addr := serve(t, TCP, ServerOptions{Options: Options{OnRequest: func(_ context.Context, r Request) {
		r.Hold()
		held <- r
	}}})
	c := dial(t, addr, ClientOptions{Options: Options{PendingMax: 10}})
	answered := make(chan error, 20)
	for range 10 {
		if err := c.RequestFunc(t.Context(), Message{}, func(_ Message, err error) { answered <- err }); err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.Request(t.Context(), Message{})
	wantKind(t, err, ErrLimit)
	wantKind(t, err, wire.ErrPendingFull)
	for range 10 {
		if err := wait(t, held, "a request").Reply(t.Context(), Message{}); err != nil {
			t.Fatal(err)
		}
		if err := wait(t, answered, "an answer"); err != nil {
			t.Fatal(err)
		}
	}
}

// Goal: what is over a limit of size fails at the sender where the limit is its own,
// and ends the connection where it is the receiver's; what is exactly at it passes.
func TestSizeLimits(t *testing.T) {
	const packet = 100_000
	for _, tr := range transports {
		t.Run(string(tr), func(t *testing.T) {
			noLeaks(t)
			limits := Limits{PacketBytes: packet, ExtBytes: 1000, PayloadBytes: 200_000}
			_, addr := serve(t, tr, ServerOptions{Options: Options{Limits: limits, OnRequest: func(ctx context.Context, r Request) {
				_ = r.Reply(ctx, Message{})
			}}})
			own := dial(t, addr, ClientOptions{Options: Options{Limits: limits}})
			open := dial(t, addr, ClientOptions{Options: Options{Limits: Limits{PacketBytes: 1 << 20, PayloadBytes: 1 << 20}}})
			at := Message{Payload: make([]byte, packet-wire.HeaderBytes-1000), Ext: make([]byte, 1000)}
			packed := Message{Payload: make([]byte, 200_000), Compression: Zlib}
			for _, m := range []Message{at, packed} {
				if _, err := own.Request(t.Context(), m); err != nil {
					t.Fatalf("at the limit: %v", err)
				}
			}
			over := at
			over.Payload = make([]byte, len(at.Payload)+1)
			_, err := own.Request(t.Context(), over)
			wantKind(t, err, ErrLimit)
			_, err = own.Request(t.Context(), Message{Ext: make([]byte, 65536)})
			wantKind(t, err, ErrLimit)
			if _, err := own.Request(t.Context(), at); err != nil {
				t.Fatalf("after what was refused here: %v", err)
			}
			longExt := Message{Ext: make([]byte, 1001)}
			bomb := packed
			bomb.Payload = make([]byte, 200_001)
			for n, m := range []Message{over, longExt, bomb} {
				_, err := open.Request(t.Context(), m)
				if !errors.Is(err, ErrRemote) && !errors.Is(err, ErrClosed) {
					t.Fatalf("message %d over the peer's limit: %v", n, err)
				}
			}
		})
	}
}

// Goal: connections over ConnsMax are turned away, handshakes count, and a place
// that becomes free is given to the next.
func TestConnectionLimit(t *testing.T) {
	for _, tr := range transports {
		t.Run(string(tr), func(t *testing.T) {
			noLeaks(t)
			refused := make(chan error, 100)
			s, addr := serve(t, tr, ServerOptions{ConnsMax: 2, Options: Options{OnRequest: echo, OnEvent: func(e Event) {
				if e.Kind == EventRefused {
					refused <- e.Err
				}
			}}})
			use := func() (*Client, error) {
				_, conf := certificates()
				c, err := Dial(t.Context(), addr, ClientOptions{Options: Options{TLS: conf}, Reconnect: Backoff{Disabled: true}})
				if err == nil {
					if _, err = c.Request(t.Context(), Message{}); err != nil {
						conn := c.Conn()
						_ = c.Close()
						if conn != nil {
							<-conn.Done()
						}
					}
				}
				return c, err
			}
			var in []*Client
			for range 2 {
				c, err := use()
				if err != nil {
					t.Fatal(err)
				}
				in = append(in, c)
			}
			if _, err := use(); err == nil {
				t.Fatal("a third connection was taken")
			}
			wantKind(t, wait(t, refused, "the refusal"), ErrLimit)
			if st := s.Stats(); st.Open != 2 {
				t.Fatalf("%+v", st)
			}
			if err := in[0].Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			waitUntil(t, "a place is free", func() bool { return s.Stats().Open == 1 })
			c, err := use()
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range []*Client{c, in[1]} {
				if err := c.Shutdown(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// Goal: a client that does not get on with its handshake is cut off, while others
// are served at the same time.
func TestHandshakeTimeout(t *testing.T) {
	for _, tr := range []Transport{TCP, TCPS, WS, WSS} {
		t.Run(string(tr), func(t *testing.T) {
			noLeaks(t)
			refused := make(chan error, 100)
			s, addr := serve(t, tr, ServerOptions{
				Accept: func(context.Context, *Peer) error { return nil },
				Options: Options{HandshakeTimeout: 200 * time.Millisecond, OnRequest: echo, OnEvent: func(e Event) {
					if e.Kind == EventRefused {
						refused <- e.Err
					}
				}},
			})
			a, err := parseAddress(addr)
			if err != nil {
				t.Fatal(err)
			}
			var silent []stdnet.Conn
			for range 20 {
				c, err := stdnet.Dial("tcp", a.host)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				silent = append(silent, c)
			}
			c := dial(t, addr, ClientOptions{})
			if _, err := c.Request(t.Context(), Message{}); err != nil {
				t.Fatal(err)
			}
			for range silent {
				if err := wait(t, refused, "the end of a handshake"); !errors.Is(err, ErrTimeout) && !errors.Is(err, ErrRemote) {
					t.Fatal(err)
				}
			}
			for _, c := range silent {
				if _, err := c.Read(make([]byte, 1)); err == nil {
					t.Fatal("the server speaks to a silent client")
				}
			}
			if st := s.Stats(); st.Refused != 20 || st.Open != 1 {
				t.Fatalf("%+v", st)
			}
		})
	}
}

// Goal: a handler that does not get on stops its peer by backpressure, within the
// bounds of both queues, and nothing is lost when it goes on.
func TestInboundBackpressure(t *testing.T) {
	noLeaks(t)
	release := make(chan struct{})
	var handled atomic.Int64
	s, addr := serve(t, TCP, ServerOptions{Options: Options{InboundPackets: 10, OnMessage: func(context.Context, *Conn, Message) {
		<-release
		handled.Add(1)
	}}})
	c := dial(t, addr, ClientOptions{Options: Options{SendPackets: 10}})
	var sent int64
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err := c.Send(ctx, Message{Payload: make([]byte, 64<<10)})
		cancel()
		if err != nil {
			wantKind(t, err, ErrTimeout)
			break
		}
		sent++
	}
	in := &s.Conns()[0].in
	if open := in.open.Load(); open < 10 || open > 10+readBatch {
		t.Fatalf("%d messages are accepted", open)
	}
	close(release)
	waitUntil(t, "everything that was sent is handled", func() bool { return handled.Load() == sent })
}

// Goal: the Accept hook sees what it was promised and may refuse; a client learns
// that it was refused.
func TestAcceptHook(t *testing.T) {
	for _, tr := range allTransports {
		t.Run(string(tr), func(t *testing.T) {
			noLeaks(t)
			var asked atomic.Int64
			_, addr := serve(t, tr, ServerOptions{
				Options: Options{OnRequest: echo},
				Accept: func(_ context.Context, p *Peer) error {
					asked.Add(1)
					if p.Transport != tr || p.Remote == nil || p.Local == nil {
						t.Errorf("%+v", p)
					}
					if secure := tr == TCPS || tr == WSS || tr == QUIC; (p.TLS != nil) != secure {
						t.Errorf("TLS state %v", p.TLS)
					}
					if tr.webSocket() {
						if p.URL.Path != "/msgtrans" || p.Header.Get("Sec-WebSocket-Protocol") != Subprotocol || p.First != nil {
							t.Errorf("%+v", p)
						}
						if p.URL.Query().Get("token") == "good" {
							return nil
						}
					} else if p.First.Type == TypeRequest && string(p.First.Payload) == "good" {
						return nil
					}
					return errors.New("the token is not good")
				},
			})
			use := func(token string) error {
				_, conf := certificates()
				a := addr
				if tr.webSocket() {
					a += "?token=" + token
				}
				c, err := Dial(t.Context(), a, ClientOptions{Options: Options{TLS: conf}, Reconnect: Backoff{Disabled: true}})
				if err != nil {
					return err
				}
				defer func() {
					if err := c.Shutdown(t.Context()); err != nil {
						t.Error(err)
					}
				}()
				m, err := c.Request(t.Context(), Message{Payload: []byte(token)})
				if err == nil && string(m.Payload) != token {
					t.Errorf("%q came back", m.Payload)
				}
				return err
			}
			if err := use("good"); err != nil {
				t.Fatal(err)
			}
			err := use("bad")
			switch {
			case tr == TCP || tr == TCPS: // which cannot say why
				if !errors.Is(err, ErrClosed) && !errors.Is(err, ErrRemote) {
					t.Fatal(err)
				}
			default:
				wantKind(t, err, ErrRefused)
			}
			if asked.Load() != 2 {
				t.Fatalf("asked %d times", asked.Load())
			}
		})
	}
}

// Goal: options that cannot be kept, and addresses that mean nothing, are errors.
func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{
		{PendingMax: -1}, {IdleTimeout: -1}, {SendBytes: -1}, {HandlersMax: -1},
		{Limits: Limits{PayloadBytes: math.MaxInt}}, {Limits: Limits{PacketBytes: math.MaxInt}}, {Limits: Limits{ExtBytes: -1}}, {Limits: Limits{PacketBytes: -1}},
		{Limits: Limits{PacketBytes: 15}}, {Limits: Limits{ExtBytes: 65536}}, {Limits: Limits{PayloadBytes: -1}},
	} {
		if _, err := Listen(ServerOptions{Options: o}, "tcp://127.0.0.1:0"); err == nil {
			t.Errorf("%+v was taken by a server", o)
		}
		if _, err := Dial(t.Context(), "tcp://127.0.0.1:1", ClientOptions{Options: o}); err == nil || errors.Is(err, ErrRefused) {
			t.Errorf("%+v was taken by a client: %v", o, err)
		}
	}
	for _, b := range []Backoff{{Min: -1}, {Max: -1}, {Attempts: -1}} {
		if _, err := Dial(t.Context(), "tcp://127.0.0.1:1", ClientOptions{Reconnect: b}); err == nil || errors.Is(err, ErrRefused) {
			t.Errorf("%+v was taken by a client: %v", b, err)
		}
	}
	for _, o := range []ServerOptions{{ConnsMax: -1}, {Origins: []string{"ok", "[a"}}} {
		if _, err := Listen(o, "tcp://127.0.0.1:0"); err == nil {
			t.Errorf("%+v was taken by a server", o)
		}
	}
	for _, addr := range []string{"", "tcp://", "tcp://host", "tcp://127.0.0.1:1/path", "udp://127.0.0.1:1", "ws://", "127.0.0.1:1", "wss://127.0.0.1:0/", "quic://127.0.0.1:0"} {
		s, err := Listen(ServerOptions{}, addr)
		if err == nil {
			t.Errorf("listens on %q: %v", addr, s.Addrs())
			_ = s.Close()
		}
	}
	_, err := Dial(t.Context(), "tcp://127.0.0.1:1", ClientOptions{})
	wantKind(t, err, ErrRefused)
	if !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
}

// Goal: what Send and Reply were given may be changed when they return.
func TestSentBytesAreCopied(t *testing.T) {
	noLeaks(t)
	var got [][]byte
	var mu sync.Mutex
	all := make(chan struct{})
	_, addr := serve(t, TCP, ServerOptions{Options: Options{OnMessage: func(_ context.Context, _ *Conn, m Message) {
		mu.Lock()
		defer mu.Unlock()
		if got = append(got, bytes.Clone(m.Payload)); len(got) == 1000 {
			close(all)
		}
	}}})
	c := dial(t, addr, ClientOptions{})
	buf := make([]byte, 100)
	for n := range 1000 {
		for i := range buf {
			buf[i] = byte(n)
		}
		if err := c.Send(t.Context(), Message{Payload: buf}); err != nil {
			t.Fatal(err)
		}
	}
	wait(t, all, "the last message")
	for n, b := range got {
		if !bytes.Equal(b, bytes.Repeat([]byte{byte(n)}, 100)) {
			t.Fatalf("message %d is %x", n, b)
		}
	}
}

// Goal: the longest times that can be set are kept: nothing ends at once because a sum
// overflows.
func TestLongestTimes(t *testing.T) {
	noLeaks(t)
	const ever = time.Duration(math.MaxInt64)
	o := Options{RequestTimeout: ever, HandshakeTimeout: ever, IdleTimeout: ever, DrainTimeout: ever, OnRequest: echo}
	for _, tr := range allTransports {
		_, addr := serve(t, tr, ServerOptions{Options: o, Accept: func(context.Context, *Peer) error { return nil }})
		c := dial(t, addr, ClientOptions{Options: o, Reconnect: Backoff{Min: ever, Max: ever}})
		for range 10 {
			if _, err := c.Request(t.Context(), Message{}); err != nil {
				t.Fatalf("%s: %v", tr, err)
			}
		}
		if err := c.Shutdown(t.Context()); err != nil {
			t.Fatalf("%s: %v", tr, err)
		}
	}
}

package msgtrans

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	stdnet "net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mortarmq/mortarmq/net/quic"
	"github.com/mortarmq/mortarmq/net/ws"
	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// patience bounds a wait whose end is certain unless something is broken.
const patience = 60 * time.Second

var transports = []Transport{TCP, WS, QUIC}

var allTransports = []Transport{TCP, TCPS, WS, WSS, QUIC}

func TestMain(m *testing.M) {
	// The library's advice about UDP buffers is for production.
	os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
	os.Exit(m.Run())
}

// certificates returns the two ends of a TLS configuration, for 127.0.0.1.
var certificates = sync.OnceValues(func() (server, client *tls.Config) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates}, &tls.Config{RootCAs: pool}
})

// noLeaks fails t if it leaves goroutines behind. It is called first.
func noLeaks(t *testing.T) {
	t.Helper()
	certificates() // its server is not the test's
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
}

func listenAddr(tr Transport) string {
	if tr.webSocket() {
		return string(tr) + "://127.0.0.1:0/msgtrans"
	}
	return string(tr) + "://127.0.0.1:0"
}

// serve starts a server that the test ends, and returns where it listens.
func serve(t *testing.T, tr Transport, o ServerOptions) (*Server, string) {
	t.Helper()
	o.TLS, _ = certificates()
	s, err := Listen(o, listenAddr(tr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, s.Addrs()[0]
}

// dial starts a client that the test ends.
func dial(t *testing.T, addr string, o ClientOptions) *Client {
	t.Helper()
	_, o.TLS = certificates()
	c, err := Dial(t.Context(), addr, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn := c.Conn()
		_ = c.Close()
		if conn != nil {
			<-conn.Done()
		}
	})
	return c
}

func echo(ctx context.Context, r Request) {
	_ = r.Reply(ctx, Message{Biz: r.Biz, Flags: r.Flags, Compression: r.Compression, Ext: r.Ext, Payload: r.Payload})
}

// wait receives from c, or fails t.
func wait[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not happen", what)
		panic("unreachable")
	}
}

// waitUntil polls for a state that nothing reports, or fails t.
func waitUntil(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for start := time.Now(); !reached(); {
		if time.Since(start) > patience {
			t.Fatalf("%s: not reached", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func wantKind(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got %v, want %v", err, kind)
	}
}

// rawPeer is a server without msgtrans: f gets each connection as a link and may
// send through it what it likes.
func rawPeer(t *testing.T, tr Transport, f func(l link)) string {
	t.Helper()
	server, _ := certificates()
	set := Options{TLS: server}.withDefaults().settingsFor(tr)
	var running sync.WaitGroup
	run := func(l link) {
		f(l)
		l.abort(&Error{Op: "test", Kind: ErrClosed})
	}
	switch tr {
	case TCP:
		sock, err := stdnet.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			for {
				c, err := sock.Accept()
				if err != nil {
					return
				}
				running.Go(func() { run(newStreamLink(c.(byteStream), set)) })
			}
		})
		t.Cleanup(func() { _ = sock.Close(); running.Wait() })
		return "tcp://" + sock.Addr().String()
	case WS:
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, err := ws.Accept(w, r, ws.AcceptOptions{Subprotocols: []string{Subprotocol}, MessageBytesMax: 16 << 20})
			if err != nil {
				t.Error(err)
				return
			}
			run(&wsLink{conn: c, limits: wire.Limits{}})
		}))
		t.Cleanup(s.Close)
		return "ws" + strings.TrimPrefix(s.URL, "http") + "/"
	}
	l, err := quic.Listen("127.0.0.1:0", server, quic.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	running.Go(func() {
		for {
			i, err := l.Accept(ctx)
			if err != nil {
				return
			}
			running.Go(func() {
				c, err := i.Stream(ctx)
				if err == nil {
					run(newQUICLink(c, set))
				}
			})
		}
	})
	t.Cleanup(func() { cancel(); running.Wait(); _ = l.Close() })
	return "quic://" + l.Addr().String()
}

// one returns p as it goes to a link of tr.
func one(t *testing.T, tr Transport, p *Packet) []byte {
	t.Helper()
	b, err := wire.Append(nil, p, framingOf(tr))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sendRaw writes b as it is: as one message over WebSocket.
func sendRaw(t *testing.T, l link, b []byte) {
	t.Helper()
	if err := l.write(b, []int{len(b)}); err != nil {
		t.Error(err)
	}
}

// pull returns the next packet of l, copied.
func pull(l link) (Packet, error) {
	return new(puller).next(l)
}

// puller takes packets one by one from a link that gives many.
type puller struct{ rest []Packet }

func (p *puller) next(l link) (Packet, error) {
	if len(p.rest) == 0 {
		var err error
		if p.rest, err = l.next(nil); len(p.rest) == 0 {
			return Packet{}, err
		}
		for i := range p.rest {
			p.rest[i].Ext = append([]byte(nil), p.rest[i].Ext...)
			p.rest[i].Payload = append([]byte(nil), p.rest[i].Payload...)
		}
	}
	first := p.rest[0]
	p.rest = p.rest[1:]
	return first, nil
}

// drainLink reads l until it ends.
func drainLink(l link) error {
	for {
		if _, err := l.next(nil); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

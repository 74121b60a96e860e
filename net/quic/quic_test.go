package quic

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	stdnet "net"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	// The library's advice about UDP buffers is for production.
	os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
	os.Exit(m.Run())
}

// placeFunc is a Place that calls itself.
type placeFunc func(err error)

func (f placeFunc) Ended(err error) { f(err) }

func certificates() (server, client *tls.Config) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates}, &tls.Config{RootCAs: pool}
}

// Goal: bytes go both ways over the one stream, an end of one direction is io.EOF,
// and so is a close that says that nothing is wrong; another code is told.
func TestOneStream(t *testing.T) {
	server, client := certificates()
	var places atomic.Int64
	l, err := Listen("127.0.0.1:0", server, ListenOptions{Admit: func(stdnet.Addr) Place {
		if places.Add(1) > 1 {
			places.Add(-1)
			return nil
		}
		return placeFunc(func(error) { places.Add(-1) })
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan *Conn, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		for {
			i, err := l.Accept(ctx)
			if err != nil {
				return
			}
			c, err := i.Stream(ctx)
			if err != nil {
				return
			}
			served <- c
		}
	}()
	for _, code := range []Code{CodeNormal, CodeRefused} {
		c, err := Dial(ctx, l.Addr().String(), client, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Dial(ctx, l.Addr().String(), client, Options{}); !IsRefused(err) {
			t.Fatalf("a connection that is not admitted: %v", err)
		}
		if _, err := c.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		s := <-served
		got, err := io.ReadAll(s)
		if err != nil || string(got) != "ping" {
			t.Fatalf("%q, %v", got, err)
		}
		if _, err := s.conn.OpenStream(); err == nil {
			t.Fatal("the client admits a stream of the server's")
		}
		if _, err := c.conn.OpenStream(); err == nil {
			t.Fatal("the server admits a second stream")
		}
		_ = s.CloseWith(code, "")
		_, err = c.Read(make([]byte, 1))
		if code == CodeNormal && !errors.Is(err, io.EOF) || code == CodeRefused && !IsRefused(err) {
			t.Fatalf("closed with %d: %v", code, err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		for places.Load() != 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

// Goal: ALPN is off by default, is used where both ends offer it, and an offer of one
// end alone is refused.
func TestALPN(t *testing.T) {
	for _, c := range []struct {
		server, client []string
		agreed         string
		ok             bool
	}{
		{nil, nil, "", true},
		{[]string{"msgtrans"}, []string{"msgtrans"}, "msgtrans", true},
		{[]string{"msgtrans"}, nil, "", false},
		{nil, []string{"msgtrans"}, "", false},
	} {
		server, client := certificates()
		server.NextProtos, client.NextProtos = c.server, c.client
		l, err := Listen("127.0.0.1:0", server, ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := Dial(t.Context(), l.Addr().String(), client, Options{})
		if (err == nil) != c.ok {
			t.Errorf("server %v, client %v: %v", c.server, c.client, err)
		}
		if err == nil {
			if got := conn.TLS().NegotiatedProtocol; got != c.agreed {
				t.Errorf("agreed on %q, want %q", got, c.agreed)
			}
			_ = conn.Close()
		}
		_ = l.Close()
	}
}

// Goal: two ends that end their direction at the same time and then close lose
// nothing that they have written.
func TestSettle(t *testing.T) {
	server, client := certificates()
	l, err := Listen("127.0.0.1:0", server, ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const size = 1 << 20
	// use writes, ends its direction at once, and reads only then.
	use := func(c *Conn) (int64, error) {
		wrote := make(chan error, 1)
		go func() {
			_, err := c.Write(make([]byte, size))
			wrote <- errors.Join(err, c.CloseWrite())
		}()
		n, err := io.Copy(io.Discard, c)
		err = errors.Join(err, <-wrote)
		c.Settle(ctx)
		return n, errors.Join(err, c.Close())
	}
	for range 20 {
		served := make(chan error, 1)
		go func() {
			i, err := l.Accept(ctx)
			if err != nil {
				served <- err
				return
			}
			c, err := i.Stream(ctx)
			if err != nil {
				served <- err
				return
			}
			n, err := use(c)
			if n != size {
				err = errors.Join(err, io.ErrUnexpectedEOF)
			}
			served <- err
		}()
		c, err := Dial(ctx, l.Addr().String(), client, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := use(c); n != size || err != nil {
			t.Fatalf("the client got %d bytes, %v", n, err)
		}
		if err := <-served; err != nil {
			t.Fatalf("the server: %v", err)
		}
		if ctx.Err() != nil {
			t.Fatal("nobody closed")
		}
	}
}

// Goal: a client in doubt has to prove its address and is served then; a handshake
// that fails says so to its place.
func TestDoubtAndEnded(t *testing.T) {
	server, client := certificates()
	var doubted atomic.Int64
	ended := make(chan error, 1)
	l, err := Listen("127.0.0.1:0", server, ListenOptions{
		Admit: func(stdnet.Addr) Place { return placeFunc(func(err error) { ended <- err }) },
		Doubt: func(stdnet.Addr) bool { doubted.Add(1); return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := Dial(t.Context(), l.Addr().String(), client, Options{})
	if err != nil || doubted.Load() == 0 {
		t.Fatal(err, doubted.Load())
	}
	if i, err := l.Accept(t.Context()); err != nil || i.Place() == nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if code, ok := RemoteCode(<-ended); !ok || code != CodeNormal {
		t.Fatalf("the end of a connection: %v, %v", code, ok)
	}
	if _, err := Dial(t.Context(), l.Addr().String(), nil, Options{}); err == nil {
		t.Fatal("an unknown certificate was taken")
	}
	if err := <-ended; err == nil {
		t.Fatal("a handshake failed for no reason")
	}
}

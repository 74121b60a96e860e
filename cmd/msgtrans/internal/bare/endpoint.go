package bare

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	stdnet "net"
	"net/http"
	"sync"

	"github.com/mortarmq/mortarmq/net/quic"
	"github.com/mortarmq/mortarmq/net/ws"
)

// Server is a bare echo on one transport.
type Server struct {
	Addr    string // host:port
	stop    func()
	running sync.WaitGroup
}

// Close ends the server; its connections end with their clients.
func (s *Server) Close() {
	s.stop()
	s.running.Wait()
}

// Listen starts a bare echo on "tcp", "ws" or "quic", on any port of 127.0.0.1.
func Listen(transport string, conf *tls.Config) (*Server, error) {
	s := &Server{}
	const any = "127.0.0.1:0"
	if transport == "quic" {
		l, err := quic.Listen(any, conf, quic.ListenOptions{})
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(context.Background())
		s.Addr = l.Addr().String()
		s.stop = func() { cancel(); _ = l.Close() }
		s.running.Go(func() {
			for {
				i, err := l.Accept(ctx)
				if err != nil {
					return
				}
				s.running.Go(func() {
					if c, err := i.Stream(ctx); err == nil {
						_ = Echo(NewStream(c))
					}
				})
			}
		})
		return s, nil
	}
	sock, err := stdnet.Listen("tcp", any)
	if err != nil {
		return nil, err
	}
	s.Addr = sock.Addr().String()
	if transport == "ws" {
		h := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c, err := ws.Accept(w, r, ws.AcceptOptions{MessageBytesMax: MessageBytesMax}); err == nil {
				_ = EchoBehind(NewWebSocket(c))
				c.Abort()
			}
		})}
		s.stop = func() { _ = h.Close() }
		s.running.Go(func() { _ = h.Serve(sock) })
		return s, nil
	}
	s.stop = func() { _ = sock.Close() }
	s.running.Go(func() {
		for {
			c, err := sock.Accept()
			if err != nil {
				return
			}
			s.running.Go(func() {
				_ = Echo(NewStream(c))
				_ = c.Close()
			})
		}
	})
	return s, nil
}

// Dial connects to a bare echo.
func Dial(ctx context.Context, transport, addr string, conf *tls.Config) (Pipe, io.Closer, error) {
	switch transport {
	case "tcp":
		c, err := (&stdnet.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, nil, err
		}
		return NewStream(c), c, nil
	case "ws":
		c, _, err := ws.Dial(ctx, "ws://"+addr, ws.DialOptions{MessageBytesMax: MessageBytesMax})
		if err != nil {
			return nil, nil, err
		}
		return NewWebSocket(c), closer(c.Abort), nil
	case "quic":
		c, err := quic.Dial(ctx, addr, conf, quic.Options{})
		if err != nil {
			return nil, nil, err
		}
		return NewStream(c), c, nil
	}
	return nil, nil, errors.Join(errors.ErrUnsupported, fmt.Errorf("transport %q", transport))
}

// closer makes a function an io.Closer.
type closer func()

func (c closer) Close() error { c(); return nil }

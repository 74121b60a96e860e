package msgtrans

import (
	"context"
	"crypto/tls"
	"errors"
	stdnet "net"
	"syscall"
)

// streamTLS returns conf for a transport without ALPN.
func streamTLS(conf *tls.Config) *tls.Config {
	if conf == nil {
		conf = &tls.Config{}
	}
	conf = conf.Clone()
	conf.NextProtos = nil
	return conf
}

// tcpPeer describes the other end of c.
func tcpPeer(t Transport, c stdnet.Conn) Peer {
	p := Peer{Transport: t, Local: c.LocalAddr(), Remote: c.RemoteAddr()}
	if s, ok := c.(*tls.Conn); ok {
		state := s.ConnectionState()
		p.TLS = &state
	}
	return p
}

func dialTCP(ctx context.Context, a address, s *settings) (link, Peer, error) {
	c, err := (&stdnet.Dialer{}).DialContext(ctx, "tcp", a.host)
	if err != nil {
		return nil, Peer{}, dialError(err)
	}
	if a.transport == TCPS {
		conf := streamTLS(s.TLS)
		if conf.ServerName == "" {
			conf.ServerName, _, _ = stdnet.SplitHostPort(a.host)
		}
		secure := tls.Client(c, conf)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = c.Close()
			return nil, Peer{}, dialError(err)
		}
		c = secure
	}
	return newStreamLink(c.(byteStream), s), tcpPeer(a.transport, c), nil
}

// dialError gives a failed dial its kind.
func dialError(err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return &Error{Op: "dial", Kind: ErrRefused, Cause: err}
	}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return &Error{Op: "dial", Kind: ErrTimeout, Cause: err}
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	return &Error{Op: "dial", Kind: ErrRemote, Cause: err}
}

// tcpListener serves msgtrans on a TCP socket.
type tcpListener struct {
	server  *Server
	sock    stdnet.Listener
	address address
	set     *settings
}

func listenTCP(s *Server, a address, set *settings) (listener, error) {
	if a.transport == TCPS && set.TLS == nil {
		return nil, errNoTLS
	}
	sock, err := stdnet.Listen("tcp", a.host)
	if err != nil {
		return nil, err
	}
	return &tcpListener{server: s, sock: sock, address: a.at(sock.Addr()), set: set}, nil
}

func (l *tcpListener) addr() address { return l.address }
func (l *tcpListener) stop()         { _ = l.sock.Close() }
func (l *tcpListener) close()        {}

func (l *tcpListener) serve() {
	acceptLoop(l.server.ctx, l.sock.Accept, func(c stdnet.Conn) {
		pl, ok := l.server.admit(Peer{Transport: l.address.transport, Local: c.LocalAddr(), Remote: c.RemoteAddr()})
		if !ok {
			_ = c.Close()
			return
		}
		if !l.server.begin() {
			_ = c.Close()
			pl.leave()
			return
		}
		go func() {
			defer l.server.handshakes.Done()
			l.handshake(c, pl)
		}()
	})
}

// handshake makes a connection of c, or closes it.
func (l *tcpListener) handshake(c stdnet.Conn, pl *place) {
	ctx, cancel := context.WithTimeout(l.server.ctx, l.set.HandshakeTimeout)
	defer cancel()
	if l.address.transport == TCPS {
		secure := tls.Server(c, streamTLS(l.set.TLS))
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = c.Close()
			pl.leave()
			pl.refuse(tcpPeer(l.address.transport, c), during("accept", err))
			return
		}
		c = secure
	}
	l.server.establish(ctx, newStreamLink(c.(byteStream), l.set), tcpPeer(l.address.transport, c), l.set, pl)
}

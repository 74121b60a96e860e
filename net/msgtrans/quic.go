package msgtrans

import (
	"context"
	"errors"
	stdnet "net"

	"github.com/mortarmq/mortarmq/net/quic"
)

// newQUICLink moves packets over the stream of c.
func newQUICLink(c *quic.Conn, s *settings) link {
	l := newStreamLink(quicStream{c}, s)
	l.closed = c.Closed()
	l.closeWith = func(err error) {
		code := quic.CodeNormal
		switch {
		case errors.Is(err, ErrRefused):
			code = quic.CodeRefused
		case errors.Is(err, ErrRemote), errors.Is(err, ErrLimit):
			code = quic.CodeProtocol
		}
		_ = c.CloseWith(code, "")
	}
	return l
}

// quicStream gives the errors of QUIC their kinds.
type quicStream struct{ *quic.Conn }

func (s quicStream) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	return n, quicError("read", err)
}

func (s quicStream) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	return n, quicError("write", err)
}

func quicError(op string, err error) error {
	switch {
	case quic.IsTimeout(err):
		return &Error{Op: op, Kind: ErrTimeout, Cause: err}
	case quic.IsRefused(err):
		return &Error{Op: op, Kind: ErrRefused, Cause: err}
	}
	return err
}

func quicPeer(c *quic.Conn) Peer {
	state := c.TLS()
	return Peer{Transport: QUIC, Local: c.LocalAddr(), Remote: c.RemoteAddr(), TLS: &state}
}

func (s *settings) quicOptions() quic.Options {
	return quic.Options{HandshakeTimeout: s.HandshakeTimeout, IdleTimeout: s.IdleTimeout}
}

func dialQUIC(ctx context.Context, a address, s *settings) (link, Peer, error) {
	c, err := quic.Dial(ctx, a.host, s.TLS, s.quicOptions())
	if err != nil {
		return nil, Peer{}, dialError(quicError("dial", err))
	}
	return newQUICLink(c, s), quicPeer(c), nil
}

// quicListener serves msgtrans on a UDP socket.
type quicListener struct {
	server   *Server
	listener *quic.Listener
	address  address
	set      *settings
}

func listenQUIC(s *Server, a address, set *settings) (listener, error) {
	l := &quicListener{server: s, set: set}
	var err error
	l.listener, err = quic.Listen(a.host, set.TLS, quic.ListenOptions{
		Options: set.quicOptions(),
		Admit: func(remote stdnet.Addr) (func(), bool) {
			return s.admit(Peer{Transport: QUIC, Remote: remote})
		},
	})
	if err != nil {
		return nil, err
	}
	l.address = a.at(l.listener.Addr())
	return l, nil
}

func (l *quicListener) addr() address { return l.address }
func (l *quicListener) stop()         { _ = l.listener.Stop() }
func (l *quicListener) close()        { _ = l.listener.Close() }

func (l *quicListener) serve() {
	accept := func() (*quic.Incoming, error) { return l.listener.Accept(l.server.ctx) }
	acceptLoop(l.server.ctx, accept, func(i *quic.Incoming) {
		if !l.server.begin() {
			_ = i.CloseWith(quic.CodeRefused, "")
			return
		}
		go func() {
			defer l.server.handshakes.Done()
			l.handshake(i)
		}()
	})
}

// handshake waits until the client has written to its stream: for HandshakeTimeout
// if the Accept hook wants to see the first packet, else for IdleTimeout.
func (l *quicListener) handshake(i *quic.Incoming) {
	patience := l.set.IdleTimeout
	if l.server.opts.Accept != nil {
		patience = l.set.HandshakeTimeout
	}
	ctx, cancel := context.WithTimeout(l.server.ctx, patience)
	defer cancel()
	c, err := i.Stream(ctx)
	if err != nil {
		_ = i.CloseWith(quic.CodeNormal, "")
		l.server.refused(Peer{Transport: QUIC, Remote: i.RemoteAddr()}, during("accept", quicError("accept", err)))
		return
	}
	// The connection's place is given back by the listener.
	l.server.establish(ctx, newQUICLink(c, l.set), quicPeer(c), l.set, func() {})
}

package msgtrans

import (
	"context"
	"errors"
	stdnet "net"
	"sync"
	"sync/atomic"

	"github.com/mortarmq/mortarmq/net/quic"
)

// newQUICLink moves packets over the stream of c.
func newQUICLink(c *quic.Conn, s *settings) link {
	l := newStreamLink(quicStream{c}, s)
	l.settle = c.Settle
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
	open     sync.WaitGroup // connections, handshakes included
}

func listenQUIC(s *Server, a address, set *settings) (listener, error) {
	l := &quicListener{server: s, set: set}
	var err error
	l.listener, err = quic.Listen(a.host, set.TLS, quic.ListenOptions{
		Options: set.quicOptions(),
		Admit: func(remote stdnet.Addr) quic.Place {
			p := Peer{Transport: QUIC, Remote: remote}
			if pl, ok := s.admit(p); ok {
				l.open.Add(1)
				return &quicPlace{place: pl, peer: p, open: &l.open}
			}
			return nil
		},
		Doubt: func(stdnet.Addr) bool { return s.crowded() },
	})
	if err != nil {
		return nil, err
	}
	l.address = a.at(l.listener.Addr())
	return l, nil
}

func (l *quicListener) addr() address { return l.address }
func (l *quicListener) stop()         { _ = l.listener.Stop() }

func (l *quicListener) close() {
	_ = l.listener.Close()
	l.open.Wait()
}

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

// quicPlace is a place whose socket, as it were, is the QUIC connection.
type quicPlace struct {
	*place
	peer  Peer
	open  *sync.WaitGroup
	taken atomic.Bool // by handshake, which knows better what became of it
}

// Ended is called when the connection has ended, or did not come about.
func (p *quicPlace) Ended(err error) {
	p.leave()
	if !p.taken.Load() {
		p.refuse(p.peer, during("accept", quicError("accept", err)))
	}
	p.open.Done()
}

// handshake waits until the client has written to its stream: for HandshakeTimeout
// if the Accept hook wants to see the first packet, else for IdleTimeout.
func (l *quicListener) handshake(i *quic.Incoming) {
	pl := i.Place().(*quicPlace)
	if !pl.hold() {
		return // it has ended
	}
	pl.taken.Store(true)
	patience := l.set.IdleTimeout
	if l.server.opts.Accept != nil {
		patience = l.set.HandshakeTimeout
	}
	ctx, cancel := context.WithTimeout(l.server.ctx, patience)
	defer cancel()
	c, err := i.Stream(ctx)
	if err != nil {
		_ = i.CloseWith(quic.CodeNormal, "")
		pl.leave()
		pl.refuse(pl.peer, during("accept", quicError("accept", err)))
		return
	}
	l.server.establish(ctx, newQUICLink(c, l.set), quicPeer(c), l.set, pl.place)
}

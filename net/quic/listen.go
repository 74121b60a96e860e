package quic

import (
	"context"
	"crypto/tls"
	"errors"
	stdnet "net"

	quicgo "github.com/quic-go/quic-go"
)

// ListenOptions is what a server may set beside Options.
type ListenOptions struct {
	Options
	// Admit is asked at the first packet of a handshake. It returns false to refuse,
	// or what is to be called once when the connection or its handshake has ended.
	// Nil admits everybody.
	Admit func(remote stdnet.Addr) (release func(), ok bool)
}

// Listener accepts connections on one UDP socket.
type Listener struct {
	transport *quicgo.Transport
	listener  *quicgo.Listener
}

// errNotAdmitted ends a handshake that Admit refused.
var errNotAdmitted = errors.New("quic: not admitted")

// Listen listens on the UDP address host:port. conf needs a certificate.
func Listen(addr string, conf *tls.Config, o ListenOptions) (*Listener, error) {
	if conf == nil {
		return nil, errors.New("quic: a server needs a tls.Config with a certificate")
	}
	local, err := stdnet.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, err
	}
	socket, err := stdnet.ListenUDP("udp", local)
	if err != nil {
		return nil, err
	}
	t := &quicgo.Transport{Conn: socket}
	if o.Admit != nil {
		t.ConnContext = func(ctx context.Context, info *quicgo.ClientInfo) (context.Context, error) {
			release, ok := o.Admit(info.RemoteAddr)
			if !ok {
				return nil, errNotAdmitted
			}
			context.AfterFunc(ctx, release)
			return ctx, nil
		}
	}
	l, err := t.Listen(conf, o.config(1))
	if err != nil {
		return nil, errors.Join(err, closeTransport(t))
	}
	return &Listener{transport: t, listener: l}, nil
}

// Addr is where the listener listens.
func (l *Listener) Addr() stdnet.Addr { return l.listener.Addr() }

// Accept returns the next connection whose handshake is complete.
func (l *Listener) Accept(ctx context.Context) (*Incoming, error) {
	conn, err := l.listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return &Incoming{conn: conn}, nil
}

// Stop accepts no more; what was accepted lives on.
func (l *Listener) Stop() error { return l.listener.Close() }

// Close ends the socket with every connection on it.
func (l *Listener) Close() error { return closeTransport(l.transport) }

// Incoming is a connection whose client has not opened its stream yet.
type Incoming struct{ conn *quicgo.Conn }

// RemoteAddr is the client's address.
func (i *Incoming) RemoteAddr() stdnet.Addr { return i.conn.RemoteAddr() }

// Stream waits until the client has written.
func (i *Incoming) Stream(ctx context.Context) (*Conn, error) {
	s, err := i.conn.AcceptStream(ctx)
	if err != nil {
		return nil, err
	}
	return &Conn{conn: i.conn, stream: s}, nil
}

// CloseWith gives the connection up.
func (i *Incoming) CloseWith(code Code, reason string) error {
	return i.conn.CloseWithError(quicgo.ApplicationErrorCode(code), reason)
}

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
	// Admit is asked at the first packet of a handshake. It returns nil to refuse, or
	// the place that the connection takes. Nil admits everybody.
	Admit func(remote stdnet.Addr) Place
	// Doubt is asked before Admit whether a client has to prove first that it gets what
	// is sent to its address (RFC 9000, section 8.1.2), which costs it a round trip. It
	// is for a server under load. Nil never doubts.
	Doubt func(remote stdnet.Addr) bool
}

// Place is what a connection takes from the first packet of its handshake on.
type Place interface {
	// Ended is called once, when the connection or its handshake has ended because of err.
	Ended(err error)
}

// placeKey finds the Place in a connection's context.
type placeKey struct{}

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
	t := &quicgo.Transport{Conn: socket, VerifySourceAddress: o.Doubt}
	if o.Admit != nil {
		t.ConnContext = func(ctx context.Context, info *quicgo.ClientInfo) (context.Context, error) {
			place := o.Admit(info.RemoteAddr)
			if place == nil {
				return nil, errNotAdmitted
			}
			context.AfterFunc(ctx, func() { place.Ended(context.Cause(ctx)) })
			return context.WithValue(ctx, placeKey{}, place), nil
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

// Place is what Admit returned, nil without Admit.
func (i *Incoming) Place() Place {
	p, _ := i.conn.Context().Value(placeKey{}).(Place)
	return p
}

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

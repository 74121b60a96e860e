package quic

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	stdnet "net"
	"time"

	quicgo "github.com/quic-go/quic-go"
)

// Code is the application error code that a connection is closed with.
type Code uint64

// The codes that this project's endpoints use.
const (
	CodeNormal   Code = 0 // nothing is wrong
	CodeProtocol Code = 1 // the peer sent what cannot be read
	CodeRefused  Code = 2 // the server does not take the connection
)

// Options is what both ends may set.
type Options struct {
	// HandshakeTimeout bounds the handshake. Default 10 s.
	HandshakeTimeout time.Duration
	// IdleTimeout closes a connection on which nothing arrives. Default 300 s.
	IdleTimeout time.Duration
}

// longest is what stands for ever: the library adds times without a look at overflow.
const longest = 10 * 365 * 24 * time.Hour

func (o Options) config(incomingStreams int64) *quicgo.Config {
	if o.HandshakeTimeout <= 0 {
		o.HandshakeTimeout = 10 * time.Second
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = 300 * time.Second
	}
	o.HandshakeTimeout, o.IdleTimeout = min(o.HandshakeTimeout, longest), min(o.IdleTimeout, longest)
	return &quicgo.Config{
		// The library gives up after twice this time.
		HandshakeIdleTimeout:  o.HandshakeTimeout / 2,
		MaxIdleTimeout:        o.IdleTimeout,
		MaxIncomingStreams:    incomingStreams,
		MaxIncomingUniStreams: -1,
	}
}

// Conn is a connection's one stream. Read and Write may be used by one goroutine each.
type Conn struct {
	conn   *quicgo.Conn
	stream *quicgo.Stream
	// own is the client's socket, which ends with the connection.
	own *quicgo.Transport
}

// Read reads from the stream. It returns io.EOF after the peer's CloseWrite, and
// after a close of the connection that says that nothing is wrong.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.stream.Read(p)
	if code, ok := RemoteCode(err); ok && code == CodeNormal {
		return n, io.EOF
	}
	return n, err
}

// Write writes to the stream.
func (c *Conn) Write(p []byte) (int, error) { return c.stream.Write(p) }

// CloseWrite says that nothing follows.
func (c *Conn) CloseWrite() error { return c.stream.Close() }

// CloseWith ends the connection at once, unblocking Read and Write. What the peer
// has not acknowledged is lost.
func (c *Conn) CloseWith(code Code, reason string) error {
	err := c.conn.CloseWithError(quicgo.ApplicationErrorCode(code), reason)
	if c.own != nil {
		err = errors.Join(err, closeTransport(c.own))
	}
	return err
}

// Close is CloseWith for a connection on which nothing is wrong.
func (c *Conn) Close() error { return c.CloseWith(CodeNormal, "") }

// Closed is closed when the connection has ended, here or there.
func (c *Conn) Closed() <-chan struct{} { return c.conn.Context().Done() }

// Settle waits, after CloseWrite and the peer's, until nothing can be lost by a close:
// a server for the client's close, a client for the server to have taken everything,
// which then closes. Without it a close loses what is on its way.
//
// The server takes no second stream as long as it has not read the first to its end:
// a client that may open one knows that it has.
func (c *Conn) Settle(ctx context.Context) {
	if c.own == nil {
		select {
		case <-c.Closed():
		case <-ctx.Done():
		}
		return
	}
	s, err := c.conn.OpenStreamSync(ctx)
	if err == nil {
		s.CancelRead(0)
		s.CancelWrite(0)
	}
}

// LocalAddr is this end's address.
func (c *Conn) LocalAddr() stdnet.Addr { return c.conn.LocalAddr() }

// RemoteAddr is the peer's address.
func (c *Conn) RemoteAddr() stdnet.Addr { return c.conn.RemoteAddr() }

// TLS returns the state of the handshake.
func (c *Conn) TLS() tls.ConnectionState { return c.conn.ConnectionState().TLS }

// RemoteCode returns the code that the peer closed the connection with.
func RemoteCode(err error) (Code, bool) {
	var app *quicgo.ApplicationError
	if errors.As(err, &app) && app.Remote {
		return Code(app.ErrorCode), true
	}
	return 0, false
}

// IsTimeout reports whether err says that the connection was idle for too long or
// its handshake took too long.
func IsTimeout(err error) bool {
	var idle *quicgo.IdleTimeoutError
	var handshake *quicgo.HandshakeTimeoutError
	return errors.As(err, &idle) || errors.As(err, &handshake)
}

// IsRefused reports whether err says that the server did not take the connection.
func IsRefused(err error) bool {
	var transport *quicgo.TransportError
	if errors.As(err, &transport) && transport.Remote && transport.ErrorCode == quicgo.ConnectionRefused {
		return true
	}
	code, ok := RemoteCode(err)
	return ok && code == CodeRefused
}

// closeTransport ends the socket and everything on it.
func closeTransport(t *quicgo.Transport) error {
	return errors.Join(t.Close(), t.Conn.Close())
}

// Dial connects to the UDP address host:port and opens the stream. It needs a
// tls.Config; its ServerName defaults to the host.
func Dial(ctx context.Context, addr string, conf *tls.Config, o Options) (*Conn, error) {
	if conf == nil {
		conf = &tls.Config{}
	}
	if conf.ServerName == "" && !conf.InsecureSkipVerify {
		host, _, err := stdnet.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		conf = conf.Clone()
		conf.ServerName = host
	}
	remote, err := stdnet.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, err
	}
	socket, err := stdnet.ListenUDP("udp", nil)
	if err != nil {
		return nil, err
	}
	own := &quicgo.Transport{Conn: socket}
	conn, err := own.Dial(ctx, remote, conf, o.config(-1))
	if err != nil {
		return nil, errors.Join(err, closeTransport(own))
	}
	stream, err := conn.OpenStreamSync(ctx)
	c := &Conn{conn: conn, stream: stream, own: own}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

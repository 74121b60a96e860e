package msgtrans

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	stdnet "net"
	"net/http"
	"strings"
	"sync"

	"github.com/mortarmq/mortarmq/net/ws"
	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// wsLink moves packets over WebSocket, one per binary message.
type wsLink struct {
	conn   *ws.Conn
	limits wire.Limits
}

func (l *wsLink) next(into []Packet) ([]Packet, error) {
	b, err := l.conn.Next()
	if err != nil {
		if errors.Is(err, ws.ErrTooBig) {
			err = errors.Join(wire.ErrPacketTooLong, err)
		}
		return into, err
	}
	p, err := wire.Decode(b, l.limits)
	if err != nil {
		return into, err
	}
	return append(into, p), nil
}

func (l *wsLink) write(buf []byte, ends []int) error { return l.conn.Write(buf, ends) }
func (l *wsLink) finish() error                      { return l.conn.Finish(ws.StatusNormal, "") }
func (l *wsLink) linger(context.Context)             {}
func (l *wsLink) written() uint64                    { return l.conn.Written() }
func (l *wsLink) texts() uint64                      { return l.conn.Texts() }

// abort tells a peer that is at fault what its fault is.
func (l *wsLink) abort(err error) {
	switch {
	case errors.Is(err, ErrLimit):
		l.conn.Fail(ws.StatusTooBig)
	case errors.Is(err, ErrRemote):
		l.conn.Fail(ws.StatusProtocolError)
	default:
		l.conn.Abort()
	}
}

func dialWS(ctx context.Context, a address, s *settings) (link, Peer, error) {
	c, p, err := ws.Dial(ctx, a.String(), ws.DialOptions{
		Subprotocols:    []string{Subprotocol},
		TLS:             streamTLS(s.TLS),
		MessageBytesMax: s.limits.PacketBytes,
	})
	if err != nil {
		var status *ws.StatusError
		if errors.As(err, &status) {
			return nil, Peer{}, &Error{Op: "dial", Kind: ErrRefused, Cause: err}
		}
		return nil, Peer{}, dialError(err)
	}
	peer := Peer{Transport: a.transport, Local: p.Local, Remote: p.Remote, TLS: p.TLS}
	return &wsLink{conn: c, limits: s.limits}, peer, nil
}

// wsListener serves msgtrans on an HTTP server of its own.
type wsListener struct {
	server  *Server
	sock    stdnet.Listener
	http    http.Server
	address address
	set     *settings
}

func listenWS(s *Server, a address, set *settings) (listener, error) {
	if a.transport == WSS && set.TLS == nil {
		return nil, errNoTLS
	}
	sock, err := stdnet.Listen("tcp", a.host)
	if err != nil {
		return nil, err
	}
	l := &wsListener{server: s, sock: sock, address: a.at(sock.Addr()), set: set}
	path, _, _ := strings.Cut(a.path, "?")
	l.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			http.NotFound(w, r)
			return
		}
		s.serveWS(w, r, set)
	})
	l.http.ReadHeaderTimeout = set.HandshakeTimeout
	l.http.ErrorLog = log.New(io.Discard, "", 0) // failed handshakes are events
	l.http.SetKeepAlivesEnabled(false)
	l.http.ConnContext = func(ctx context.Context, c stdnet.Conn) context.Context {
		if t, ok := c.(*tls.Conn); ok {
			c = t.NetConn()
		}
		return context.WithValue(ctx, admittedKey{}, c)
	}
	return l, nil
}

func (l *wsListener) addr() address { return l.address }
func (l *wsListener) stop()         { _ = l.http.Close() }
func (l *wsListener) close()        {}

func (l *wsListener) serve() {
	var sock stdnet.Listener = &admitListener{Listener: l.sock, server: l.server, transport: l.address.transport}
	if l.address.transport == WSS {
		conf := streamTLS(l.set.TLS)
		conf.NextProtos = []string{"http/1.1"}
		sock = tls.NewListener(sock, conf)
	}
	_ = l.http.Serve(sock) // http.ErrServerClosed, after stop
}

// admittedKey finds the connection that admitListener has counted.
type admittedKey struct{}

// admitListener counts connections from the moment they are accepted.
type admitListener struct {
	stdnet.Listener
	server    *Server
	transport Transport
}

func (l *admitListener) Accept() (stdnet.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		p := Peer{Transport: l.transport, Local: c.LocalAddr(), Remote: c.RemoteAddr()}
		if release, ok := l.server.admit(p); ok {
			return &admittedConn{Conn: c, peer: p, server: l.server, release: sync.OnceFunc(release)}, nil
		}
		_ = c.Close()
	}
}

// admittedConn gives its place back when it is closed.
type admittedConn struct {
	stdnet.Conn
	peer    Peer
	server  *Server
	release func()
	// judged is done when the fate of the handshake has been reported.
	judged sync.Once
}

var errNoUpgrade = errors.New("the connection ended before the WebSocket handshake")

func (c *admittedConn) Close() error {
	err := c.Conn.Close()
	c.release()
	c.judged.Do(func() { c.server.refused(c.peer, &Error{Op: "accept", Kind: ErrRemote, Cause: errNoUpgrade}) })
	return err
}

// ServeHTTP serves msgtrans over WebSocket where the server is mounted in an HTTP
// server of the caller's, with the limits and handlers of s.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	set := s.mounted[0]
	if r.TLS != nil {
		set = s.mounted[1]
	}
	s.serveWS(w, r, set)
}

func (s *Server) serveWS(w http.ResponseWriter, r *http.Request, set *settings) {
	if !s.begin() {
		http.Error(w, errStopped.Error(), http.StatusServiceUnavailable)
		return
	}
	defer s.handshakes.Done()
	peer := Peer{Transport: set.transport, TLS: r.TLS, URL: r.URL, Header: r.Header}
	peer.Local, _ = r.Context().Value(http.LocalAddrContextKey).(stdnet.Addr)
	release := func() {}
	if c, ok := r.Context().Value(admittedKey{}).(*admittedConn); ok {
		peer.Local, peer.Remote = c.peer.Local, c.peer.Remote
		c.judged.Do(func() {})
	} else {
		if a, err := stdnet.ResolveTCPAddr("tcp", r.RemoteAddr); err == nil {
			peer.Remote = a
		}
		if release, ok = s.admit(peer); !ok {
			http.Error(w, "too many connections", http.StatusServiceUnavailable)
			return
		}
	}
	refuse := func(status int, err error) {
		http.Error(w, http.StatusText(status), status)
		release()
		s.refused(peer, &Error{Op: "accept", Kind: ErrRefused, Cause: err})
	}
	if offered := r.Header.Values("Sec-WebSocket-Protocol"); len(offered) > 0 && !offers(offered, Subprotocol) {
		refuse(http.StatusBadRequest, errors.New("no subprotocol of this server is offered"))
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, set.HandshakeTimeout)
	defer cancel()
	if s.opts.Accept != nil {
		if err := s.opts.Accept(ctx, &peer); err != nil {
			refuse(http.StatusForbidden, err)
			return
		}
	}
	c, err := ws.Accept(w, r, ws.AcceptOptions{
		Subprotocols:    []string{Subprotocol},
		Origins:         s.opts.Origins,
		MessageBytesMax: set.limits.PacketBytes,
	})
	if err != nil {
		release()
		s.refused(peer, &Error{Op: "accept", Kind: ErrRefused, Cause: err})
		return
	}
	s.open(&wsLink{conn: c, limits: set.limits}, peer, set, release, nil)
}

package msgtrans

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	stdnet "net"
	"net/http"
	"net/url"
	"sync"
	"time"

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
			err = fmt.Errorf("%w: %w", wire.ErrPacketTooLong, err)
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
func (l *wsLink) finish() error                      { return l.conn.Finish(ws.StatusNormal) }
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
	sockets sync.WaitGroup
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
	u, err := url.ParseRequestURI(a.path)
	if err != nil {
		_ = sock.Close()
		return nil, err
	}
	l.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != u.Path {
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
func (l *wsListener) close()        { l.sockets.Wait() }

func (l *wsListener) serve() {
	var sock stdnet.Listener = &admitListener{Listener: l.sock, server: l.server, transport: l.address.transport, patience: l.set.HandshakeTimeout, sockets: &l.sockets}
	if l.address.transport == WSS {
		conf := streamTLS(l.set.TLS)
		conf.NextProtos = []string{"http/1.1"}
		sock = tls.NewListener(sock, conf)
	}
	_ = l.http.Serve(sock) // http.ErrServerClosed, after stop
}

// admittedKey finds the connection that admitListener has counted.
type admittedKey struct{}

// admitListener counts connections from the moment they are accepted, and bounds the
// time until they are upgraded: whatever an HTTP client sends or keeps from sending,
// its socket is closed then, and when the server is being closed.
type admitListener struct {
	stdnet.Listener
	server    *Server
	transport Transport
	patience  time.Duration
	sockets   *sync.WaitGroup // that are open
}

func (l *admitListener) Accept() (stdnet.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		p := Peer{Transport: l.transport, Local: c.LocalAddr(), Remote: c.RemoteAddr()}
		if pl, ok := l.server.admit(p); ok {
			ctx, cancel := context.WithTimeout(l.server.ctx, l.patience)
			a := &admittedConn{Conn: c, peer: p, place: pl, sockets: l.sockets, cancel: cancel}
			l.sockets.Add(1)
			a.upgraded = context.AfterFunc(ctx, func() {
				a.end(l.server.cutOff(errSlowUpgrade)) // first: the close makes the HTTP server end it, too
				_ = a.Conn.Close()
			})
			return a, nil
		}
		_ = c.Close()
	}
}

// admittedConn is a socket that holds a place until it is closed.
type admittedConn struct {
	stdnet.Conn
	peer  Peer
	place *place
	// upgraded lets it live on; it returns false if it is too late for that.
	upgraded func() bool
	cancel   context.CancelFunc
	sockets  *sync.WaitGroup
	once     sync.Once
}

var (
	errNoUpgrade   = errors.New("the connection ended before the WebSocket handshake")
	errSlowUpgrade = errors.New("the WebSocket handshake took too long")
)

func (c *admittedConn) Close() error {
	c.upgraded()
	err := c.Conn.Close()
	c.end(&Error{Op: "accept", Kind: ErrRemote, Cause: errNoUpgrade})
	return err
}

// end lets go of the place, and reports err if the handshake is not over.
func (c *admittedConn) end(err error) {
	c.once.Do(func() {
		c.cancel()
		c.place.leave()
		c.place.refuse(c.peer, err)
		c.sockets.Done()
	})
}

// ServeHTTP serves msgtrans over WebSocket where the server is mounted in an HTTP
// server of the caller's, with the limits and handlers of s. What that server takes
// before it calls ServeHTTP is its own to bound.
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
	pl, own := s.placeOf(r, &peer)
	if pl == nil {
		http.Error(w, errConnsMax.Error(), http.StatusServiceUnavailable)
		return
	}
	refuse := func(status int, err error) {
		http.Error(w, http.StatusText(status), status)
		pl.leave()
		pl.refuse(peer, err)
	}
	ctx, cancel := context.WithTimeout(s.ctx, set.HandshakeTimeout)
	defer cancel()
	if status, err := s.judgeWS(ctx, r, peer); err != nil {
		refuse(status, err)
		return
	}
	c, err := ws.Accept(w, r, ws.AcceptOptions{
		Subprotocols:    []string{Subprotocol},
		Origins:         s.opts.Origins,
		MessageBytesMax: set.limits.PacketBytes,
	})
	if err != nil {
		pl.leave()
		pl.refuse(peer, &Error{Op: "accept", Kind: ErrRefused, Cause: err})
		return
	}
	if own != nil && !own.upgraded() { // which has closed the socket
		c.Abort()
		pl.leave()
		pl.refuse(peer, s.cutOff(errSlowUpgrade))
		return
	}
	s.open(&wsLink{conn: c, limits: set.limits}, peer, set, pl, nil)
}

// placeOf returns the place of the connection of r, with a holder more for the caller,
// and the socket that has it: nil where the caller's HTTP server has the socket. It
// fills in the addresses of peer.
func (s *Server) placeOf(r *http.Request, peer *Peer) (*place, *admittedConn) {
	if c, ok := r.Context().Value(admittedKey{}).(*admittedConn); ok {
		peer.Local, peer.Remote = c.peer.Local, c.peer.Remote
		if !c.place.hold() {
			return nil, nil // it was too late
		}
		return c.place, c
	}
	peer.Local, _ = r.Context().Value(http.LocalAddrContextKey).(stdnet.Addr)
	if a, err := stdnet.ResolveTCPAddr("tcp", r.RemoteAddr); err == nil {
		peer.Remote = a
	}
	pl, _ := s.admit(*peer)
	return pl, nil
}

// judgeWS looks at a WebSocket handshake and asks the Accept hook about it. With an
// error it returns the status for the client.
func (s *Server) judgeWS(ctx context.Context, r *http.Request, peer Peer) (int, error) {
	if offered := r.Header.Values("Sec-WebSocket-Protocol"); len(offered) > 0 && !offers(offered, Subprotocol) {
		return http.StatusBadRequest, &Error{Op: "accept", Kind: ErrRefused, Cause: errors.New("no subprotocol of this server is offered")}
	}
	if s.opts.Accept == nil {
		return 0, nil
	}
	if err := s.opts.Accept(ctx, &peer); err != nil {
		return http.StatusForbidden, &Error{Op: "accept", Kind: ErrRefused, Cause: err}
	}
	if ctx.Err() != nil {
		return http.StatusServiceUnavailable, s.cutOff(errSlowHook)
	}
	return 0, nil
}

package msgtrans

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// listener is one of a server's sockets.
type listener interface {
	addr() address
	serve() // until stop
	stop()  // accepts no more
	close() // ends what is left, after every connection has ended
}

// Server serves msgtrans on any number of addresses.
type Server struct {
	opts ServerOptions
	// mounted is the settings of what ServeHTTP serves, without and with TLS.
	mounted [2]*settings
	// ctx ends when the server accepts no more; it ends every handshake.
	ctx    context.Context
	cancel context.CancelFunc

	listeners  []listener
	accepting  sync.WaitGroup
	handshakes sync.WaitGroup

	mu       sync.Mutex
	conns    map[*Conn]struct{}
	stopped  bool          // no connection is added any more
	emptied  bool          // idle is closed
	past     Stats         // of connections that are done
	idle     chan struct{} // closed when stopped and without connections
	places   atomic.Int64  // connections and handshakes
	accepted atomic.Uint64
	refusals atomic.Uint64
}

var (
	errNoTLS    = errors.New("a server inside TLS needs a tls.Config with a certificate")
	errConnsMax = errors.New("too many connections")
	errStopped  = errors.New("the server is being closed")
	errNoFirst  = errors.New("no first packet")
	errSlowHook = errors.New("the Accept hook took too long")
)

// Listen serves on addresses like tcp://:9000, ws://:9001/path and quic://:9002,
// all at once. Port 0 stands for any; Addrs tells which. Without an address the
// server serves what is given to ServeHTTP.
func Listen(o ServerOptions, addrs ...string) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.Options = o.withDefaults()
	orDefault(&o.ConnsMax, DefaultConnsMax)
	s := &Server{opts: o, conns: make(map[*Conn]struct{}), idle: make(chan struct{})}
	s.mounted = [2]*settings{o.settingsFor(WS), o.settingsFor(WSS)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, text := range addrs {
		l, err := s.listen(text)
		if err != nil {
			_ = s.Close()
			return nil, fmt.Errorf("msgtrans: listen on %s: %w", text, err)
		}
		s.listeners = append(s.listeners, l)
	}
	for _, l := range s.listeners {
		s.accepting.Go(l.serve)
	}
	return s, nil
}

func (s *Server) listen(text string) (listener, error) {
	a, err := parseAddress(text)
	if err != nil {
		return nil, err
	}
	set := s.opts.settingsFor(a.transport)
	switch a.transport {
	case WS, WSS:
		return listenWS(s, a, set)
	case QUIC:
		return listenQUIC(s, a, set)
	}
	return listenTCP(s, a, set)
}

// Addrs returns the addresses that the server listens on, in the order of Listen.
func (s *Server) Addrs() []string {
	out := make([]string, len(s.listeners))
	for i, l := range s.listeners {
		out[i] = l.addr().String()
	}
	return out
}

// Conns returns the open connections, in no order.
func (s *Server) Conns() []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*Conn, 0, len(s.conns))
	for c := range s.conns {
		out = append(out, c)
	}
	return out
}

// Stats counts what the server has done.
func (s *Server) Stats() ServerStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := ServerStats{Stats: s.past, Open: int(s.places.Load()), Accepted: s.accepted.Load(), Refused: s.refusals.Load()}
	for c := range s.conns {
		out.Stats.add(c.Stats())
	}
	return out
}

// Shutdown accepts no more and ends every connection gracefully, all at the same
// time; when ctx ends first, hard.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	errs := make(chan error)
	conns := s.Conns()
	for _, c := range conns {
		go func() { errs <- c.Shutdown(ctx) }()
	}
	var all error
	for range conns {
		all = errors.Join(all, <-errs)
	}
	return errors.Join(all, s.Close())
}

// Close ends the server and its connections at once, and returns when all of their
// handlers have returned. It must not be called by one of them.
func (s *Server) Close() error {
	s.stop()
	for _, c := range s.Conns() {
		_ = c.Close()
	}
	<-s.idle
	for _, l := range s.listeners {
		l.close()
	}
	return nil
}

// stop accepts no more and waits for the handshakes to end.
func (s *Server) stop() {
	s.mu.Lock()
	if !s.stopped {
		s.stopped = true
		s.maybeIdle()
	}
	s.mu.Unlock()
	s.cancel()
	for _, l := range s.listeners {
		l.stop()
	}
	s.accepting.Wait()
	s.handshakes.Wait()
}

// begin counts a handshake, unless the server accepts no more.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.handshakes.Add(1)
	return true
}

// maybeIdle tells Close, under mu, that the last connection is gone.
func (s *Server) maybeIdle() {
	if s.stopped && len(s.conns) == 0 && !s.emptied {
		s.emptied = true
		close(s.idle)
	}
}

// refused reports a connection that did not come about.
func (s *Server) refused(p Peer, err error) {
	s.refusals.Add(1)
	if s.opts.OnEvent != nil {
		s.opts.OnEvent(Event{Kind: EventRefused, Peer: &p, Err: err})
	}
}

// establish asks the Accept hook about a connection over a byte stream and opens it.
func (s *Server) establish(ctx context.Context, l link, p Peer, set *settings, pl *place) {
	var early []Packet
	if s.opts.Accept != nil {
		var err error
		if early, err = s.judge(ctx, l, p); err != nil {
			l.abort(err)
			pl.leave()
			pl.refuse(p, err)
			return
		}
	}
	s.open(l, p, set, pl, early)
}

// judge waits for the first packets of l and asks the Accept hook about them. When ctx
// ends it cuts the client off, also while the hook is at work.
func (s *Server) judge(ctx context.Context, l link, p Peer) (early []Packet, err error) {
	stop := context.AfterFunc(ctx, func() { l.abort(s.cutOff(errNoFirst)) })
	late := errNoFirst
	if early, err = l.next(nil); len(early) > 0 {
		late, p.First = errSlowHook, &early[0]
		if err = s.opts.Accept(ctx, &p); err != nil {
			err = &Error{Op: "accept", Kind: ErrRefused, Cause: err}
		}
	} else {
		err = endOf("accept", fmt.Errorf("first packet: %w", err))
	}
	if !stop() {
		err = s.cutOff(late)
	}
	return early, err
}

// cutOff returns why a handshake was ended from here: what was late, unless the server
// is being closed.
func (s *Server) cutOff(late error) error {
	if s.ctx.Err() != nil {
		return &Error{Op: "accept", Kind: ErrRefused, Cause: errStopped}
	}
	return &Error{Op: "accept", Kind: ErrTimeout, Cause: late}
}

// open lets a connection run, unless the server is being closed. The Conn holds pl.
func (s *Server) open(l link, p Peer, set *settings, pl *place, early []Packet) {
	c := newConn(l, p, set, func(c *Conn) {
		pl.leave()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
		s.past.add(c.Stats())
		s.maybeIdle()
	})
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		err := &Error{Op: "accept", Kind: ErrRefused, Cause: errStopped}
		l.abort(err)
		pl.leave()
		pl.refuse(p, err)
		return
	}
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	pl.accept()
	s.accepted.Add(1)
	c.start(early)
}

// acceptLoop hands what accept returns to handle until ctx ends. Errors in between,
// like a lack of file descriptors, are waited out.
func acceptLoop[T any](ctx context.Context, accept func() (T, error), handle func(T)) {
	const waitMin, waitMax = 5 * time.Millisecond, time.Second
	wait := waitMin
	for {
		c, err := accept()
		if err == nil {
			wait = waitMin
			handle(c)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
			wait = min(2*wait, waitMax)
		}
	}
}

// offers reports whether the values of a Sec-WebSocket-Protocol header hold name.
func offers(values []string, name string) bool {
	for _, v := range values {
		if slices.ContainsFunc(strings.Split(v, ","), func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), name) }) {
			return true
		}
	}
	return false
}

var _ http.Handler = (*Server)(nil)

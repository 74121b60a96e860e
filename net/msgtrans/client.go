package msgtrans

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Client keeps a connection to a server: when it ends for whatever reason but
// Shutdown or Close, the client dials again.
//
// What is pending when a connection ends fails; it is not sent again, as the server
// may have acted on it. What is sent while there is no connection waits for one:
// a Send until its context ends, a request also at most for RequestTimeout.
//
// Invariants:
//
//  1. Only run, and newClient before it, makes connections, one after the other. A
//     connection that comes about when ctx has ended is closed.
//  2. Nobody waits for run while it is in a callback (telling), so that a callback
//     may end the client.
type Client struct {
	set       *settings
	reconnect Backoff
	// connect makes a link to the server.
	connect func(ctx context.Context) (link, Peer, error)
	// ctx ends with Shutdown, Close or the last attempt to dial.
	ctx    context.Context
	cancel context.CancelCauseFunc
	ended  chan struct{} // closed when the client does nothing any more

	// current is nil between connections. It changes under mu.
	current atomic.Pointer[Conn]

	mu      sync.Mutex
	telling bool
	changed chan struct{} // closed when current changes
	live    map[*Conn]struct{}
	past    Stats // of connections that are done
}

// Dial connects to an address like tcp://host:port, ws://host:port/path or
// quic://host:port. It fails if the first attempt does; HandshakeTimeout and ctx
// bound it. ctx has no part in what comes later.
func Dial(ctx context.Context, addr string, o ClientOptions) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	a, err := parseAddress(addr)
	if err != nil {
		return nil, err
	}
	dial := dialTCP
	switch a.transport {
	case WS, WSS:
		dial = dialWS
	case QUIC:
		dial = dialQUIC
	}
	set := o.withDefaults().settingsFor(a.transport)
	return newClient(ctx, set, o.Reconnect, func(ctx context.Context) (link, Peer, error) { return dial(ctx, a, set) })
}

// newClient makes a client of a way to connect, and its first connection.
func newClient(ctx context.Context, set *settings, b Backoff, connect func(context.Context) (link, Peer, error)) (*Client, error) {
	c := &Client{set: set, reconnect: b.withDefaults(), connect: connect, ended: make(chan struct{}), changed: make(chan struct{}), live: make(map[*Conn]struct{})}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	conn, err := c.dial(ctx)
	if err != nil {
		c.cancel(err)
		return nil, err
	}
	conn.start(nil)
	c.replace(conn)
	go c.run(conn)
	return c, nil
}

// dial makes one attempt. The connection is not started.
func (c *Client) dial(ctx context.Context) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.set.HandshakeTimeout)
	defer cancel()
	l, p, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	conn := newConn(l, p, c.set, func(done *Conn) {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.live, done)
		c.past.add(done.Stats())
	})
	c.mu.Lock()
	c.live[conn] = struct{}{}
	c.mu.Unlock()
	return conn, nil
}

// replace makes conn, which may be nil, the one that is used.
func (c *Client) replace(conn *Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current.Store(conn)
	close(c.changed)
	c.changed = make(chan struct{})
}

// run dials again whenever the connection has ended.
func (c *Client) run(conn *Conn) {
	defer close(c.ended)
	attempt := 0 // of those in a row
	for {
		select {
		case <-conn.ended:
		case <-c.ctx.Done():
			return
		}
		c.replace(nil)
		if c.reconnect.Disabled {
			c.cancel(conn.Err())
			return
		}
		if !c.bury(conn) {
			return
		}
		if c.proved(conn) {
			attempt = 0
		}
		if conn = c.again(conn, &attempt); conn == nil {
			return
		}
		c.replace(conn)
	}
}

// bury waits until the end of conn has been reported: until its handlers have
// returned, but at most for DrainTimeout, or a handler that waits for the next
// connection would keep it from being made. It returns false if the client has ended.
func (c *Client) bury(conn *Conn) bool {
	patience := time.NewTimer(c.set.DrainTimeout)
	defer patience.Stop()
	select {
	case <-conn.done:
	case <-patience.C:
		return c.tell(conn.reportClosed)
	case <-c.ctx.Done():
		return false
	}
	return true
}

// proved reports whether conn was of use: the server has sent something, or held it
// for longer than it would have taken to dial again. One that accepts and hangs up is
// to be treated like one that does not accept.
func (c *Client) proved(conn *Conn) bool {
	return conn.stats.packetsIn.Load() > 0 || conn.lasted() >= c.reconnect.Max
}

// tell calls f, which calls back, unless the client has ended: then it returns false.
func (c *Client) tell(f func()) bool {
	c.mu.Lock()
	if c.ctx.Err() != nil {
		c.mu.Unlock()
		return false
	}
	c.telling = true
	c.mu.Unlock()
	f()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.telling = false
	return true
}

// again dials until it succeeds, the client is closed or the attempts are used up.
func (c *Client) again(last *Conn, attempt *int) *Conn {
	why := last.Err()
	for {
		*attempt++
		if c.reconnect.Attempts > 0 && *attempt > c.reconnect.Attempts {
			c.cancel(why)
			return nil
		}
		delay := c.reconnect.delay(*attempt)
		e := Event{Kind: EventReconnecting, Err: why, Attempt: *attempt, Delay: delay}
		if !c.tell(func() { last.event(e) }) {
			return nil
		}
		select {
		case <-c.ctx.Done():
			return nil
		case <-time.After(delay):
		}
		conn, err := c.dial(c.ctx)
		if err != nil {
			why = err
			continue
		}
		// Reported also if the client has just ended: a connection that was made opens and
		// closes.
		if !c.tell(func() { conn.start(nil) }) {
			conn.start(nil)
		}
		if c.ctx.Err() != nil {
			_ = conn.Close()
			return nil
		}
		return conn
	}
}

// Conn returns the connection in use, nil while there is none.
func (c *Client) Conn() *Conn { return c.current.Load() }

// Done is closed when the client is closed, or has given up dialing: Err says why.
func (c *Client) Done() <-chan struct{} { return c.ctx.Done() }

// Err returns why the client has ended, nil while it has not.
func (c *Client) Err() error {
	if c.ctx.Err() == nil {
		return nil
	}
	return context.Cause(c.ctx)
}

// Stats counts what all connections of the client have done.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.past
	for conn := range c.live {
		out.add(conn.Stats())
	}
	return out
}

// Request sends a Request on the connection in use and waits for the Response.
// RequestTimeout bounds all of it, the wait for a connection included.
func (c *Client) Request(ctx context.Context, m Message) (reply Message, err error) {
	var by time.Time
	if conn := c.current.Load(); conn != nil {
		if by, err = conn.request(ctx, &m, &reply); err == nil || !errors.Is(err, errUnsent) {
			return reply, err
		}
	}
	ctx, cancel := c.bounded(ctx, by)
	defer cancel()
	err = c.with(ctx, "request", func(conn *Conn) error {
		_, err := conn.request(ctx, &m, &reply)
		return err
	})
	return reply, err
}

// Send sends a OneWay on the connection in use, waiting for one, and for room in its
// send queue, until ctx or the client ends.
func (c *Client) Send(ctx context.Context, m Message) error {
	return c.with(ctx, "send", func(conn *Conn) error { return conn.Send(ctx, m) })
}

// RequestFunc is Conn.RequestFunc on the connection in use.
func (c *Client) RequestFunc(ctx context.Context, m Message, done func(Message, error)) (err error) {
	var by time.Time
	if conn := c.current.Load(); conn != nil {
		if by, err = conn.requestFunc(ctx, &m, done); err == nil || !errors.Is(err, errUnsent) {
			return err
		}
	}
	ctx, cancel := c.bounded(ctx, by)
	defer cancel()
	return c.with(ctx, "request", func(conn *Conn) error { return conn.RequestFunc(ctx, m, done) })
}

// bounded ends ctx when a request runs out of time: by the time at which it would have
// on a connection that has ended meanwhile, or else RequestTimeout from now.
func (c *Client) bounded(ctx context.Context, by time.Time) (context.Context, context.CancelFunc) {
	if by.IsZero() {
		return context.WithTimeout(ctx, c.set.RequestTimeout)
	}
	return context.WithDeadline(ctx, by)
}

var errNoConnection = errors.New("no connection")

// with calls f with a connection, and with the next one if the packet was not
// queued because this one had ended.
func (c *Client) with(ctx context.Context, op string, f func(*Conn) error) error {
	for {
		c.mu.Lock()
		conn, changed := c.current.Load(), c.changed
		c.mu.Unlock()
		if conn != nil {
			if err := f(conn); err == nil || !errors.Is(err, errUnsent) {
				return err
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			err := contextError(op, ctx)
			if errors.Is(err, ErrTimeout) {
				err = &Error{Op: op, Kind: ErrTimeout, Cause: fmt.Errorf("%w: %w", errNoConnection, err)}
			}
			return err
		case <-c.ctx.Done():
			return &Error{Op: op, Kind: ErrClosed, Cause: context.Cause(c.ctx)}
		}
	}
}

var errClientClosed = &Error{Op: "close", Kind: ErrClosed, Cause: errLocalClosed}

// stop keeps the client from dialing, and returns the connection that is left. If run
// is just calling back, it sees to a connection that it is making itself.
func (c *Client) stop() *Conn {
	c.mu.Lock()
	c.cancel(errClientClosed)
	telling := c.telling
	c.mu.Unlock()
	if !telling {
		<-c.ended
	}
	return c.Conn()
}

// Shutdown ends the client and its connection gracefully; when ctx ends first,
// hard. It returns what the connection's Shutdown does. It must not be called by a
// handler.
func (c *Client) Shutdown(ctx context.Context) error {
	if conn := c.stop(); conn != nil {
		return conn.Shutdown(ctx)
	}
	return nil
}

// Close ends the client and its connection at once. It does not wait for handlers, and
// may be called by them and by OnEvent.
func (c *Client) Close() error {
	if conn := c.stop(); conn != nil {
		return conn.Close()
	}
	return nil
}

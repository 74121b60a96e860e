package msgtrans

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Client keeps a connection to a server: when it ends for whatever reason but
// Shutdown or Close, the client dials again.
//
// What is pending when a connection ends fails; it is not sent again, as the server
// may have acted on it. What is sent while there is no connection waits for one,
// until its context or RequestTimeout ends.
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
	c.replace(conn)
	go c.run(conn)
	return c, nil
}

// dial makes one attempt.
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
	conn.start(nil)
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
	for {
		select {
		case <-conn.ended:
		case <-c.ctx.Done():
			return
		}
		c.replace(nil)
		if conn = c.again(conn); conn == nil {
			return
		}
		c.replace(conn)
	}
}

// again dials until it succeeds, the client is closed or the attempts are used up.
func (c *Client) again(last *Conn) *Conn {
	why := last.Err()
	for attempt := 1; ; attempt++ {
		if c.reconnect.Disabled || c.reconnect.Attempts > 0 && attempt > c.reconnect.Attempts {
			c.cancel(why)
			return nil
		}
		delay := c.reconnect.delay(attempt)
		last.event(Event{Kind: EventReconnecting, Err: why, Attempt: attempt, Delay: delay})
		select {
		case <-c.ctx.Done():
			return nil
		case <-time.After(delay):
		}
		conn, err := c.dial(c.ctx)
		if err == nil {
			return conn
		}
		why = err
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
func (c *Client) Request(ctx context.Context, m Message) (reply Message, err error) {
	if conn := c.current.Load(); conn != nil {
		if err = conn.request(ctx, &m, &reply); err == nil || !errors.Is(err, errUnsent) {
			return reply, err
		}
	}
	err = c.with(ctx, "request", func(conn *Conn) error {
		return conn.request(ctx, &m, &reply)
	})
	return reply, err
}

// Send sends a OneWay on the connection in use.
func (c *Client) Send(ctx context.Context, m Message) error {
	return c.with(ctx, "send", func(conn *Conn) error { return conn.Send(ctx, m) })
}

// RequestFunc is Conn.RequestFunc on the connection in use.
func (c *Client) RequestFunc(ctx context.Context, m Message, done func(Message, error)) error {
	return c.with(ctx, "request", func(conn *Conn) error { return conn.RequestFunc(ctx, m, done) })
}

// with calls f with a connection, and with the next one if the packet was not
// queued because this one had ended.
func (c *Client) with(ctx context.Context, op string, f func(*Conn) error) error {
	var patience <-chan time.Time
	for {
		c.mu.Lock()
		conn, changed := c.current.Load(), c.changed
		c.mu.Unlock()
		if conn != nil {
			if err := f(conn); err == nil || !errors.Is(err, errUnsent) {
				return err
			}
		}
		if patience == nil {
			t := time.NewTimer(c.set.RequestTimeout)
			defer t.Stop()
			patience = t.C
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return contextError(op, ctx)
		case <-patience:
			return &Error{Op: op, Kind: ErrTimeout, Cause: errors.New("no connection")}
		case <-c.ctx.Done():
			return &Error{Op: op, Kind: ErrClosed, Cause: context.Cause(c.ctx)}
		}
	}
}

var errClientClosed = &Error{Op: "close", Kind: ErrClosed, Cause: errLocalClosed}

// Shutdown ends the client and its connection gracefully; when ctx ends first,
// hard. It must not be called by a handler.
func (c *Client) Shutdown(ctx context.Context) error {
	c.cancel(errClientClosed)
	<-c.ended
	if conn := c.Conn(); conn != nil {
		return conn.Shutdown(ctx)
	}
	return nil
}

// Close ends the client and its connection at once. It does not wait for handlers.
func (c *Client) Close() error {
	c.cancel(errClientClosed)
	<-c.ended
	if conn := c.Conn(); conn != nil {
		return conn.Close()
	}
	return nil
}

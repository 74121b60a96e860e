package tcp

import (
	"context"
	"io"
	stdnet "net"
	"sync"
	"syscall"
	"time"

	"github.com/mortarmq/mortarmq/net"
)

// conn is one connection.
type conn struct {
	id      net.ConnID
	plane   net.Plane
	network *Network
	flow    flow

	mu     sync.Mutex
	change sync.Cond          // paused, or done
	socket *stdnet.TCPConn    // nil while it is being dialled
	raw    syscall.RawConn    // of socket
	cancel context.CancelFunc // ends the dial
	timer  *time.Timer        // bounds the drain of Close

	paused    bool // PauseRead
	closing   bool // Close was asked for
	readEnded bool // the peer ended its stream while Close flushes
	broken    bool // writing failed: the reader finds the end
	done      bool
	closed    time.Time // when Close found a writer at work

	// The queue: everything that was accepted and not written. See write.go.
	writing bool
	pending []byte
	queued  int

	// Of the submitting and polling goroutine: whether Opened was polled, and what
	// this Submit sends.
	known    bool
	gathered [][]byte
	listed   bool
}

func newConn(n *Network, id net.ConnID, plane net.Plane) *conn {
	c := &conn{id: id, plane: plane, network: n}
	c.change.L = &c.mu
	c.flow.room.L = &n.inbox.mu
	return c
}

// attach gives the connection its socket and posts Opened. False means that it
// ended before it began.
func (c *conn) attach(socket *stdnet.TCPConn) bool {
	raw, err := socket.SyscallConn()
	c.mu.Lock()
	if c.done || err != nil {
		c.mu.Unlock()
		socket.Close()
		return false
	}
	c.socket, c.raw = socket, raw
	c.network.inbox.post(c, net.Event{Kind: net.EventOpened, Remote: socket.RemoteAddr().String()})
	c.mu.Unlock()
	return true
}

// finish ends the connection: the first cause counts.
func (c *conn) finish(cause net.Cause) {
	c.mu.Lock()
	if c.done {
		c.mu.Unlock()
		return
	}
	c.done = true
	c.pending, c.queued = nil, 0
	if c.timer != nil {
		c.timer.Stop()
	}
	socket, cancel := c.socket, c.cancel
	c.change.Broadcast()
	c.mu.Unlock()

	if cancel != nil {
		cancel()
	}
	c.network.forget(c)
	if socket != nil {
		socket.Close()
	} else if c.plane != net.PlaneDialed {
		c.network.inbox.end(c) // nobody knows of it yet
		return
	}
	c.network.inbox.post(c, net.Event{Kind: net.EventClosed, Cause: cause})
}

// abort closes at once; the peer sees a reset.
func (c *conn) abort() {
	c.network.inbox.mute(c)
	c.mu.Lock()
	if c.socket != nil && !c.done {
		c.socket.SetLinger(0)
	}
	c.mu.Unlock()
	c.finish(net.CauseLocal)
}

// close begins the orderly end: flush, half-close, drain.
func (c *conn) close() {
	c.network.inbox.mute(c)
	c.mu.Lock()
	if c.socket == nil {
		c.mu.Unlock()
		c.finish(net.CauseLocal)
		return
	}
	if c.done || c.closing {
		c.mu.Unlock()
		return
	}
	c.closing = true
	c.change.Broadcast() // a paused reader drains from now on
	if c.writing {
		c.closed = c.network.now()
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	c.halfClose()
}

// halfClose ends this side's stream and gives the peer DrainMillis to end its own.
func (c *conn) halfClose() {
	c.mu.Lock()
	if c.done {
		c.mu.Unlock()
		return
	}
	c.timer = time.AfterFunc(net.DrainMillis*time.Millisecond, func() { c.finish(net.CauseLocal) })
	socket, readEnded := c.socket, c.readEnded
	c.mu.Unlock()
	if err := socket.CloseWrite(); err != nil || readEnded {
		c.finish(net.CauseLocal)
	}
}

// readFailed ends the connection as the reader found it: err is io.EOF or what
// broke it.
func (c *conn) readFailed(err error) {
	c.mu.Lock()
	closing, writing := c.closing, c.writing
	broken := c.broken
	if err == io.EOF && closing && writing && !broken {
		c.readEnded = true // the writer flushes, then finishes
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	switch {
	case closing:
		c.finish(net.CauseLocal)
	case err == io.EOF && !broken:
		c.finish(net.CauseEOF)
	default:
		c.finish(net.CauseReset)
	}
}

// pause stops or resumes reading.
func (c *conn) pause(on bool) {
	c.mu.Lock()
	c.paused = on
	c.change.Broadcast()
	c.mu.Unlock()
}

package ws

import (
	"io"
	stdnet "net"
	"sync"
)

// corkBytes is how much a cork holds before it writes through.
const corkBytes = 64 << 10

// cork collects writes while it is held. The WebSocket library flushes after
// each frame; between hold and release those flushes end here, so that many
// small messages become one system call.
type cork struct {
	w    io.Writer
	mu   sync.Mutex
	held bool
	buf  []byte
	err  error // the first failure; a frame that was lost cannot be skipped
}

func (c *cork) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	if !c.held {
		return c.w.Write(p)
	}
	if len(c.buf)+len(p) > corkBytes {
		if err := c.flush(); err != nil {
			return 0, err
		}
		if len(p) > corkBytes {
			return c.w.Write(p)
		}
	}
	c.buf = append(c.buf, p...)
	return len(p), nil
}

func (c *cork) hold() {
	c.mu.Lock()
	c.held = true
	c.mu.Unlock()
}

func (c *cork) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = false
	return c.flush()
}

func (c *cork) flush() error {
	if len(c.buf) == 0 || c.err != nil {
		return c.err
	}
	_, c.err = c.w.Write(c.buf)
	c.buf = c.buf[:0]
	return c.err
}

// corkConn is a server's connection with its writes corked.
type corkConn struct {
	stdnet.Conn
	cork cork
}

func newCorkConn(c stdnet.Conn) *corkConn {
	return &corkConn{Conn: c, cork: cork{w: c}}
}

func (c *corkConn) Write(p []byte) (int, error) { return c.cork.Write(p) }

// corkBody is a client's connection, which the HTTP client hands out as the body
// of its response, with its writes corked.
type corkBody struct {
	io.ReadWriteCloser
	cork cork
}

func newCorkBody(b io.ReadWriteCloser) *corkBody {
	return &corkBody{ReadWriteCloser: b, cork: cork{w: b}}
}

func (c *corkBody) Write(p []byte) (int, error) { return c.cork.Write(p) }

package ws

import (
	"bytes"
	"io"
	stdnet "net"
	"sync"
	"sync/atomic"
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

	finished bool // the close frame has been written

	written atomic.Uint64 // bytes of what was held that w took
}

// pieceBytes bounds what is written at once, so that a large message which a slow
// peer takes is seen to move.
const pieceBytes = 128 << 10

// put writes p to w, piece by piece. It counts what belongs to messages: what the
// library writes of its own accord, like the answers to pings, is not held.
func (c *cork) put(p []byte) (int, error) {
	total := 0
	for len(p) > 0 {
		n, err := c.w.Write(p[:min(len(p), pieceBytes)])
		total += n
		if c.held {
			c.written.Add(uint64(n))
		}
		if err != nil {
			return total, err
		}
		p = p[n:]
	}
	return total, nil
}

func (c *cork) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	if c.finished {
		return len(p), nil
	}
	if !c.held {
		return c.put(p)
	}
	if len(c.buf)+len(p) > corkBytes {
		if err := c.flush(); err != nil {
			return 0, err
		}
		if len(p) > corkBytes {
			return c.put(p)
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
	err := c.flush()
	c.held = false
	return err
}

func (c *cork) flush() error {
	if len(c.buf) == 0 || c.err != nil {
		return c.err
	}
	_, c.err = c.put(c.buf)
	c.buf = c.buf[:0]
	return c.err
}

// corkConn is a server's connection with its writes corked and its reads watched.
type corkConn struct {
	stdnet.Conn
	cork cork
	in   inflow
}

// newCorkConn makes one of c, of which early has been read already.
func newCorkConn(c stdnet.Conn, early []byte) *corkConn {
	return &corkConn{Conn: c, cork: cork{w: c}, in: inflow{r: io.MultiReader(bytes.NewReader(early), c)}}
}

func (c *corkConn) Read(p []byte) (int, error)  { return c.in.Read(p) }
func (c *corkConn) Write(p []byte) (int, error) { return c.cork.Write(p) }

// corkBody is a client's connection, which the HTTP client hands out as the body
// of its response, with its writes corked and its reads watched.
type corkBody struct {
	io.ReadWriteCloser
	cork cork
	in   inflow
}

func newCorkBody(b io.ReadWriteCloser) *corkBody {
	return &corkBody{ReadWriteCloser: b, cork: cork{w: b}, in: inflow{r: b}}
}

func (c *corkBody) Read(p []byte) (int, error)  { return c.in.Read(p) }
func (c *corkBody) Write(p []byte) (int, error) { return c.cork.Write(p) }

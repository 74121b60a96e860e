package tcp

import (
	"golang.org/x/sys/unix"

	"github.com/mortarmq/mortarmq/net"
)

// Sizes of writing.
const (
	coalesceBytes = 64 << 10 // up to here sends are copied together
	iovecsMax     = 1024     // of one writev
	gatheredMax   = 64       // sends whose list a connection keeps for the next Submit
)

// gather collects what one Submit sends, per connection, and writes it. It is the
// submitting goroutine's.
type gather struct {
	conns   []*conn // that have something gathered
	scratch []byte
	try     func(fd uintptr) bool
	vector  [][]byte // the memory of bufs
	bufs    [][]byte // what try writes; what is left after it
	err     error
}

func (g *gather) init() { g.try = g.tryWrite }

func (g *gather) add(c *conn, data []byte) {
	if len(data) == 0 || !c.known {
		return
	}
	c.gathered = append(c.gathered, data)
	if !c.listed {
		c.listed = true
		g.conns = append(g.conns, c)
	}
}

func (g *gather) flushAll() {
	for i, c := range g.conns {
		g.flush(c)
		c.listed = false
		g.conns[i] = nil
	}
	g.conns = g.conns[:0]
}

// flush writes what was gathered for c, or queues it (invariant 3).
func (g *gather) flush(c *conn) {
	if len(c.gathered) == 0 {
		return
	}
	c.mu.Lock()
	switch {
	case c.done || c.closing || c.broken || c.socket == nil:
		c.mu.Unlock()
	case c.writing:
		c.enqueue(c.gathered)
		c.mu.Unlock()
	default:
		// Nobody but Submit starts a writer: the socket is this goroutine's.
		c.mu.Unlock()
		g.write(c)
	}
	clear(c.gathered)
	c.gathered = c.gathered[:0]
	if cap(c.gathered) > gatheredMax {
		c.gathered = nil
	}
}

// write gives the socket what it takes at once and queues the rest.
func (g *gather) write(c *conn) {
	total := 0
	for _, b := range c.gathered {
		total += len(b)
	}
	g.vector, g.err = append(g.vector[:0], c.gathered...), nil
	if len(c.gathered) > 1 && total <= coalesceBytes {
		g.scratch = g.scratch[:0]
		for _, b := range c.gathered {
			g.scratch = append(g.scratch, b...)
		}
		g.vector = append(g.vector[:0], g.scratch)
	}
	g.bufs = g.vector
	err := c.raw.Write(g.try)
	if err == nil {
		err = g.err
	}
	if err != nil {
		c.writeFailed()
	} else if len(g.bufs) > 0 {
		c.mu.Lock()
		if !c.done {
			c.enqueue(g.bufs)
			c.writing = true
			c.network.tasks.Go(c.drain)
		}
		c.mu.Unlock()
	}
	clear(g.vector)
	g.bufs = nil
}

// tryWrite writes until the socket is full. It always returns true: it does not
// wait.
func (g *gather) tryWrite(fd uintptr) bool {
	for len(g.bufs) > 0 {
		var n int
		var err error
		if len(g.bufs) == 1 {
			n, err = unix.Write(int(fd), g.bufs[0])
		} else {
			n, err = unix.Writev(int(fd), g.bufs[:min(len(g.bufs), iovecsMax)])
		}
		switch err {
		case nil:
			g.bufs = advance(g.bufs, n)
		case unix.EINTR:
		case unix.EAGAIN:
			return true
		default:
			g.err = err
			return true
		}
	}
	return true
}

// advance drops the first n bytes of bufs.
func advance(bufs [][]byte, n int) [][]byte {
	for len(bufs) > 0 && n >= len(bufs[0]) {
		n -= len(bufs[0])
		bufs = bufs[1:]
	}
	if n > 0 {
		bufs[0] = bufs[0][n:]
	}
	return bufs
}

// enqueue copies bufs behind the queue. c.mu is held.
func (c *conn) enqueue(bufs [][]byte) {
	for _, b := range bufs {
		c.pending = append(c.pending, b...)
		c.queued += len(b)
	}
	c.progress()
}

// progress tells how much is queued. c.mu is held (invariant 4).
func (c *conn) progress() {
	c.network.inbox.post(c, net.Event{Kind: net.EventProgress, Queued: c.queued})
}

// drain is the writer: it writes the queue as the socket takes it, and ends with
// it.
func (c *conn) drain() {
	var spare []byte
	for {
		c.mu.Lock()
		if c.done || c.broken || len(c.pending) == 0 {
			c.writing = false
			c.pending = nil
			closing := c.closing && !c.broken
			c.mu.Unlock()
			if closing {
				c.halfClose()
			}
			return
		}
		buf := c.pending
		c.pending = spare[:0]
		c.mu.Unlock()
		spare = buf
		if err := c.writeAll(buf); err != nil {
			c.writeFailed()
		}
	}
}

// writeAll writes b, waiting for the socket.
func (c *conn) writeAll(b []byte) error {
	var failed error
	err := c.raw.Write(func(fd uintptr) bool {
		for len(b) > 0 {
			n, err := unix.Write(int(fd), b)
			switch err {
			case nil:
				b = b[n:]
				c.mu.Lock()
				if !c.done {
					c.queued -= n
					c.progress()
				}
				c.mu.Unlock()
			case unix.EINTR:
			case unix.EAGAIN:
				return false
			default:
				failed = err
				return true
			}
		}
		return true
	})
	if err == nil {
		err = failed
	}
	return err
}

// writeFailed gives up writing. The reader still brings what the peer sent before
// it went, and finds the end; a paused one throws it away.
func (c *conn) writeFailed() {
	c.mu.Lock()
	c.broken = true
	c.pending, c.queued = nil, 0
	readEnded := c.readEnded
	c.change.Broadcast()
	c.mu.Unlock()
	if readEnded {
		c.finish(net.CauseLocal)
	}
}

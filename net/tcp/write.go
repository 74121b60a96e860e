package tcp

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mortarmq/mortarmq/net"
)

// Sizes of writing.
const (
	coalesceBytes = blockBytes // up to here sends are copied together
	iovecsMax     = 1024       // of one writev
	gatheredMax   = 64         // sends whose list a connection keeps for the next Submit
)

// gather collects what one Submit sends, per connection, and writes it. It is the
// submitting goroutine's.
type gather struct {
	conns   []*conn // that have something gathered
	blocks  *blockPool
	scratch *block // what is copied together, within a Submit
	try     func(fd uintptr) bool
	vector  [][]byte // the memory of bufs
	bufs    [][]byte // what try writes; what is left after it
	err     error
}

func (g *gather) init(blocks *blockPool) { g.blocks, g.try = blocks, g.tryWrite }

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
	if g.scratch != nil {
		g.blocks.put(g.scratch)
		g.scratch = nil
	}
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
		if g.scratch == nil {
			g.scratch = g.blocks.get()
		}
		together := g.scratch.data[:0]
		for _, b := range c.gathered {
			together = append(together, b...)
		}
		g.vector = append(g.vector[:0], together)
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
	w := writer{c: c, moved: c.network.now()}
	var spare []byte
	for {
		c.mu.Lock()
		if c.done || c.broken || len(c.pending) == 0 {
			if w.timed {
				c.socket.SetWriteDeadline(time.Time{}) // Submit writes from now on
			}
			c.writing = false
			c.pending = nil
			closing := c.closing && !c.broken
			c.mu.Unlock()
			if closing {
				c.halfClose()
			}
			return
		}
		w.left = c.pending
		c.pending = spare[:0]
		c.mu.Unlock()
		spare = w.left
		if err := w.write(); err != nil {
			c.writeFailed()
		}
	}
}

// writer is what drain knows while it writes. The system calls a socket writable
// only when a third of a buffer of megabytes is free, which a slow reader may need
// minutes for. So the writer does not wait for longer than look: then it tries, and
// asks what the peer has acknowledged.
type writer struct {
	c       *conn
	left    []byte // to be written
	err     error
	timed   bool      // the socket has a write deadline
	unacked int       // bytes that the system has and the peer had not acknowledged at the last look
	moved   time.Time // when a byte moved last, as far as is known
}

// look is how often a writer that waits looks for movement (contract, invariant 7).
const look = net.ProgressMillis * time.Millisecond / 2

// write writes what is left, waiting for the socket.
func (w *writer) write() error {
	try := w.try
	for {
		err := w.c.raw.Write(try)
		switch {
		case err == nil:
			return w.err
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case w.c.givesUp(w.moved):
			w.c.abort()
			return err
		}
		w.arm()
	}
}

func (w *writer) arm() {
	w.timed = true
	w.c.socket.SetWriteDeadline(time.Now().Add(look))
}

// try writes until the socket is full; then it returns false to wait for more room.
func (w *writer) try(fd uintptr) bool {
	for len(w.left) > 0 {
		n, err := unix.Write(int(fd), w.left)
		switch err {
		case nil:
			w.left = w.left[n:]
			w.note(n)
		case unix.EINTR:
		case unix.EAGAIN:
			w.notePeer(fd)
			if !w.timed {
				w.arm()
			}
			return false
		default:
			w.err = err
			return true
		}
	}
	return true
}

// note tells that n bytes left the queue. With 0 it was the peer that took some of
// what had left it before.
func (w *writer) note(n int) {
	c := w.c
	w.moved = c.network.now()
	c.mu.Lock()
	if !c.done {
		c.queued -= n
		c.progress()
	}
	c.mu.Unlock()
}

// notePeer looks at what the peer has acknowledged while the socket is full.
func (w *writer) notePeer(fd uintptr) {
	n, err := unix.IoctlGetInt(int(fd), unix.TIOCOUTQ)
	if err != nil {
		return // the connection's end, which the next write meets
	}
	if n < w.unacked {
		w.note(0)
	}
	w.unacked = n
}

// givesUp says whether Close has waited in vain for the peer to take anything.
func (c *conn) givesUp(moved time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if moved.Before(c.closed) {
		moved = c.closed
	}
	return c.closing && c.network.now().Sub(moved) >= net.FlushMillis*time.Millisecond
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

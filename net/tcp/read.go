package tcp

import (
	"io"

	"golang.org/x/sys/unix"
)

// reader is what a connection's goroutine knows while it reads.
type reader struct {
	c   *conn
	err error // why there is nothing more to read
}

// read brings in the stream until it ends. It is the connection's goroutine.
func (c *conn) read() {
	r := reader{c: c}
	ready := r.ready
	for c.awaitReadable() {
		if err := c.raw.Read(ready); err != nil {
			return // closed by this side
		}
		if r.err != nil {
			c.readFailed(r.err)
			return
		}
	}
}

// awaitReadable waits while reading is paused or the inbox is full; false means
// that the connection is done.
func (c *conn) awaitReadable() bool {
	c.mu.Lock()
	for c.paused && !c.discards() && !c.done {
		c.change.Wait()
	}
	done, discards := c.done, c.discards()
	c.mu.Unlock()
	if !done && !discards {
		c.network.inbox.awaitRoom(c)
	}
	return !done
}

// discards reports whether what is read is thrown away. c.mu is held.
func (c *conn) discards() bool { return c.closing || c.broken && c.paused }

// ready reads until the socket is empty; then it returns false to wait for more,
// holding nothing. True ends the wait, for an error or for a pause. (A short read
// does not mean that the socket is empty: an end of stream may stand behind it,
// and the poller tells each change once.)
func (r *reader) ready(fd uintptr) bool {
	c, n := r.c, r.c.network
	for {
		c.mu.Lock()
		stop, discards := c.done || c.paused && !c.discards(), c.discards()
		c.mu.Unlock()
		if stop || !discards && n.inbox.full(c) {
			return true
		}
		b := n.blocks.get()
		k, err := unix.Read(int(fd), b.data[:])
		if k > 0 && !discards {
			n.inbox.postBytes(c, b, k)
			continue
		}
		n.blocks.put(b)
		switch {
		case k > 0 || err == unix.EINTR:
		case err == unix.EAGAIN:
			return false
		case err == nil:
			r.err = io.EOF
			return true
		default:
			r.err = err
			return true
		}
	}
}

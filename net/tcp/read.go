package tcp

import (
	"io"

	"golang.org/x/sys/unix"
)

// reader is what a connection's goroutine knows while it reads.
type reader struct {
	c       *conn
	arrived bool  // something is to be told of
	err     error // why there is nothing more to read
}

// read brings in the stream until it ends, and then ends the connection's task. It
// is the connection's goroutine.
func (c *conn) read() {
	r := reader{c: c}
	ready, rest := r.ready, c.read
	for c.awaitReadable() {
		closed := c.raw.Read(ready) != nil // by this side
		arrived := r.arrived
		r.arrived = false
		if !closed && r.err == nil {
			if arrived && !c.network.options.Arrived(rest) {
				return // another goroutine reads on
			}
			continue
		}
		if arrived {
			c.network.options.Wake()
		}
		if !closed {
			c.readFailed(r.err)
		}
		break
	}
	c.network.tasks.Done()
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
// holding nothing. True ends the wait, for an error, for a pause, or to tell of what
// was read. (A short read does not mean that the socket is empty: an end of stream
// may stand behind it, and the poller tells each change once.)
func (r *reader) ready(fd uintptr) bool {
	c, n := r.c, r.c.network
	for {
		c.mu.Lock()
		stop, discards := c.done || c.paused && !c.discards(), c.discards()
		c.mu.Unlock()
		// What arrived is told of before anything is thrown away: that may go on for as
		// long as the peer likes.
		if stop || discards && r.arrived || !discards && n.inbox.full(c) {
			return true
		}
		b := n.blocks.get()
		k, err := unix.Read(int(fd), b.data[:])
		if k > 0 && !discards {
			r.arrived = n.inbox.postBytes(c, b, k) || r.arrived
			if r.arrived && k < blockBytes {
				return true // most likely the last
			}
			continue
		}
		n.blocks.put(b)
		switch {
		case k > 0 || err == unix.EINTR:
		case err == unix.EAGAIN:
			return r.arrived
		case err == nil:
			r.err = io.EOF
			return true
		default:
			r.err = err
			return true
		}
	}
}

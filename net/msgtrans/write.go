package msgtrans

import "runtime"

// writeLoop writes what is queued, batch by batch.
func (c *Conn) writeLoop() {
	defer c.exit()
	for {
		c.mu.Lock()
		for c.out.empty() {
			if c.state.Load() == stateEnded {
				c.mu.Unlock()
				return
			}
			c.writerIdle = true
			c.mu.Unlock()
			<-c.wake
			c.gather()
			c.mu.Lock()
		}
		c.writerIdle = false
		c.gathering.Store(0)
		b := c.out.take()
		c.mu.Unlock()
		if err := c.link.write(b.buf, b.ends); err != nil {
			c.end(endOf("write", err))
			return
		}
		c.stats.packetsOut.Add(uint64(len(b.ends)))
		c.stats.bytesOut.Add(uint64(len(b.buf)))
		c.mu.Lock()
		c.out.done(b)
		c.mu.Unlock()
		c.quietened()
	}
}

// gather lets whoever is about to send do so, for as long as the queue grows and a
// write is not long anyway: one system call for all of them.
func (c *Conn) gather() {
	for seen := -1; seen < gatherBytes; {
		runtime.Gosched()
		c.mu.Lock()
		n := c.out.bytes // nothing of it is being written
		c.mu.Unlock()
		if n == seen {
			return
		}
		seen = n
	}
}

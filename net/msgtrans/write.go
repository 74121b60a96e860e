package msgtrans

import "runtime"

// writeLoop writes what is queued, everything that is there in one go.
func (c *Conn) writeLoop() {
	defer c.exit()
	for {
		c.mu.Lock()
		for len(c.out.normal.ends) == 0 && len(c.out.urgent.ends) == 0 {
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
		c.mu.Unlock()
		if err := c.writeQueued(); err != nil {
			c.end(endOf("write", err))
			return
		}
		c.quietened()
	}
}

// gather lets whoever is about to send do so, for as long as the queue grows and a
// write is not long anyway: one system call for all of them.
func (c *Conn) gather() {
	for seen := int64(-1); seen < gatherBytes; {
		runtime.Gosched()
		n := c.out.queued.Load()
		if n == seen {
			return
		}
		seen = n
	}
}

// writeQueued writes the urgent packets and then the others, in pieces, with urgent
// ones that have come meanwhile in between.
func (c *Conn) writeQueued() error {
	if err := c.writeUrgent(); err != nil {
		return err
	}
	c.mu.Lock()
	b, ok := c.out.takeNormal()
	c.mu.Unlock()
	if !ok {
		return nil
	}
	start, first := 0, 0
	for i, end := range b.ends {
		if end-start < writeBytes && i < len(b.ends)-1 {
			continue
		}
		if err := c.writeBatch(b, first, i+1, start); err != nil {
			return err
		}
		c.mu.Lock()
		c.out.release(i+1-first, end-start)
		c.mu.Unlock()
		first, start = i+1, end
		if err := c.writeUrgent(); err != nil {
			return err
		}
	}
	c.mu.Lock()
	c.out.doneNormal(b)
	c.mu.Unlock()
	return nil
}

func (c *Conn) writeUrgent() error {
	c.mu.Lock()
	b, ok := c.out.takeUrgent()
	c.mu.Unlock()
	if !ok {
		return nil
	}
	if err := c.writeBatch(b, 0, len(b.ends), 0); err != nil {
		return err
	}
	c.mu.Lock()
	c.out.doneUrgent(b)
	c.mu.Unlock()
	return nil
}

// writeBatch writes the packets first to last of b, the first of which begins at start.
func (c *Conn) writeBatch(b batch, first, last, start int) error {
	end := b.ends[last-1]
	ends := b.ends[first:last]
	if start > 0 {
		for i := range ends {
			ends[i] -= start
		}
	}
	if err := c.link.write(b.buf[start:end], ends); err != nil {
		return err
	}
	c.stats.packetsOut.Add(uint64(len(ends)))
	c.stats.bytesOut.Add(uint64(end - start))
	return nil
}

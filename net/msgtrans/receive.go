package msgtrans

import (
	"context"
	"errors"
	"io"

	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// reader is what the reading goroutine keeps from one batch to the next.
type reader struct {
	conn    *Conn
	packets []Packet
	calls   []*call    // of the packets that are Responses, nil if nobody waits
	items   []*inbound // what was accepted and not yet pushed
	size    int        // of items
	scratch []byte     // what a RequestFunc's callback borrows
}

// pushBytes is how much is accepted before it is pushed, which may wait for room: a
// batch of short packets can hold a lot when it is decompressed.
const pushBytes = 1 << 20

// readLoop takes what the peer sends until the connection ends. first is what the
// Accept hook has seen.
func (c *Conn) readLoop(first []Packet) {
	defer c.exit()
	r := reader{conn: c, packets: first}
	for {
		var err error
		if len(r.packets) == 0 {
			r.packets, err = c.link.next(r.packets)
		}
		failed := r.receive()
		r.packets = r.packets[:0]
		switch {
		case failed != nil:
			c.end(failed)
			return
		case errors.Is(err, io.EOF):
			c.peerEnded()
			return
		case err != nil:
			c.end(endOf("read", err))
			return
		}
	}
}

// peerEnded answers what was accepted from a peer that sends no more, and ends.
func (c *Conn) peerEnded() {
	why := &Error{Op: "read", Kind: ErrClosed, Cause: errPeerClosed}
	patience, cancel := context.WithTimeout(context.Background(), c.set.DrainTimeout)
	defer cancel()
	if c.state.Load() != stateFinishing {
		c.drain()
		c.giveUp(why)
	}
	select {
	case <-c.quiet:
		// Also when this end was first: it may be just about to.
		_ = c.link.finish() // fails only when the connection has ended already
		c.link.linger(patience)
	case <-c.ended:
	case <-patience.Done():
	}
	c.end(why)
}

// giveUp fails the requests that a peer which sends no more cannot answer.
func (c *Conn) giveUp(why error) {
	c.mu.Lock()
	rejected := c.pairing.Abandon(nil) // this end may still send, so its ids go on
	c.out.giveUpRequests(why)
	c.mu.Unlock()
	for _, r := range rejected {
		r.Value.complete(Message{}, during("request", why))
	}
	c.quietened()
}

// receive takes a batch. An error ends the connection.
func (r *reader) receive() error {
	c := r.conn
	bytes, inbound := int64(0), int64(0)
	r.calls = r.calls[:0]
	c.mu.Lock()
	for i := range r.packets {
		p := &r.packets[i]
		bytes += p.PacketBytes()
		var l *call
		if p.Type == wire.Response {
			if l, _ = c.pairing.Match(p.ID); l == nil {
				c.stats.unmatched.Add(1)
			}
		} else {
			inbound++
		}
		r.calls = append(r.calls, l)
	}
	c.mu.Unlock()
	c.stats.packetsIn.Add(uint64(len(r.packets)))
	c.stats.bytesIn.Add(uint64(bytes))
	// Counted before the state is looked at: whoever closes the connection sees either
	// the count, or its state is seen here.
	c.in.open.Add(inbound)

	responses := uint64(0)
	var failed error
	for i := range r.packets {
		p := &r.packets[i]
		switch l := r.calls[i]; {
		case failed != nil && l != nil:
			l.complete(Message{}, failed)
		case failed != nil && p.Type != wire.Response:
			c.in.over(0)
		case failed != nil:
		case l != nil:
			responses++
			failed = r.response(p, l)
		case p.Type != wire.Response:
			failed = r.inbound(p)
		}
	}
	c.stats.responses.Add(responses)
	clear(r.calls)
	r.push()
	c.quietened()
	return failed
}

// push hands over what was accepted, and waits for room for more.
func (r *reader) push() {
	if len(r.items) > 0 {
		r.conn.in.push(r.items)
		clear(r.items)
		r.items, r.size = r.items[:0], 0
	}
}

func (r *reader) response(p *Packet, l *call) error {
	var buf []byte
	if l.fn != nil {
		buf = r.scratch
	}
	buf, err := r.conn.set.codecs.unpack(&l.reply, buf, p)
	if err != nil {
		l.err = during("read", err)
	}
	if l.fn != nil && err == nil && cap(buf) <= inboundKeepBytes {
		r.scratch = buf
	}
	err = l.err // l may belong to somebody else once it is complete
	l.completed()
	return err
}

// inbound takes a message or Request, which the inbox counts already.
func (r *reader) inbound(p *Packet) error {
	c := r.conn
	request := p.Type == wire.Request
	if request && c.set.OnRequest == nil || !request && c.set.OnMessage == nil {
		c.stats.unhandled.Add(1)
		c.in.over(0)
		return nil
	}
	if !c.accepts() {
		c.stats.discarded.Add(1)
		c.in.over(0)
		return nil
	}
	i := newInbound(c, request)
	var err error
	if i.buf, err = c.set.codecs.unpack(&i.message, i.buf, p); err != nil {
		i.free()
		c.in.over(0)
		return during("read", err)
	}
	i.size = len(i.buf) + wire.HeaderBytes
	r.items = append(r.items, i)
	if r.size += i.size; r.size >= pushBytes {
		r.push()
	}
	return nil
}

// accepts decides whether a message or Request is taken. A connection that is being
// closed takes them for as long as it waits for Responses of its own.
func (c *Conn) accepts() bool {
	if c.state.Load() == stateOpen {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Load() == stateDraining && c.pairing.Len() > 0
}

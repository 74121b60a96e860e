package session

import (
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/wire"
)

// Capacities of new output buffers in bytes: for answers, and for messages.
const (
	bufferSmall = 512
	bufferLarge = 64 << 10
)

// buffers lends output buffers to connections for a turn, and takes them back
// in the next one, when the net has copied what it could not write.
//
// Invariant 1: kept is the sum of the capacities in small and large.
type buffers struct {
	small [][]byte
	large [][]byte
	lent  [][]byte
	kept  int
}

// take gives a kept buffer of the list, if there is one with room for n bytes.
func (b *buffers) take(list *[][]byte, n int) []byte {
	last := len(*list) - 1
	if last < 0 || cap((*list)[last]) < n {
		return nil
	}
	buf := (*list)[last]
	(*list)[last] = nil
	*list = (*list)[:last]
	b.kept -= cap(buf)
	return buf
}

// reclaim takes back what the last turn sent.
func (s *Sessions) reclaim() {
	b := &s.buffers
	if len(b.lent) == 0 {
		return
	}
	for i, buf := range b.lent {
		b.lent[i] = nil
		s.putBuffer(buf)
	}
	b.lent = b.lent[:0]
}

func (s *Sessions) putBuffer(buf []byte) {
	b := &s.buffers
	if cap(buf) == 0 || cap(buf) > keepBufferMax || b.kept+cap(buf) > keepBytesMax {
		return
	}
	b.kept += cap(buf)
	if cap(buf) < bufferLarge {
		b.small = append(b.small, buf[:0])
	} else {
		b.large = append(b.large, buf[:0])
	}
}

// output gives the connection's buffer of this turn, to append to.
func (s *Sessions) output(i uint32, c *conn) []byte {
	if c.out == nil {
		if c.out = s.buffers.take(&s.buffers.small, 0); c.out == nil {
			c.out = make([]byte, 0, bufferSmall)
		}
		s.touch(i, c)
	}
	return c.out
}

// reserve makes room for n more bytes in the connection's output, which may
// become large.
func (s *Sessions) reserve(c *conn, n int) {
	need := len(c.out) + n
	if need <= cap(c.out) {
		return
	}
	buf := s.buffers.take(&s.buffers.large, need)
	if buf == nil {
		buf = make([]byte, 0, max(need, 2*cap(c.out), bufferLarge))
	}
	buf = append(buf, c.out...)
	s.putBuffer(c.out)
	c.out = buf
}

const textTooMany = "this broker has as many connections as it may: back off and try again"

// flush turns what the connections have to say into requests.
func (s *Sessions) flush(out []net.Request) []net.Request {
	for _, id := range s.shutOut {
		out = append(out, net.Request{Kind: net.RequestClose, Conn: id})
	}
	s.shutOut = s.shutOut[:0]
	for _, id := range s.turnAway {
		buf := wire.AppendErr(nil, wire.CodeBackpressure, wire.OpNone, textTooMany)
		out = append(out, net.Request{Kind: net.RequestSend, Conn: id, Data: buf}, net.Request{Kind: net.RequestClose, Conn: id})
	}
	s.turnAway = s.turnAway[:0]
	for _, i := range s.dirty {
		c := s.conns.at(i)
		if !c.dirty {
			continue // closed since
		}
		c.dirty = false
		if len(c.out) > 0 {
			out = append(out, net.Request{Kind: net.RequestSend, Conn: c.id, Data: c.out})
			s.buffers.lent = append(s.buffers.lent, c.out)
		} else {
			s.putBuffer(c.out)
		}
		c.out = nil
		switch {
		case c.wantAbort:
			out = append(out, net.Request{Kind: net.RequestAbort, Conn: c.id})
			c.wantAbort, c.wantClose = false, false
		case c.wantClose:
			out = append(out, net.Request{Kind: net.RequestClose, Conn: c.id})
			c.wantClose = false
		case c.state != connClosing:
			out = c.pause(out)
		}
	}
	s.dirty = s.dirty[:0]
	return out
}

// pause asks for reading to stop or to go on where that has changed.
func (c *conn) pause(out []net.Request) []net.Request {
	want := c.state == connOpen && (c.hold&(holdLimit|holdOutput|holdStop) != 0 || c.hold != 0 && len(c.held) > heldBytesMax)
	switch {
	case want && !c.paused:
		out = append(out, net.Request{Kind: net.RequestPauseRead, Conn: c.id})
	case !want && c.paused:
		out = append(out, net.Request{Kind: net.RequestResumeRead, Conn: c.id})
	}
	c.paused = want
	return out
}

package ws

import (
	"crypto/rand"
	"encoding/binary"
	"io"
	"sync/atomic"
)

// WebSocket has no half-close by itself: the library answers a close frame at once,
// and then nothing can be sent any more, though the peer would still take it. RFC 6455
// lets an endpoint finish what it is sending first (section 5.5.1). So a regular close
// frame of the peer's is kept from the library and reported as the end of what comes,
// and this end's close frame is written when the caller has nothing more to send.

const (
	opcodeMask  = 0x0F
	opcodeClose = 0x08
	controlBit  = 0x08
	finalBit    = 0x80
	maskBit     = 0x80
	lengthMask  = 0x7F
	// controlBytesMax is the longest payload of a control frame.
	controlBytesMax = 125
	maskBytes       = 4
)

// inflow is the bytes of the peer on their way to the library. It follows the frames
// and ends before a regular close frame; another one passes. io.EOF comes nowhere
// else: the library takes it for the end of a message, also where the connection broke
// in the middle of one.
type inflow struct {
	r     io.Reader
	rest  uint64   // bytes of a frame's payload that are still to come
	head  [14]byte // of the frame that begins
	have  int
	open  bool   // a message has begun whose last frame has not come
	held  []byte // a close frame as far as it has come, or what of it is to be passed on
	pass  bool   // nothing is looked at any more
	err   error  // of r, kept until held is passed on
	ended atomic.Bool
}

func (f *inflow) Read(p []byte) (int, error) {
	n, err := f.read(p)
	if err == io.EOF && (f.open || !f.ended.Load()) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (f *inflow) read(p []byte) (int, error) {
	for {
		switch {
		case f.ended.Load():
			return 0, io.EOF
		case f.pass && len(f.held) > 0:
			n := copy(p, f.held)
			f.held = f.held[n:]
			return n, nil
		case f.err != nil:
			return 0, f.err
		case f.pass:
			return f.r.Read(p)
		case len(f.held) > 0:
			f.readClose()
			continue
		}
		n, err := f.r.Read(p)
		at := f.follow(p[:n])
		if at < n {
			// Read is not allowed to return 0 bytes just because they are held back.
			if f.hold(p[at:n], err); at > 0 {
				return at, nil
			}
			continue
		}
		return n, err
	}
}

// readClose reads more of a close frame.
func (f *inflow) readClose() {
	var b [2 + maskBytes + controlBytesMax]byte
	n, err := f.r.Read(b[:])
	f.hold(b[:n], err)
}

// hold keeps b, a piece of a close frame, behind which reading ended with err.
func (f *inflow) hold(b []byte, err error) {
	f.held, f.err = append(f.held, b...), err
	f.judge()
	if err != nil && !f.ended.Load() {
		f.pass = true // it is not complete and never will be
	}
}

// follow walks over b and returns where a close frame begins in it, or its length.
func (f *inflow) follow(b []byte) int {
	for at := 0; at < len(b); {
		if f.rest > 0 {
			n := min(f.rest, uint64(len(b)-at))
			f.rest -= n
			at += int(n)
			continue
		}
		if f.have == 0 && b[at]&opcodeMask == opcodeClose {
			return at
		}
		f.head[f.have] = b[at]
		f.have++
		at++
		if f.have >= 2 && f.have == headBytes(f.head[1]) {
			f.rest, f.have = payloadBytes(&f.head), 0
			if f.head[0]&controlBit == 0 {
				f.open = f.head[0]&finalBit == 0
			}
		}
	}
	return len(b)
}

// headBytes returns the length of a frame's header by its second byte.
func headBytes(b byte) int {
	n := 2
	switch b & lengthMask {
	case 126:
		n += 2
	case 127:
		n += 8
	}
	if b&maskBit != 0 {
		n += maskBytes
	}
	return n
}

func payloadBytes(head *[14]byte) uint64 {
	switch n := head[1] & lengthMask; n {
	case 126:
		return uint64(binary.BigEndian.Uint16(head[2:]))
	case 127:
		return binary.BigEndian.Uint64(head[2:])
	default:
		return uint64(n)
	}
}

// judge looks whether the close frame in held is complete, and what it says. What is
// no regular one is for the library to answer or to refuse.
func (f *inflow) judge() {
	b := f.held
	if len(b) < 2 {
		return
	}
	size := int(b[1] & lengthMask)
	if b[0] != finalBit|opcodeClose || size > controlBytesMax || size == 1 {
		f.pass = true
		return
	}
	head := headBytes(b[1])
	if len(b) < head+size {
		return
	}
	code := uint16(StatusNormal) // what a close frame without a code stands for
	if size > 0 {
		code = binary.BigEndian.Uint16(b[head:])
		if b[1]&maskBit != 0 {
			code ^= binary.BigEndian.Uint16(b[head-maskBytes:])
		}
	}
	switch int(code) {
	case StatusNormal, StatusGoingAway:
		f.ended.Store(true)
	default:
		f.pass = true
	}
}

// closeFrame returns a close frame with a status code and no reason.
func closeFrame(status int, masked bool) []byte {
	b := binary.BigEndian.AppendUint16([]byte{finalBit | opcodeClose, 2}, uint16(status))
	if !masked {
		return b
	}
	var key [maskBytes]byte
	_, _ = rand.Read(key[:]) // it does not fail
	return []byte{b[0], b[1] | maskBit, key[0], key[1], key[2], key[3], b[2] ^ key[0], b[3] ^ key[1]}
}

// Finish sends a close frame: nothing follows. It does not wait for the peer's: Next
// still returns what comes, and in the end io.EOF. Write must not be called any more.
func (c *Conn) Finish(status int) error {
	return c.cork.finish(closeFrame(status, c.client))
}

// finish writes p, the last frame. What the library may still write, like the answer
// to a ping, goes nowhere.
func (c *cork) finish(p []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || c.finished {
		return c.err
	}
	c.finished = true
	_, c.err = c.put(p)
	return c.err
}

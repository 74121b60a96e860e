package ws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

const (
	// readBytes is a connection's buffer when nothing large is on its way.
	readBytes = 4 << 10
	// readKeepBytes is the largest buffer kept from one message to the next.
	readKeepBytes = 128 << 10
)

// ErrTooBig says that a message was over the limit of the end that reports it.
var ErrTooBig = websocket.ErrMessageTooBig

// Status codes of the close frame (RFC 6455, section 7.4.1).
const (
	StatusNormal        = int(websocket.StatusNormalClosure)
	StatusGoingAway     = int(websocket.StatusGoingAway)
	StatusProtocolError = int(websocket.StatusProtocolError)
	StatusTooBig        = int(websocket.StatusMessageTooBig)
)

// Conn moves binary messages. Next and Write may be used by one goroutine each.
type Conn struct {
	ws     *websocket.Conn
	client bool
	cork   *cork
	in     *inflow
	under  io.Closer // what the cork stands on
	buf    []byte
	texts  atomic.Uint64
}

// limited sets the limit of a new connection.
func (c *Conn) limited(messageBytesMax int) *Conn {
	c.ws.SetReadLimit(int64(messageBytesMax))
	return c
}

// Subprotocol returns what was agreed on, empty if nothing was.
func (c *Conn) Subprotocol() string { return c.ws.Subprotocol() }

// Texts returns how many text messages were read past.
func (c *Conn) Texts() uint64 { return c.texts.Load() }

// Written returns how many bytes of messages the system has taken, also of one that is
// on its way.
func (c *Conn) Written() uint64 { return c.cork.written.Load() }

// Next returns the next binary message, borrowed until the next call. It returns
// io.EOF after the peer's regular close; Write goes on until Finish.
func (c *Conn) Next() ([]byte, error) {
	for {
		typ, r, err := c.ws.Reader(context.Background())
		if err != nil {
			if c.in.ended.Load() && errors.Is(err, io.EOF) {
				return nil, io.EOF
			}
			return nil, readError(err)
		}
		if typ != websocket.MessageBinary {
			if _, err := io.Copy(io.Discard, r); err != nil {
				return nil, readError(err)
			}
			c.texts.Add(1)
			continue
		}
		b, err := c.readMessage(r)
		if err != nil {
			return nil, readError(err)
		}
		return b, nil
	}
}

// readMessage reads r to its end into the buffer, which doubles as it fills.
func (c *Conn) readMessage(r io.Reader) ([]byte, error) {
	if c.buf == nil || cap(c.buf) > readKeepBytes {
		c.buf = make([]byte, readBytes)
	}
	n := 0
	for {
		if n == len(c.buf) {
			c.buf = append(c.buf, make([]byte, len(c.buf))...)
		}
		m, err := r.Read(c.buf[n:])
		n += m
		if errors.Is(err, io.EOF) {
			return c.buf[:n], nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// readError tells a broken connection from a regular end. The library wraps io.EOF
// when the connection broke, which is the contrary.
func readError(err error) error {
	if websocket.CloseStatus(err) != -1 {
		return fmt.Errorf("ws: %w", err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// CloseStatus returns the code of the peer's close frame that err stands for, or -1.
func CloseStatus(err error) int { return int(websocket.CloseStatus(err)) }

// Write sends messages that lie back to back in buf; each ends at the offset that
// ends has for it. It keeps nothing of buf.
func (c *Conn) Write(buf []byte, ends []int) error {
	c.cork.hold()
	start := 0
	for _, end := range ends {
		if err := c.ws.Write(context.Background(), websocket.MessageBinary, buf[start:end]); err != nil {
			_ = c.cork.release()
			return err
		}
		start = end
	}
	return c.cork.release()
}

// failPatience bounds how long Fail waits for the peer.
const failPatience = time.Second

// Fail ends a connection that cannot go on, for a reason that the peer is told by a
// status code. It does not wait for a peer that takes nothing or does not answer,
// but for a moment, and unblocks Next, Write and Finish.
func (c *Conn) Fail(status int) {
	late := time.AfterFunc(failPatience, func() { _ = c.under.Close() })
	defer late.Stop()
	_ = c.ws.Close(websocket.StatusCode(status), "") // nobody is left to be told of an error
	c.Abort()
}

// Abort ends the connection at once, without a close frame, and unblocks Next, Write
// and Finish.
func (c *Conn) Abort() {
	_ = c.under.Close()
	_ = c.ws.CloseNow()
}

// WriteText sends a text message, which this package ignores when it comes: for the
// protocols that have them, and for tests of those that do not.
func (c *Conn) WriteText(s string) error {
	return c.ws.Write(context.Background(), websocket.MessageText, []byte(s))
}

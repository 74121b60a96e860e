// Package bare is the echo that msgtrans is measured against: the same transports
// and nothing but a length in front of each message. No ids, so answers come in the
// order of the requests; no timeouts, no handlers, no limits but the buffer's.
//
// The server reads with a buffer, answers into a buffered writer and flushes when
// nothing more has arrived. Over WebSocket, whose library does not say what has
// arrived, a second goroutine flushes when the first gives way to it.
package bare

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/mortarmq/mortarmq/net/ws"
)

// bufferBytes is the size of every buffer.
const bufferBytes = 64 << 10

// MessageBytesMax bounds a message.
const MessageBytesMax = 16 << 20

// Pipe carries messages in both directions. Read is for one goroutine, Write and
// Flush for one at a time.
type Pipe interface {
	// Read returns the next message, borrowed until the next call, and whether another
	// one is known to have arrived.
	Read() (message []byte, more bool, err error)
	Write(message []byte) error
	Flush() error
}

// Stream is a Pipe over a byte stream: a u32 length in front of each message.
type Stream struct {
	r   *bufio.Reader
	w   *bufio.Writer
	buf []byte
}

// NewStream returns a Pipe over rw.
func NewStream(rw io.ReadWriter) *Stream {
	return &Stream{r: bufio.NewReaderSize(rw, bufferBytes), w: bufio.NewWriterSize(rw, bufferBytes)}
}

func (s *Stream) Read() ([]byte, bool, error) {
	head, err := s.r.Peek(4)
	if err != nil {
		return nil, false, err
	}
	n := int(binary.BigEndian.Uint32(head))
	if n > MessageBytesMax {
		return nil, false, fmt.Errorf("bare: a message of %d bytes", n)
	}
	if _, err := s.r.Discard(4); err != nil {
		return nil, false, err
	}
	if n > cap(s.buf) {
		s.buf = make([]byte, n)
	}
	if _, err := io.ReadFull(s.r, s.buf[:n]); err != nil {
		return nil, false, err
	}
	return s.buf[:n], s.r.Buffered() > 0, nil
}

func (s *Stream) Write(message []byte) error {
	var head [4]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(message)))
	if _, err := s.w.Write(head[:]); err != nil {
		return err
	}
	_, err := s.w.Write(message)
	return err
}

func (s *Stream) Flush() error { return s.w.Flush() }

// WebSocket is a Pipe over WebSocket.
type WebSocket struct {
	conn *ws.Conn
	buf  []byte
	ends []int
}

// NewWebSocket returns a Pipe over c.
func NewWebSocket(c *ws.Conn) *WebSocket { return &WebSocket{conn: c} }

func (w *WebSocket) Read() ([]byte, bool, error) {
	b, err := w.conn.Next()
	return b, false, err
}

func (w *WebSocket) Write(message []byte) error {
	w.buf = append(w.buf, message...)
	w.ends = append(w.ends, len(w.buf))
	if len(w.buf) < bufferBytes {
		return nil
	}
	return w.Flush()
}

func (w *WebSocket) Flush() error {
	if len(w.ends) == 0 {
		return nil
	}
	err := w.conn.Write(w.buf, w.ends)
	w.buf, w.ends = w.buf[:0], w.ends[:0]
	return err
}

// Echo answers, for a Pipe that knows what has arrived, every message of p with itself until reading fails.
func Echo(p Pipe) error {
	for {
		b, more, err := p.Read()
		if err != nil {
			return err
		}
		if err := p.Write(b); err != nil {
			return err
		}
		if !more {
			if err := p.Flush(); err != nil {
				return err
			}
		}
	}
}

// EchoBehind is Echo for a Pipe that does not know what has arrived.
func EchoBehind(p Pipe) error {
	var mu sync.Mutex
	dirty := make(chan struct{}, 1)
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		for range dirty {
			runtime.Gosched() // let the reader go on first
			mu.Lock()
			err := p.Flush()
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	defer func() { close(dirty); <-flushed }()
	for {
		b, _, err := p.Read()
		if err != nil {
			return err
		}
		mu.Lock()
		err = p.Write(b)
		mu.Unlock()
		if err != nil {
			return err
		}
		select {
		case dirty <- struct{}{}:
		default:
		}
	}
}

package client

// Chunks are what keys and values are copied into, so that a publish costs no allocation of its own. A chunk is used again
// when the last message in it has ended.
const (
	chunkSize = 64 << 10
	// valueShared is the largest message that shares a chunk; a larger one has an allocation to itself.
	valueShared = chunkSize / 2
)

type chunk struct {
	buf  []byte
	refs int
}

// buffer is a producer's memory. Its owner's mutex guards it.
type buffer struct {
	current *chunk
	free    []*chunk
	bytes   int // of chunks that hold something, and of large messages
}

// room says whether a message of n bytes fits below max; where nothing is held, any does.
func (b *buffer) room(n, max int) bool {
	if b.bytes == 0 {
		return true
	}
	if n > valueShared {
		return b.bytes+n <= max
	}
	if b.current != nil && len(b.current.buf)+n <= chunkSize {
		return true
	}
	return b.bytes+chunkSize <= max
}

// put copies key and value in.
func (b *buffer) put(key, value []byte) (c *chunk, k, v []byte) {
	n := len(key) + len(value)
	if n > valueShared {
		c = &chunk{buf: make([]byte, 0, n)}
		b.bytes += n
	} else {
		if b.current == nil || len(b.current.buf)+n > chunkSize {
			b.next()
		}
		c = b.current
	}
	c.refs++
	at := len(c.buf)
	c.buf = append(append(c.buf, key...), value...)
	return c, c.buf[at : at+len(key) : at+len(key)], c.buf[at+len(key) : at+n : at+n]
}

func (b *buffer) next() {
	if n := len(b.free); n > 0 {
		b.current = b.free[n-1]
		b.free = b.free[:n-1]
	} else {
		b.current = &chunk{buf: make([]byte, 0, chunkSize)}
	}
	b.bytes += chunkSize
}

// release gives a message's place back.
func (b *buffer) release(c *chunk) {
	c.refs--
	switch {
	case c.refs > 0:
	case cap(c.buf) != chunkSize:
		b.bytes -= cap(c.buf)
	case c == b.current:
		c.buf = c.buf[:0]
	default:
		b.bytes -= chunkSize
		c.buf = c.buf[:0]
		b.free = append(b.free, c)
	}
}

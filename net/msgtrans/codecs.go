package msgtrans

import (
	"sync"

	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// codecScratchKeepBytes is the largest compressed form that a pooled codec keeps
// its buffer of.
const codecScratchKeepBytes = 256 << 10

// codecPool shares the compressors, which are large, between connections.
type codecPool struct{ pool sync.Pool }

type pooledCodec struct {
	*wire.Codec
	scratch []byte // the compressed payload until it is in the send queue
}

func newCodecPool(payloadBytesMax int) *codecPool {
	p := &codecPool{}
	p.pool.New = func() any { return &pooledCodec{Codec: wire.NewCodec(payloadBytesMax)} }
	return p
}

func (p *codecPool) get() *pooledCodec { return p.pool.Get().(*pooledCodec) }

func (p *codecPool) put(c *pooledCodec) {
	if cap(c.scratch) > codecScratchKeepBytes {
		c.scratch = nil
	}
	p.pool.Put(c)
}

// unpack copies the borrowed p into buf, which it returns grown, and makes m a message
// that is decompressed and lies in buf. After an error m is as it was.
func (p *codecPool) unpack(m *Message, buf []byte, pkt *Packet) ([]byte, error) {
	n := len(pkt.Ext)
	if pkt.Compression == None {
		if size := n + len(pkt.Payload); cap(buf) < size {
			buf = make([]byte, 0, size)
		}
		buf = append(append(buf[:0], pkt.Ext...), pkt.Payload...)
	} else {
		codec := p.get()
		defer p.put(codec)
		out, err := codec.Decompress(append(buf[:0], pkt.Ext...), pkt.Payload, pkt.Compression)
		if err != nil {
			return buf, err
		}
		buf = out
	}
	m.ID, m.Biz, m.Flags, m.Compression = pkt.ID, pkt.Biz, pkt.Flags, pkt.Compression
	m.Ext, m.Payload = buf[:n:n], buf[n:len(buf):len(buf)]
	return buf, nil
}

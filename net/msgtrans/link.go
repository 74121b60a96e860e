package msgtrans

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// link is an established connection of some transport, as a mover of packets. next
// and write are called by one goroutine each.
type link interface {
	// next appends to into the packets that have come, at least one and at most
	// readBatch, borrowed until the next call. io.EOF means that the peer has ended
	// its side between two packets. With an error there may be packets before it.
	next(into []Packet) ([]Packet, error)
	// write sends packets that were appended to buf with the transport's framing;
	// each ends at its offset in ends.
	write(buf []byte, ends []int) error
	// finish tells the peer that nothing follows. next still returns what comes, and
	// in the end io.EOF.
	finish() error
	// linger waits, after finish and the peer's end, until what was written cannot be
	// lost by abort any more, at either end, or until ctx ends.
	linger(ctx context.Context)
	// abort ends everything at once; err says why. It unblocks next and write.
	abort(err error)
	// written is how many bytes the transport has taken, also of what is being written.
	written() uint64
	// texts is how many WebSocket text messages were ignored.
	texts() uint64
}

// readBatch bounds the packets that are taken from a link at once, so that one lock
// serves all of them.
const readBatch = 64

// framingOf returns how packets are told apart on t.
func framingOf(t Transport) wire.Framing {
	if t == QUIC {
		return wire.Prefixed
	}
	return wire.Bare
}

// byteStream is what TCP and QUIC have in common.
type byteStream interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// streamLink moves packets over a byte stream.
type streamLink struct {
	rw     byteStream
	stream *wire.Stream
	failed error // of Read, kept until the packets before it are taken
	// closeWith replaces Close where the transport can say why.
	closeWith func(err error)
	// settle is linger where abort would lose what is on its way. Nil where the
	// transport sees to that itself.
	settle func(ctx context.Context)
	taken  atomic.Uint64 // bytes, by the transport
}

func newStreamLink(rw byteStream, s *settings) *streamLink {
	return &streamLink{rw: rw, stream: wire.NewStream(framingOf(s.transport), s.limits)}
}

func (l *streamLink) next(into []Packet) ([]Packet, error) {
	for {
		for len(into) < readBatch {
			into = append(into, Packet{})
			ok, err := l.stream.Next(&into[len(into)-1])
			if !ok {
				into = into[:len(into)-1]
			}
			if err != nil {
				return into, err
			}
			if !ok {
				break
			}
		}
		if len(into) > 0 {
			return into, nil
		}
		if l.failed != nil {
			return into, l.end()
		}
		n, err := l.rw.Read(l.stream.Space())
		l.stream.Filled(n)
		l.failed = err
	}
}

// end returns what the end of reading means: io.EOF in mid-packet is no regular one.
func (l *streamLink) end() error {
	if errors.Is(l.failed, io.EOF) && l.stream.Buffered() > 0 {
		return io.ErrUnexpectedEOF
	}
	return l.failed
}

// pieceBytes bounds what is written at once, so that a large packet which a slow
// peer takes is seen to move.
const pieceBytes = 2 * batchBytes

func (l *streamLink) write(buf []byte, _ []int) error {
	for len(buf) > 0 {
		n, err := l.rw.Write(buf[:min(len(buf), pieceBytes)])
		l.taken.Add(uint64(n))
		if err != nil {
			return err
		}
		buf = buf[n:]
	}
	return nil
}

func (l *streamLink) written() uint64 { return l.taken.Load() }

func (l *streamLink) finish() error { return l.rw.CloseWrite() }

func (l *streamLink) linger(ctx context.Context) {
	if l.settle != nil {
		l.settle(ctx)
	}
}

func (l *streamLink) abort(err error) {
	if l.closeWith != nil {
		l.closeWith(err)
		return
	}
	_ = l.rw.Close()
}

func (l *streamLink) texts() uint64 { return 0 }

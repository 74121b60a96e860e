package msgtrans

import (
	"encoding/binary"
	"fmt"
)

const (
	// streamIdleBytes is a stream's buffer until a read fills it: what an idle
	// connection holds.
	streamIdleBytes = 4 << 10
	// streamBytes is a stream's buffer when it is busy and nothing large is on its way.
	streamBytes = 32 << 10
	// streamKeepBytes is the largest buffer that an empty stream keeps.
	streamKeepBytes = 128 << 10
	// compactBytes is what it is always worth to move to the front of the buffer
	// for a longer read.
	compactBytes = 4 << 10
)

// Stream cuts the bytes of one connection into packets. The owner reads into
// Space, reports the count with Filled and takes packets with Next until there
// is none:
//
//	n, err := conn.Read(s.Space())
//	s.Filled(n)
//	for { ok, err := s.Next(&p); ... }
//
// A stream holds at most twice the bytes that have arrived of a packet, and
// never more than the longest packet that it admits (invariant 2).
type Stream struct {
	framing Framing
	limits  Limits
	buf     []byte
	r, w    int   // buf[r:w] arrived and was not yet taken
	need    int   // bytes of the packet at r, prefix included; 0 while unknown
	busy    bool  // the last read left no space
	err     error // the first refusal, which stays
}

// NewStream returns an empty stream for one direction of a connection.
func NewStream(f Framing, l Limits) *Stream {
	l = l.WithDefaults()
	if f == Prefixed {
		l.PacketBytes = min(l.PacketBytes, PrefixedPacketBytesMax)
	}
	return &Stream{framing: f, limits: l}
}

// Space returns where the next bytes belong; it is never empty. It ends the
// borrowing of every packet that Next has returned.
func (s *Stream) Space() []byte {
	if s.r == s.w {
		s.r, s.w = 0, 0
		if len(s.buf) > streamKeepBytes {
			s.buf = nil
		}
	}
	switch {
	case s.busy && len(s.buf) < streamBytes:
		// Also with the beginning of a packet in it: reads seldom end where packets do.
		s.move(streamBytes)
	case s.buf == nil:
		s.buf = make([]byte, streamIdleBytes)
	}
	if s.r > 0 && (s.w-s.r <= compactBytes || s.r+s.need > len(s.buf)) {
		s.w = copy(s.buf, s.buf[s.r:s.w])
		s.r = 0
	}
	if s.w == len(s.buf) {
		size := 2 * len(s.buf)
		if s.need > s.w-s.r {
			size = min(size, s.need)
		}
		s.move(max(size, streamBytes))
	}
	return s.buf[s.w:]
}

// move puts what was not taken into a new buffer.
func (s *Stream) move(size int) {
	buf := make([]byte, size)
	s.w = copy(buf, s.buf[s.r:s.w])
	s.r = 0
	s.buf = buf
}

// Filled says that the first n bytes of Space were written.
func (s *Stream) Filled(n int) {
	s.w += n
	s.busy = s.w == len(s.buf)
}

// Buffered returns how many bytes arrived and were not taken. At the end of the
// connection more than 0 means that the peer died in mid-packet.
func (s *Stream) Buffered() int { return s.w - s.r }

// Next sets p to the next packet, or returns false if its bytes have not all
// arrived. The packet is borrowed until the next call of Space. An error is final.
func (s *Stream) Next(p *Packet) (bool, error) {
	if s.err != nil {
		return false, s.err
	}
	b := s.buf[s.r:s.w]
	head := HeaderBytes
	if s.framing == Prefixed {
		head += PrefixBytes
		// The prefix is judged by itself: it may be all that ever comes.
		if len(b) >= PrefixBytes {
			if err := s.checkPrefix(b); err != nil {
				return s.fail(err)
			}
		}
	}
	if len(b) < head {
		s.need = 0
		return false, nil
	}
	h, err := ParseHeader(b[head-HeaderBytes:])
	if err != nil {
		return s.fail(err)
	}
	if err := h.check(&s.limits); err != nil {
		return s.fail(err)
	}
	size := h.PacketBytes()
	if s.framing == Prefixed {
		switch n := int64(binary.BigEndian.Uint32(b)); {
		case n < size:
			return s.fail(fmt.Errorf("%w: %d bytes in the frame, %d by the header", ErrShort, n, size))
		case n > size:
			return s.fail(fmt.Errorf("%w: %d bytes in the frame, %d by the header", ErrLong, n, size))
		}
	}
	end := head - HeaderBytes + int(size)
	if len(b) < end {
		s.need = end
		return false, nil
	}
	s.r += end
	s.need = 0
	h.packet(b[head-HeaderBytes:end], p)
	return true, nil
}

func (s *Stream) checkPrefix(b []byte) error {
	n := int64(binary.BigEndian.Uint32(b))
	if n < HeaderBytes {
		return fmt.Errorf("%w: a frame of %d bytes holds no header", ErrShort, n)
	}
	if n > int64(s.limits.PacketBytes) {
		return fmt.Errorf("%w: a frame of %d bytes, at most %d", ErrPacketTooLong, n, s.limits.PacketBytes)
	}
	return nil
}

func (s *Stream) fail(err error) (bool, error) {
	s.err = err
	return false, err
}

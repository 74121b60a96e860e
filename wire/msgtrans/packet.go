package msgtrans

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Packet is one packet as it is on the wire: the payload is still compressed if
// Compression says so.
type Packet struct {
	Compression Compression
	Type        Type
	// Biz is the application's biz_type.
	Biz   uint8
	ID    MessageID
	Flags Flags
	// Ext is the ext header, never compressed. Borrowed from the buffer that was
	// decoded; copy what must outlive it.
	Ext []byte
	// Payload is borrowed like Ext.
	Payload []byte
}

// PacketBytes returns the length of the whole packet on the wire.
func (p *Packet) PacketBytes() int64 {
	return HeaderBytes + int64(len(p.Ext)) + int64(len(p.Payload))
}

// Framing says how a packet's end is found on its transport.
type Framing uint8

const (
	// Bare packets follow each other directly, as on TCP, or are one message
	// each, as on WebSocket: the header gives the length.
	Bare Framing = iota
	// Prefixed packets stand behind a u32 that counts their bytes, as on QUIC.
	Prefixed
)

// Check reports why p cannot be sent, or nil.
func (p *Packet) Check() error {
	if err := p.CheckUnnumbered(ExtBytesMax); err != nil {
		return err
	}
	if p.ID == 0 && p.Type != Response {
		// A Response repeats whatever id the Request had, 0 included (section 10).
		return ErrIDZero
	}
	return nil
}

// CheckUnnumbered is Check for a packet that has no id yet, with a limit on its ext
// header: what passes cannot fail any more once it has an id.
func (p *Packet) CheckUnnumbered(extBytesMax int) error {
	switch {
	case p.Type > Response:
		return fmt.Errorf("%w: %d", ErrType, p.Type)
	case p.Compression > Zlib:
		return fmt.Errorf("%w: %d", ErrCompression, p.Compression)
	case p.Flags&Fragmented != 0:
		return ErrFragmented
	case p.Flags&^sendableFlags != 0:
		return fmt.Errorf("%w: %#04x", ErrFlags, uint16(p.Flags))
	case len(p.Ext) > extBytesMax:
		return fmt.Errorf("%w: %d bytes, at most %d", ErrExtTooLong, len(p.Ext), extBytesMax)
	case int64(len(p.Payload)) > payloadBytesMax:
		return fmt.Errorf("%w: payload of %d bytes", ErrPacketTooLong, len(p.Payload))
	}
	return nil
}

// Append appends p to dst and returns the extended slice. A packet that Check
// refuses leaves dst as it was. Nothing is kept of p.
func Append(dst []byte, p *Packet, f Framing) ([]byte, error) {
	if err := p.Check(); err != nil {
		return dst, err
	}
	n := int(p.PacketBytes())
	if f == Prefixed {
		if n > PrefixedPacketBytesMax {
			return dst, fmt.Errorf("%w: %d bytes, at most %d behind a length prefix", ErrPacketTooLong, n, PrefixedPacketBytesMax)
		}
		dst = slices.Grow(dst, PrefixBytes+n)
		dst = binary.BigEndian.AppendUint32(dst, uint32(n))
	} else {
		dst = slices.Grow(dst, n)
	}
	h := Header{
		Compression:  p.Compression,
		Type:         p.Type,
		Biz:          p.Biz,
		ID:           p.ID,
		ExtBytes:     len(p.Ext),
		PayloadBytes: int64(len(p.Payload)),
		Flags:        p.Flags,
	}
	at := len(dst)
	dst = dst[:at+HeaderBytes]
	h.put(dst[at:])
	dst = append(dst, p.Ext...)
	return append(dst, p.Payload...), nil
}

// Decode reads b, which must be exactly one packet within l. The packet borrows b.
func Decode(b []byte, l Limits) (Packet, error) {
	h, err := ParseHeader(b)
	if err != nil {
		return Packet{}, err
	}
	l = l.WithDefaults()
	if err := h.check(&l); err != nil {
		return Packet{}, err
	}
	switch n := h.PacketBytes(); {
	case int64(len(b)) < n:
		return Packet{}, fmt.Errorf("%w: %d of %d bytes", ErrShort, len(b), n)
	case int64(len(b)) > n:
		return Packet{}, fmt.Errorf("%w: %d instead of %d bytes", ErrLong, len(b), n)
	}
	var p Packet
	h.packet(b, &p)
	return p, nil
}

// packet sets p to the packet in b, which is h and what h counts.
func (h *Header) packet(b []byte, p *Packet) {
	ext := HeaderBytes + h.ExtBytes
	p.Compression = h.Compression
	p.Type = h.Type
	p.Biz = h.Biz
	p.ID = h.ID
	p.Flags = h.Flags
	p.Ext = b[HeaderBytes:ext:ext]
	p.Payload = b[ext:len(b):len(b)]
}

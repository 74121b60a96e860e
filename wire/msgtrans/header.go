package msgtrans

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// Version is the only version of the format.
const Version = 1

// MessageID identifies a OneWay or a Request among those of its sender.
type MessageID uint32

// Type says what a packet is.
type Type uint8

// The packet types (section 5.3).
const (
	OneWay   Type = 0 // wants no answer
	Request  Type = 1 // wants a Response with its message id
	Response Type = 2 // answers the Request with its message id
)

func (t Type) String() string {
	switch t {
	case OneWay:
		return "OneWay"
	case Request:
		return "Request"
	case Response:
		return "Response"
	}
	return "Type(" + strconv.Itoa(int(t)) + ")"
}

// Compression names what the payload was compressed with.
type Compression uint8

// The compressions (section 5.2). The order is historical and not alphabetical.
const (
	None Compression = 0
	Zstd Compression = 1
	Zlib Compression = 2 // RFC 1950
)

func (c Compression) String() string {
	switch c {
	case None:
		return "none"
	case Zstd:
		return "zstd"
	case Zlib:
		return "zlib"
	}
	return "Compression(" + strconv.Itoa(int(c)) + ")"
}

// Flags are the bits of the field named reserved (section 5.8).
type Flags uint16

const (
	// Fragmented is reserved by version 1: it is refused and never sent.
	Fragmented Flags = 0x0001
	// HighPriority asks for the packet to be scheduled before others.
	HighPriority Flags = 0x0002
	// HasRouteTag says that the ext header holds a route tag of the application.
	HasRouteTag Flags = 0x0004

	// sendableFlags are those that a sender may set; a receiver ignores the
	// bits that are neither among them nor Fragmented.
	sendableFlags = HighPriority | HasRouteTag
)

// Header is the fixed header. The lengths are those on the wire.
type Header struct {
	Compression Compression
	Type        Type
	Biz         uint8
	ID          MessageID
	ExtBytes    int
	// PayloadBytes counts the payload as sent, so after compression.
	PayloadBytes int64
	Flags        Flags
}

// PacketBytes returns the length of the whole packet.
func (h *Header) PacketBytes() int64 {
	return HeaderBytes + int64(h.ExtBytes) + h.PayloadBytes
}

// ParseHeader reads the fixed header at the start of b. It refuses everything
// that a header alone can be refused for; lengths are judged by check.
// Undefined flags are dropped.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderBytes {
		return Header{}, fmt.Errorf("%w: %d bytes are no header", ErrShort, len(b))
	}
	// Two words instead of eight fields: this runs for every packet.
	first, second := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	h := Header{
		Compression:  Compression(first >> 48),
		Type:         Type(first >> 40),
		Biz:          uint8(first >> 32),
		ID:           MessageID(first),
		ExtBytes:     int(second >> 48),
		PayloadBytes: int64(uint32(second >> 16)),
		Flags:        Flags(second),
	}
	switch {
	case b[0] != Version:
		return Header{}, fmt.Errorf("%w: %d", ErrVersion, b[0])
	case h.Compression > Zlib:
		return Header{}, fmt.Errorf("%w: %d", ErrCompression, b[1])
	case h.Type > Response:
		return Header{}, fmt.Errorf("%w: %d", ErrType, b[2])
	case h.Flags&Fragmented != 0:
		return Header{}, ErrFragmented
	}
	h.Flags &= sendableFlags
	return h, nil
}

// check holds the lengths in h against l, which has its defaults filled in.
func (h *Header) check(l *Limits) error {
	if h.ExtBytes > l.ExtBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrExtTooLong, h.ExtBytes, l.ExtBytes)
	}
	if n := h.PacketBytes(); n > int64(l.PacketBytes) {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrPacketTooLong, n, l.PacketBytes)
	}
	if h.Compression == None && h.PayloadBytes > int64(l.PayloadBytes) {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrPayloadTooLong, h.PayloadBytes, l.PayloadBytes)
	}
	return nil
}

// put writes h into b, which has room for it.
func (h *Header) put(b []byte) {
	_ = b[HeaderBytes-1]
	binary.BigEndian.PutUint64(b, Version<<56|uint64(h.Compression)<<48|uint64(h.Type)<<40|uint64(h.Biz)<<32|uint64(h.ID))
	binary.BigEndian.PutUint64(b[8:], uint64(uint16(h.ExtBytes))<<48|uint64(uint32(h.PayloadBytes))<<16|uint64(h.Flags))
}

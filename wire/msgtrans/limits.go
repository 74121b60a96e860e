package msgtrans

import "fmt"

// Limits of the format and the defaults of the endpoints, in bytes unless the
// name says otherwise.
const (
	// HeaderBytes is the length of the fixed header.
	HeaderBytes = 16
	// ExtBytesMax is the longest ext header that the format can carry.
	ExtBytesMax = 1<<16 - 1
	// PrefixBytes is the length of the count in front of a packet on QUIC.
	PrefixBytes = 4
	// PrefixedPacketBytesMax is the longest packet on QUIC (section 9.3).
	PrefixedPacketBytesMax = 16 << 20

	// PacketBytesCeiling and PayloadBytesCeiling are the highest limits that can be
	// set. Packets and payloads are held in memory as a whole, some of them twice, and
	// sums of these lengths fit into an int of 32 bits.
	PacketBytesCeiling  = 1 << 29
	PayloadBytesCeiling = 1 << 29

	// DefaultPacketBytes is the default limit of a whole packet.
	DefaultPacketBytes = 16 << 20
	// DefaultPacketBytesWebSocket is the same on WebSocket.
	DefaultPacketBytesWebSocket = 1 << 20
	// DefaultPayloadBytes is the default limit of a decompressed payload.
	DefaultPayloadBytes = 16 << 20
	// DefaultPendingRequests is the default limit of requests that wait for
	// their Response on one connection, a count.
	DefaultPendingRequests = 1024
)

// Limits bounds what a decoder accepts. The zero value stands for the defaults.
type Limits struct {
	// PacketBytes bounds a whole packet: header, ext header and payload as sent.
	// Default [DefaultPacketBytes], at most [PacketBytesCeiling].
	PacketBytes int
	// ExtBytes bounds the ext header. Default [ExtBytesMax].
	ExtBytes int
	// PayloadBytes bounds a payload after decompression. Default
	// [DefaultPayloadBytes], at most [PayloadBytesCeiling].
	PayloadBytes int
}

// WithDefaults returns l with every zero field replaced by its default.
func (l Limits) WithDefaults() Limits {
	if l.PacketBytes == 0 {
		l.PacketBytes = DefaultPacketBytes
	}
	if l.ExtBytes == 0 {
		l.ExtBytes = ExtBytesMax
	}
	if l.PayloadBytes == 0 {
		l.PayloadBytes = DefaultPayloadBytes
	}
	return l
}

// Validate reports the first limit that cannot be kept.
func (l Limits) Validate() error {
	switch {
	case l.PacketBytes != 0 && l.PacketBytes < HeaderBytes:
		return fmt.Errorf("msgtrans: PacketBytes %d is below the header's %d", l.PacketBytes, HeaderBytes)
	case l.PacketBytes > PacketBytesCeiling:
		return fmt.Errorf("msgtrans: PacketBytes %d is over %d", l.PacketBytes, PacketBytesCeiling)
	case l.ExtBytes < 0 || l.ExtBytes > ExtBytesMax:
		return fmt.Errorf("msgtrans: ExtBytes %d is outside 0..%d", l.ExtBytes, ExtBytesMax)
	case l.PayloadBytes < 0 || l.PayloadBytes > PayloadBytesCeiling:
		return fmt.Errorf("msgtrans: PayloadBytes %d is outside 0..%d", l.PayloadBytes, PayloadBytesCeiling)
	}
	return nil
}

// payloadBytesMax is what payload_len can say.
const payloadBytesMax = 1<<32 - 1

// The defaults fit one into the other: an array of negative length does not compile.
var (
	_ [DefaultPacketBytes - DefaultPacketBytesWebSocket]struct{}
	_ [PrefixedPacketBytesMax - DefaultPacketBytes]struct{}
	_ [DefaultPacketBytesWebSocket - HeaderBytes - ExtBytesMax]struct{}
)

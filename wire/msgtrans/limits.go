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
	// Default [DefaultPacketBytes].
	PacketBytes int
	// ExtBytes bounds the ext header. Default [ExtBytesMax].
	ExtBytes int
	// PayloadBytes bounds a payload after decompression. Default
	// [DefaultPayloadBytes].
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
	case int64(l.PacketBytes) > packetBytesCeiling:
		return fmt.Errorf("msgtrans: PacketBytes %d is over the format's %d", l.PacketBytes, int64(packetBytesCeiling))
	case l.ExtBytes < 0 || l.ExtBytes > ExtBytesMax:
		return fmt.Errorf("msgtrans: ExtBytes %d is outside 0..%d", l.ExtBytes, ExtBytesMax)
	case l.PayloadBytes < 0:
		return fmt.Errorf("msgtrans: PayloadBytes %d is negative", l.PayloadBytes)
	}
	return nil
}

const (
	payloadBytesMax    = 1<<32 - 1
	packetBytesCeiling = HeaderBytes + ExtBytesMax + payloadBytesMax
)

// The defaults fit one into the other: an array of negative length does not compile.
var (
	_ [DefaultPacketBytes - DefaultPacketBytesWebSocket]struct{}
	_ [PrefixedPacketBytesMax - DefaultPacketBytes]struct{}
	_ [DefaultPacketBytesWebSocket - HeaderBytes - ExtBytesMax]struct{}
)

package msgtrans

import wire "github.com/mortarmq/mortarmq/wire/msgtrans"

// The packet types, so that a user imports one package.
type (
	// Packet is a packet as it is on the wire.
	Packet = wire.Packet
	// MessageID identifies a OneWay or a Request among those of its sender.
	MessageID = wire.MessageID
	// Type is a packet's type.
	Type = wire.Type
	// Compression names what a payload is compressed with on the wire.
	Compression = wire.Compression
	// Flags are the bits of the header field named reserved.
	Flags = wire.Flags
	// Limits bounds what is accepted from the peer.
	Limits = wire.Limits
)

// The values of the packet types.
const (
	TypeOneWay   = wire.OneWay
	TypeRequest  = wire.Request
	TypeResponse = wire.Response

	None = wire.None
	Zstd = wire.Zstd
	Zlib = wire.Zlib

	HighPriority = wire.HighPriority
	HasRouteTag  = wire.HasRouteTag
)

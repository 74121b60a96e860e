package msgtrans

import "errors"

// What a receiver refuses. Each of them closes the connection: the bytes after
// a bad packet have no known meaning (invariant 2). They come wrapped with the
// value that was found; compare with errors.Is.
var (
	ErrShort         = errors.New("msgtrans: packet is shorter than its header says")
	ErrLong          = errors.New("msgtrans: packet is longer than its header says")
	ErrVersion       = errors.New("msgtrans: unsupported version")
	ErrCompression   = errors.New("msgtrans: unknown compression")
	ErrType          = errors.New("msgtrans: unknown packet_type")
	ErrFragmented    = errors.New("msgtrans: FRAGMENTED is not used by version 1")
	ErrPacketTooLong = errors.New("msgtrans: packet is over the limit")
	ErrExtTooLong    = errors.New("msgtrans: ext header is over the limit")
	// ErrPayloadTooLong says that a payload would decompress to more than the limit.
	ErrPayloadTooLong = errors.New("msgtrans: decompressed payload is over the limit")
	// ErrCorrupt says that a compressed payload does not decompress.
	ErrCorrupt = errors.New("msgtrans: compressed payload is corrupt")
)

// What a sender is told about its own packet; the connection is not harmed.
var (
	// ErrIDZero says that a OneWay or a Request has no message id.
	ErrIDZero = errors.New("msgtrans: message id 0 is never sent")
	// ErrFlags says that a flag is set which version 1 does not define.
	ErrFlags = errors.New("msgtrans: undefined flag")
	// ErrPendingFull says that too many requests wait for their Response.
	ErrPendingFull = errors.New("msgtrans: too many pending requests")
)

// IsLimit reports whether err says that a limit was hit, as against a packet
// that no limit would admit.
func IsLimit(err error) bool {
	return errors.Is(err, ErrPacketTooLong) || errors.Is(err, ErrExtTooLong) ||
		errors.Is(err, ErrPayloadTooLong) || errors.Is(err, ErrPendingFull)
}

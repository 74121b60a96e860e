// Package msgtrans is the pure half of msgtrans version 1: the packet codec,
// the cutting of byte streams into packets, bounded compression, and the
// pairing of Responses with Requests. It reads no clock, starts no goroutine
// and does no I/O; package net/msgtrans drives it over real transports and the
// simulator over simulated byte streams.
//
// # A packet
//
// Three parts, one after the other, without padding; integers are big-endian:
//
//	offset  bytes  field           type    meaning
//	     0      1  version         u8      1, anything else is refused
//	     1      1  compression     u8      0 none, 1 zstd, 2 zlib; of the payload alone
//	     2      1  packet_type     u8      0 OneWay, 1 Request, 2 Response
//	     3      1  biz_type        u8      the application's, passed through
//	     4      4  message_id      u32     of the sender; a Response repeats the Request's
//	     8      2  ext_header_len  u16     bytes of the ext header, never compressed
//	    10      4  payload_len     u32     bytes of the payload as sent, so after compression
//	    14      2  reserved        u16     bit 0 FRAGMENTED, 1 HIGH_PRIORITY, 2 HAS_ROUTE_TAG
//	    16      -  ext header      bytes   ext_header_len of them
//	 16+ext     -  payload         bytes   payload_len of them
//
// WebSocket carries a packet as one binary message. TCP carries packets back
// to back; the header gives the length. QUIC carries them on one stream, each
// behind a u32 that counts the packet's bytes.
//
// # Life of a packet
//
// The sender asks [Pairing] for a message id, lets a [Codec] compress the
// payload if it wants that, and appends the packet to a buffer of its own
// ([Append]). The receiver gives the bytes that it read to a [Stream], or a
// whole message to [Decode], and gets a [Packet] that borrows those bytes; it
// decompresses with a [Codec] and, if the packet is a Response, asks [Pairing]
// who waits for it.
//
// # Invariants
//
//  1. What Decode accepts, Append turns back into the same bytes, except for
//     unknown reserved bits, which are dropped, and message id 0 on a OneWay or
//     a Request, which is accepted and never sent.
//  2. A header is judged before a byte is buffered on its word: a packet over
//     the limit costs its header.
//  3. No call allocates more than twice what it was given plus the limit it was
//     given; encoding into a buffer with room and decoding an uncompressed
//     packet allocate nothing.
//  4. Decompression never yields a byte over its limit, whatever the input claims.
//  5. An id that is pending is not issued again, and 0 is never issued.
//  6. A request leaves the table exactly once: matched, cancelled, expired or
//     rejected by Reset.
//
// # What it does not do
//
// It does not resynchronise: after an error a [Stream] stays failed and its
// connection is to be closed. It does not fragment (FRAGMENTED is refused, as
// version 1 never sends it), does not interpret biz_type or the ext header, and
// keeps no heartbeat: that is a OneWay of the application.
//
// The normative text is the "msgtrans Wire Format" specification, protocol
// version 1; section numbers in comments refer to it.
package msgtrans

//go:generate go run github.com/mortarmq/mortarmq/cmd/msgtrans fixtures --dir testdata

// Package quic moves bytes over one QUIC stream per connection, for those that
// speak a packet format of their own on top.
//
// # Life of a connection
//
// The client dials and opens one bidirectional stream, which the server sees when
// the client has first written to it: until then the server has an [Incoming],
// not a [Conn]. Both ends read and write that stream. CloseWrite ends one
// direction; Close ends the connection with a code.
//
// # Invariants
//
//  1. A connection has exactly one stream. The server admits no second one, the
//     client admits none from the server.
//  2. TLS is mandatory and configured by an ordinary tls.Config. ALPN is what its
//     NextProtos say, so off by default: QUIC refuses an offer that only one end makes.
//  3. A server counts a connection from the first packet of its handshake, and
//     ends the count when the connection or the handshake has ended.
//  4. Where both ends have ended their direction, it is the client that closes, when
//     the server has read everything: a close loses what has not arrived.
//
// # What it does not do
//
// No datagrams, no 0-RTT (a replayed first packet would be a repeated message),
// no migration policy of its own, no reconnecting.
package quic

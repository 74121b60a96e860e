// Package ws moves whole binary messages over WebSocket, for those that speak a
// packet format of their own on top: the msgtrans endpoints and the gateway.
//
// # Life of a connection
//
// [Dial] or [Accept] make the opening handshake, with the subprotocols that the
// caller offers. One goroutine calls Next, one calls Write. Finish sends the
// close frame, and Next still returns what comes before the peer's; a peer that has
// sent its own may be written to until Finish. Fail sends one to a peer that is at
// fault and waits for a moment for the answer; Abort ends everything at once and
// unblocks both.
//
// # Invariants
//
//  1. A message over the limit is refused while it arrives: the buffer grows with
//     the bytes that came, never with the length that was announced.
//  2. Messages written in one call leave in as few system calls as their size
//     allows, each still in a frame of its own. Control frames that the library
//     writes in between are not held back.
//  3. Text messages are read past and counted, never delivered.
//  4. A message is delivered whole or not at all. Next returns io.EOF only behind a
//     regular close frame that stands between messages.
//
// # What it does not do
//
// It does not compress (RFC 7692 is off: msgtrans has its own), sends no pings,
// does not reconnect, and does not look into what it carries.
package ws

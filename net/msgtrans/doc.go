// Package msgtrans connects programs by msgtrans version 1 over TCP, WebSocket
// and QUIC: requests with timeouts from either end, one-way messages, graceful
// close, reconnecting clients, and limits that are enforced. The packet types of
// wire/msgtrans are aliased, so that this is the only package to import.
//
// # Life of a connection
//
// [Listen] and [Dial] make a [Conn] when the transport's handshake is complete
// and the server's Accept hook agrees: EventOpened. From then on both ends may
// call Request and Send, and both get what the other sends through OnRequest and
// OnMessage. A connection ends in one of three ways:
//
//   - Shutdown: no new requests and messages from here, what was accepted is
//     handled and answered, what is queued is written, Responses that are awaited
//     may still come; then the peer is told and given time to close. When the
//     context ends first, the rest is Close. It returns nil only if the peer has
//     taken everything.
//   - Close, a broken transport, a packet that cannot be read, a limit of time:
//     everything pending fails at once with the reason.
//   - The peer's regular end: the same as Shutdown, within DrainTimeout.
//
// EventClosed comes last, after every handler has returned. A [Client] then dials
// again, with backoff; its next connection counts its ids from 1. It gives handlers
// DrainTimeout, as one may just be waiting for that next connection.
//
// # Invariants
//
//  1. A Request ends exactly once: with its Response, or with an error that is
//     [ErrTimeout], [ErrClosed], [ErrRefused], [ErrRemote], [ErrLimit],
//     [ErrInvalid], or the caller's cancellation.
//  2. What Send or Reply accepted (returned nil for) is written unless the
//     connection breaks or is closed hard; it is never dropped for want of room,
//     and what is lost is told by Shutdown.
//  3. A message that was accepted from the peer reaches its handler unless Close
//     was called here. One-way messages are handled in order of arrival, one at a
//     time; HIGH_PRIORITY ones may overtake others on their way.
//  4. Nothing grows without a limit: connections, handshakes, packets, pending
//     requests, both queues by count and by bytes, handlers. A full queue makes
//     the sender wait, and a full inbound queue stops reading.
//  5. Handlers and callbacks run without any lock of this package.
//  6. A place of a server is taken from the first sign of a connection until its
//     socket is closed and its last handler has returned. Everything before
//     EventOpened takes HandshakeTimeout at most.
//
// # What it does not do
//
// It does not repeat a request, as it cannot know whether the peer has acted on
// it. It has no heartbeat: send a OneWay of your own where idle connections are
// to live. It does not route by biz_type. It does not recover from a handler's panic,
// which ends the process like that of any goroutine: what the handler held is in no
// known state, and only the application can tell whether that matters.
package msgtrans

// Package net is the contract between the broker (or a client core) and its
// byte streams: events in, requests out.
//
// The life of a connection: a listener or a Dial makes it, EventOpened names
// it, EventBytes brings what arrived in pieces cut anywhere, requests send and
// finally close it, EventClosed ends it. A request never blocks and never
// fails on the spot.
//
// Invariants that every implementation keeps (package nettest checks them on
// the real one and on the simulator's):
//
//  1. Events of one connection come in order: Opened (or Closed alone, when a
//     dial failed), then Bytes and Progress, then exactly one Closed. Nothing
//     follows Closed; a ConnID is never used again.
//
//  2. Bytes arrive as sent: in order, none lost, doubled or invented before
//     the stream's end, however they are cut.
//
//  3. The Data of an event is borrowed until the turn that it is handed to has
//     ended. The Data of a request is borrowed until the submission returns;
//     what could not be written at once was copied by then.
//
//  4. Requests for a connection that is closed, or never was, do nothing.
//
//  5. Send after Close does nothing, and so does Send before Opened. Close
//     flushes what was sent before (while bytes move: a peer that takes none for
//     FlushMillis is reset), then half-closes, takes in and throws away what the peer still
//     sends for at most DrainMillis, and closes; the cause is CauseLocal, and no
//     Bytes arrive from the Close on. Abort closes at once and the peer sees a
//     reset. Both also end a dial that is under way.
//
//  6. After PauseRead no further Bytes come, but for at most ReadAheadBytes that
//     were read already, until ResumeRead; the peer feels it as back-pressure.
//     The end of the stream may wait for ResumeRead too.
//
//  7. When a Send could not be written at once, EventProgress tells how many
//     bytes are still queued, then and each time the number falls, with 0 at
//     the end. The same number again says that the peer took bytes which were
//     written before. However slowly a peer reads, whoever waits for it learns
//     of each step within ProgressMillis: silence means that nothing moves.
//
//  8. A stream that the peer ended is closed as a whole: what it sent comes
//     first, then Closed with CauseEOF, and what was still queued is dropped.
//
// It does not frame, encrypt or authenticate.
package net

// ConnID names a connection for the life of its process: never reused.
type ConnID uint64

// FirstAccepted begins the ConnIDs that a Network gives to accepted connections.
// Those below it, 0 excepted, are for Dial's callers to choose.
const FirstAccepted ConnID = 1 << 63

// Plane says which listener a connection came from.
type Plane uint8

// The planes.
const (
	PlaneClient Plane = iota
	PlanePeer
	PlaneDialed
)

// DrainMillis bounds how long Close waits for the peer's end of stream,
// FlushMillis how long it goes on trying to write before that while the peer takes
// nothing. ProgressMillis is how old the news of a peer's reading may be.
const (
	DrainMillis    = 1000
	FlushMillis    = 30000
	ProgressMillis = 500
)

// ReadAheadBytes bounds what is read of one connection and not polled yet, give
// or take one read.
const ReadAheadBytes = 256 << 10

// EventKind says what happened.
type EventKind uint8

// The kinds of event.
const (
	EventInvalid EventKind = iota
	EventOpened
	EventBytes
	EventProgress
	EventClosed
)

// Cause says why a connection ended.
type Cause uint8

// The causes.
const (
	// CauseLocal: this side asked for it.
	CauseLocal Cause = iota
	// CauseEOF: the peer ended its stream. Nothing can be sent any more.
	CauseEOF
	// CauseReset: the connection broke.
	CauseReset
	// CauseRefused: a dial found nobody.
	CauseRefused
)

// Event is one thing that happened to a connection.
type Event struct {
	Kind   EventKind
	Conn   ConnID
	Plane  Plane
	Cause  Cause
	Remote string // Opened: the peer's address as text
	Data   []byte // Bytes: borrowed until the turn has ended
	Queued int    // Progress: bytes accepted by Send and not yet written
}

// RequestKind says what is asked.
type RequestKind uint8

// The kinds of request.
const (
	RequestInvalid RequestKind = iota
	// RequestDial opens a connection to Addr under the ConnID that the caller
	// chose (client cores and the peer plane; unique in the process).
	RequestDial
	RequestSend
	RequestClose
	RequestAbort
	RequestPauseRead
	RequestResumeRead
)

// Request is one thing asked of a connection.
type Request struct {
	Kind RequestKind
	Conn ConnID
	Data []byte // Send: borrowed until the submission returns
	Addr string // Dial: HOST:PORT
}

// Network is a submission queue for byte streams. One goroutine at a time submits
// and polls.
type Network interface {
	// Submit carries out or queues the requests, in order.
	Submit(reqs []Request)
	// Poll appends to into what has happened since the last call and returns
	// it, of Bytes at most budget bytes (at least one event when there is any).
	// The events' Data stays valid until the next Poll.
	Poll(into []Event, budget int) []Event
}

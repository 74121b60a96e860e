package msgtrans

import (
	"crypto/tls"
	stdnet "net"
	"net/http"
	"net/url"
	"time"
)

// EventKind says what happened to a connection.
type EventKind uint8

// The events of a connection's life, in this order.
const (
	// EventRefused: a server's handshake failed, or was refused, for the reason Err.
	// There is no Conn.
	EventRefused EventKind = iota + 1
	// EventOpened comes before the first message of the connection.
	EventOpened
	// EventDraining: Shutdown was called, or the peer has ended its side.
	EventDraining
	// EventClosed comes after every handler has returned. Err says why.
	EventClosed
	// EventReconnecting: a client will dial again after Delay; it is attempt Attempt.
	// Err is what the last one failed with, or why the connection ended.
	EventReconnecting
)

func (k EventKind) String() string {
	switch k {
	case EventRefused:
		return "refused"
	case EventOpened:
		return "opened"
	case EventDraining:
		return "draining"
	case EventClosed:
		return "closed"
	case EventReconnecting:
		return "reconnecting"
	}
	return "?"
}

// Event is one step of a connection's life.
type Event struct {
	Kind    EventKind
	Conn    *Conn // nil for EventRefused
	Peer    *Peer
	Err     error
	Attempt int
	Delay   time.Duration
}

// Peer is what is known of the other end.
type Peer struct {
	Transport     Transport
	Local, Remote stdnet.Addr
	// TLS is nil without TLS.
	TLS *tls.ConnectionState
	// URL and Header are those of a WebSocket handshake at the server.
	URL    *url.URL
	Header http.Header
	// First is the first packet of a connection over TCP or QUIC, for the Accept hook
	// alone: it is borrowed, and its payload is as it came.
	First *Packet
}

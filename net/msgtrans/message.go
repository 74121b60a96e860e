package msgtrans

import (
	"context"
	"errors"

	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// Message is what a program sends and gets: a packet without its place in the
// protocol. What is sent is borrowed until the call returns. A Response belongs to
// the caller of Request; what a handler gets is borrowed until it returns.
type Message struct {
	// ID is set on receipt. A sender's is given by its connection.
	ID MessageID
	// Biz is the application's biz_type.
	Biz uint8
	// Flags may hold HighPriority, which lets the packet overtake others in the send
	// queue, and HasRouteTag.
	Flags Flags
	// Compression is what to compress the payload with, and on receipt what it came
	// compressed with. Payload itself is never compressed here.
	Compression Compression
	// Ext is the ext header, at most Limits.ExtBytes.
	Ext     []byte
	Payload []byte
}

// Request is a Request of the peer, to be answered at most once. It is a handle:
// copies are the same request.
//
// Ext and Payload are borrowed until the handler has returned, or, after Hold, until
// the request is over, whichever is later. Then the buffer serves another message.
type Request struct {
	Message
	conn *Conn
	in   *inbound // serves another connection when the request is over
	turn uint32
}

var errAnswered = &Error{Op: "reply", Kind: ErrInvalid, Cause: errors.New("the request has been answered or given up")}

// Conn is where the request came from, also when it is over.
func (r Request) Conn() *Conn { return r.conn }

// Reply answers the request, waiting for room in the send queue until ctx ends.
// After an error other than "answered already", which is an ErrInvalid, the request
// is not answered, and Reply may be called again.
func (r Request) Reply(ctx context.Context, m Message) error {
	was, ok := r.in.enter(r.turn)
	if !ok {
		return errAnswered
	}
	p := m.packet(wire.Response)
	p.ID = r.ID
	if err := r.conn.send(ctx, "reply", &p, m.Compression, nil); err != nil {
		r.in.leave(r.turn, was)
		return err
	}
	r.in.over(r.turn)
	return nil
}

// Hold keeps the request open after its handler has returned: it can be answered
// later, counts as accepted, and a graceful close waits for it. Somebody must call
// Reply or Release.
func (r Request) Hold() { r.in.hold(r.turn) }

// Release gives a request up without an answer: the peer will run into its timeout.
func (r Request) Release() {
	if _, ok := r.in.enter(r.turn); ok {
		r.conn.stats.unanswered.Add(1)
		r.in.over(r.turn)
	}
}

// packet returns m as a packet of type t whose payload is not yet compressed.
func (m *Message) packet(t Type) Packet {
	return Packet{Compression: m.Compression, Type: t, Biz: m.Biz, Flags: m.Flags, Ext: m.Ext, Payload: m.Payload}
}

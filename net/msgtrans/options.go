package msgtrans

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// Defaults of what Limits does not hold.
const (
	DefaultRequestTimeout   = 10 * time.Second
	DefaultHandshakeTimeout = 10 * time.Second
	DefaultIdleTimeout      = 300 * time.Second
	DefaultDrainTimeout     = 10 * time.Second
	DefaultSendPackets      = 1024
	DefaultSendBytes        = 16 << 20
	DefaultInboundPackets   = 1024
	DefaultInboundBytes     = 16 << 20
	DefaultHandlersMax      = 256
	DefaultConnsMax         = 10000
	// Subprotocol is what selects msgtrans on WebSocket.
	Subprotocol = "msgtrans.v1"
)

// Options is what servers and clients share. The zero value works: every field
// that is zero stands for its default.
type Options struct {
	// TLS is used by the transports tcps, wss and quic. Its NextProtos are the ALPN
	// of QUIC alone: none by default, as one that only one end offers is refused.
	TLS *tls.Config

	// OnRequest handles a Request; it answers with r.Reply, now or after r.Hold
	// later. Up to HandlersMax run at the same time. Without it Requests are
	// dropped and counted. ctx ends with the connection.
	OnRequest func(ctx context.Context, r Request)
	// OnMessage handles a OneWay, in order of arrival, one at a time. Without it
	// messages are dropped and counted. ctx ends when the connection is closed hard.
	OnMessage func(ctx context.Context, c *Conn, m Message)
	// OnEvent hears of a connection's life. It must not block. Like in a handler, a panic
	// in it ends the process.
	OnEvent func(Event)
	// Serial gives Requests the same treatment as messages: all handlers of a
	// connection run one at a time in order of arrival.
	Serial bool

	// Limits bounds what is accepted, in bytes. PacketBytes, which also bounds what
	// is sent, is 16 MiB by default, 1 MiB on WebSocket, and at most 16 MiB on QUIC.
	Limits Limits
	// PendingMax bounds the requests that wait for their Response on a connection; one
	// more fails with ErrLimit. Default 1024.
	PendingMax int
	// RequestTimeout bounds a request whose context has no earlier deadline, from the
	// call to the Response: the waits for a connection and for room in the send queue are
	// part of it. Default 10 s.
	RequestTimeout time.Duration
	// HandshakeTimeout bounds the transport's handshake, the Accept hook and the first
	// packet that it wants to see. Default 10 s.
	HandshakeTimeout time.Duration
	// IdleTimeout closes a connection on which no whole packet has come, and no byte
	// could be written, for that long, at the latest after a quarter more. Default 300 s.
	IdleTimeout time.Duration
	// DrainTimeout bounds how long a connection that the peer has ended goes on
	// answering what it had accepted, and what Shutdown waits for the peer's end.
	// Default 10 s.
	DrainTimeout time.Duration
	// SendPackets and SendBytes bound the packets that are queued or being written. A
	// sender waits for room until its context ends, a request also at most for
	// RequestTimeout, in the order of arrival; a packet over SendBytes waits for the queue
	// to be empty. Defaults 1024 and 16 MiB.
	SendPackets int
	SendBytes   int
	// InboundPackets and InboundBytes bound what was accepted and is not yet handled;
	// a held Request counts until it is answered. Reading stops until there is room.
	// Defaults 1024 and 16 MiB.
	InboundPackets int
	InboundBytes   int
	// HandlersMax bounds the OnRequest calls at the same time, per connection. Default 256.
	HandlersMax int
}

func orDefault[T int | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

func (o Options) withDefaults() Options {
	orDefault(&o.PendingMax, wire.DefaultPendingRequests)
	orDefault(&o.RequestTimeout, DefaultRequestTimeout)
	orDefault(&o.HandshakeTimeout, DefaultHandshakeTimeout)
	orDefault(&o.IdleTimeout, DefaultIdleTimeout)
	orDefault(&o.DrainTimeout, DefaultDrainTimeout)
	orDefault(&o.SendPackets, DefaultSendPackets)
	orDefault(&o.SendBytes, DefaultSendBytes)
	orDefault(&o.InboundPackets, DefaultInboundPackets)
	orDefault(&o.InboundBytes, DefaultInboundBytes)
	orDefault(&o.HandlersMax, DefaultHandlersMax)
	return o
}

// Validate reports the first option that cannot be kept.
func (o *Options) Validate() error {
	if err := o.Limits.Validate(); err != nil {
		return err
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"PendingMax", int64(o.PendingMax)},
		{"RequestTimeout", int64(o.RequestTimeout)},
		{"HandshakeTimeout", int64(o.HandshakeTimeout)},
		{"IdleTimeout", int64(o.IdleTimeout)},
		{"DrainTimeout", int64(o.DrainTimeout)},
		{"SendPackets", int64(o.SendPackets)},
		{"SendBytes", int64(o.SendBytes)},
		{"InboundPackets", int64(o.InboundPackets)},
		{"InboundBytes", int64(o.InboundBytes)},
		{"HandlersMax", int64(o.HandlersMax)},
	} {
		if f.value < 0 {
			return fmt.Errorf("msgtrans: %s is negative", f.name)
		}
	}
	return nil
}

// ServerOptions is how a server serves.
type ServerOptions struct {
	Options
	// Accept may refuse a connection by returning an error. Over TCP and QUIC it is
	// called when the first packet has come, so with it a client has HandshakeTimeout
	// to send one; over WebSocket it is called before the upgrade.
	Accept func(ctx context.Context, p *Peer) error
	// ConnsMax bounds the connections, handshakes included. Default 10 000.
	ConnsMax int
	// Origins lists hosts, as patterns of path.Match, whose pages may connect by
	// WebSocket beside those of the server's own host. "*" admits every page.
	Origins []string
}

// Validate reports the first option that cannot be kept.
func (o *ServerOptions) Validate() error {
	if err := o.Options.Validate(); err != nil {
		return err
	}
	if o.ConnsMax < 0 {
		return errors.New("msgtrans: ConnsMax is negative")
	}
	for _, pattern := range o.Origins {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("msgtrans: Origins: %q: %w", pattern, err)
		}
	}
	return nil
}

// ClientOptions is how a client connects.
type ClientOptions struct {
	Options
	// Reconnect says how to dial again when a connection has ended.
	Reconnect Backoff
}

// Validate reports the first option that cannot be kept.
func (o *ClientOptions) Validate() error {
	if err := o.Options.Validate(); err != nil {
		return err
	}
	return o.Reconnect.Validate()
}

// settings is Options with the defaults filled in, for one transport.
type settings struct {
	Options
	limits    wire.Limits
	transport Transport
	codecs    *codecPool
	calls     sync.Pool // of *call
	batches   sync.Pool // of *batch
}

// settingsFor resolves o, which has its defaults, for t.
func (o Options) settingsFor(t Transport) *settings {
	s := &settings{Options: o, transport: t, limits: o.Limits}
	if s.limits.PacketBytes == 0 && t.webSocket() {
		s.limits.PacketBytes = wire.DefaultPacketBytesWebSocket
	}
	s.limits = s.limits.WithDefaults()
	if t == QUIC {
		s.limits.PacketBytes = min(s.limits.PacketBytes, wire.PrefixedPacketBytesMax)
	}
	s.calls.New, s.batches.New = newCall, newBatch
	s.codecs = newCodecPool(s.limits.PayloadBytes)
	return s
}

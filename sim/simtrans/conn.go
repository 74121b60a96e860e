package simtrans

import (
	"slices"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// owed is a request that was accepted and is to be answered.
type owed struct {
	id    wire.MessageID
	about Tag
	at    clock.Instant
	times int
}

// conn is one end of a connection.
//
// Invariants: owed holds at most owedMax requests more than when reading was paused;
// out is sent when the turn ends.
type conn struct {
	id      net.ConnID
	plane   net.Plane
	line    *line // that dialled it, nil if it was accepted
	sworn   *sworn
	cutter  Cutter
	table   Table
	ignored uint64 // what the table had dropped before this connection
	owed    []owed
	out     []byte
	queued  int // bytes that wait in the network, as of its last word
	unsaid  int // bytes sent since it had the chance to say something
	paused  bool
	ended   bool // closed here
	heardAt clock.Instant
	beatAt  clock.Instant
}

// line is a peer that an endpoint keeps a connection to. Its table serves one
// connection after the other.
type line struct {
	addr     string
	table    Table
	conn     *conn
	redialAt clock.Instant
}

func framingOf(addr string) wire.Framing {
	if addr[len(addr)-1] == '2' {
		return wire.Prefixed
	}
	return wire.Bare
}

// framing follows from the port, which the dialling end knows by its address and the
// accepting one by its plane.
func (c *conn) framing() wire.Framing {
	if c.line != nil {
		return framingOf(c.line.addr)
	}
	if c.plane == net.PlaneClient {
		return wire.Prefixed
	}
	return wire.Bare
}

// room reports whether more may be sent.
func (c *conn) room() bool {
	return c.sworn != nil && !c.ended && c.queued+c.unsaid+len(c.out) < sendBytesMax
}

// usable reports whether requests and messages may be sent.
func (c *conn) usable() bool { return c.room() && !c.sworn.orderly }

// dueAt is the earliest instant at which the connection wants a turn.
func (c *conn) dueAt() clock.Instant {
	if c.sworn == nil || c.ended {
		return clock.Never
	}
	at := min(c.heardAt.Add(idleMax), c.beatAt)
	if d, ok := c.table.Deadline(); ok {
		at = min(at, clock.Instant(d))
	}
	if !c.room() {
		return at // progress gives a turn
	}
	for i := range c.owed {
		at = min(at, c.owed[i].at)
	}
	return at
}

// takeOwed removes and returns a request whose answer is due.
func (c *conn) takeOwed(now clock.Instant) (owed, bool) {
	i := slices.IndexFunc(c.owed, func(o owed) bool { return o.at <= now })
	if i < 0 {
		return owed{}, false
	}
	o := c.owed[i]
	c.owed = slices.Delete(c.owed, i, i+1)
	return o, true
}

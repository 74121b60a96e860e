package simtrans

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// streamKeepBytes is what an empty stream may keep, whatever its limits.
const streamKeepBytes = 128 << 10

// arrived gives the cutter what came, in pieces cut anywhere.
func (e *endpoint) arrived(c *conn, data []byte) {
	for len(data) > 0 && !c.ended {
		space := c.cutter.Space()
		e.measure(c, len(space))
		n := min(len(data), len(space))
		if n > 1 && e.chance.Bool(100) {
			n = 1 + e.chance.Intn(n)
		}
		copy(space, data[:n])
		data = data[n:]
		c.cutter.Filled(n)
		e.packets(c)
	}
}

// measure holds the memory of c against what is stated.
func (e *endpoint) measure(c *conn, space int) {
	switch held := c.cutter.Buffered(); {
	case held > packetBytes+wire.PrefixBytes:
		e.judge.fail("memory", "conn %d: %d bytes wait for the rest of a packet, which has at most %d", c.sworn.serial, held, packetBytes)
	case held+space > max(2*held, streamKeepBytes):
		e.judge.fail("memory", "conn %d: a buffer of %d for %d bytes", c.sworn.serial, held+space, held)
	case len(c.owed) > e.knobs.owedMax+net.ReadAheadBytes/wire.HeaderBytes:
		e.judge.fail("memory", "conn %d: %d requests are owed an answer", c.sworn.serial, len(c.owed))
	case c.table.Len() > e.knobs.pendingMax:
		e.judge.fail("memory", "conn %d: %d requests are pending, at most %d may", c.sworn.serial, c.table.Len(), e.knobs.pendingMax)
	case c.table.Len() != len(c.sworn.waiting):
		e.judge.fail("once", "conn %d: %d requests are pending instead of %d", c.sworn.serial, c.table.Len(), len(c.sworn.waiting))
	}
}

// packets takes the packets that are whole.
func (e *endpoint) packets(c *conn) {
	for !c.ended {
		var p wire.Packet
		ok, err := c.cutter.Next(&p)
		if err != nil {
			e.refuse(c, err)
			return
		}
		if !ok {
			return
		}
		payload, err := e.codec.Decompress(e.scratch[:0], p.Payload, p.Compression)
		if err != nil {
			e.refuse(c, err)
			return
		}
		e.scratch = payload
		if len(payload) > payloadBytes {
			e.judge.fail("memory", "a payload of %d bytes, at most %d are allowed", len(payload), payloadBytes)
		}
		c.heardAt = e.now
		e.packet(c, &p, payload)
	}
}

// refuse closes a connection whose peer sent what cannot be read.
func (e *endpoint) refuse(c *conn, err error) {
	e.judge.refusal(c.sworn, err)
	e.end(c, net.RequestAbort)
}

func (e *endpoint) packet(c *conn, p *wire.Packet, payload []byte) {
	i, believed := e.judge.accepted(c.sworn, p, payload)
	switch p.Type {
	case wire.OneWay:
		if believed {
			e.judge.message(c.sworn, i)
		}
	case wire.Request:
		if believed && i.kind != kindRequest {
			e.judge.fail("order", "conn %d: a request that is none: %c", c.sworn.serial, i.kind)
		}
		e.owe(c, p.ID, i.tag)
	case wire.Response:
		tag, matched := c.table.Match(p.ID)
		e.judge.response(c.sworn, p.ID, tag, matched)
		if !matched {
			return
		}
		if believed {
			e.judge.answer(c.sworn, i, tag)
		}
		e.judge.ended(c.sworn, tag, p.ID, answered)
	}
}

// owe plans the answer to a request as the endpoint's manners are: at once, late,
// twice, never, or under a foreign id.
func (e *endpoint) owe(c *conn, id wire.MessageID, tag Tag) {
	o := owed{id: id, about: tag, at: e.now, times: 1}
	k := e.knobs
	if !e.honest {
		if e.chance.Bool(400) {
			o.at = o.at.Add(clock.Duration(e.chance.Range(0, int64(50*clock.Millisecond))))
		}
		if e.chance.Bool(k.late) {
			o.at = o.at.Add(clock.Duration(e.chance.Range(0, int64(2*patienceMax))))
		}
		if e.chance.Bool(k.double) {
			o.times = 2 + e.chance.Intn(2)
		}
		if e.chance.Bool(k.never) {
			o.times = 0
		}
	}
	c.owed = append(c.owed, o)
	if !c.paused && len(c.owed) >= k.owedMax {
		c.paused = true
		e.judge.mark("reading was paused")
		e.submit = append(e.submit, net.Request{Kind: net.RequestPauseRead, Conn: c.id})
	}
}

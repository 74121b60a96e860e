package simtrans

import (
	"errors"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// request asks something of the peer.
func (e *endpoint) request(c *conn) {
	deadline := e.now.Add(clock.Duration(e.chance.Range(1, int64(patienceMax))))
	if e.honest {
		deadline = e.now.Add(patienceMax)
	}
	tag, full := e.judge.nextTag(), c.table.Len() >= e.knobs.pendingMax
	id, err := c.table.Begin(wire.Instant(deadline), tag)
	if full || err != nil {
		if !full || !errors.Is(err, wire.ErrPendingFull) {
			e.judge.fail("memory", "conn %d: %d requests are pending of at most %d: %v", c.sworn.serial, c.table.Len(), e.knobs.pendingMax, err)
		}
		e.judge.mark("a request too many")
		return
	}
	e.judge.began(c.sworn, tag, id, deadline)
	e.send(c, identity{kindRequest, c.sworn.serial, tag}, wire.Request, id)
}

// message sends the next message of the connection.
func (e *endpoint) message(c *conn) {
	id := c.table.OneWay()
	e.judge.issued(c.sworn, id)
	n := c.sworn.sent
	c.sworn.sent++
	e.send(c, identity{kindMessage, c.sworn.serial, n}, wire.OneWay, id)
}

// answer sends what a request is owed.
func (e *endpoint) answer(c *conn, o owed) {
	for range o.times {
		e.send(c, identity{kindAnswer, c.sworn.serial, o.about}, wire.Response, o.id)
	}
	if !e.honest && e.chance.Bool(e.knobs.foreign) {
		// Half of all ids away, so that it is never pending.
		e.send(c, identity{kindForeign, c.sworn.serial, o.about}, wire.Response, o.id^1<<31)
	}
}

// cancel gives up a request.
func (e *endpoint) cancel(c *conn) {
	if len(c.sworn.waiting) == 0 {
		return
	}
	at, _ := c.table.Deadline()
	for tag := len(e.judge.asked) - 1; tag >= 0; tag-- {
		a := &e.judge.asked[tag]
		if a.on != c.sworn || a.end != pending || e.chance.Bool(500) && wire.Instant(a.deadline) != at {
			continue
		}
		got, ok := c.table.Cancel(a.id)
		if !ok || got != Tag(tag) {
			e.judge.fail("pairing", "conn %d: request %d could not be cancelled", c.sworn.serial, tag)
		}
		e.judge.ended(c.sworn, got, a.id, cancelled)
		return
	}
}

// age makes the ids of the connection go on shortly before their wrap.
func (e *endpoint) age(c *conn) {
	last := wire.MessageID(1<<32 - 1 - e.chance.Intn(4))
	c.table.ContinueAfter(last)
	c.sworn.last = last
}

// build returns a packet as the endpoint would send it.
func (e *endpoint) build(i identity, t wire.Type, id wire.MessageID) wire.Packet {
	p := wire.Packet{Type: t, Biz: i.biz(), ID: id, Flags: wire.HasRouteTag, Ext: i.ext(), Payload: i.payload()}
	if e.chance.Bool(200) {
		p.Flags |= wire.HighPriority
	}
	if !e.chance.Bool(e.knobs.compress) {
		return p
	}
	with := wire.Zstd
	if e.chance.Bool(500) {
		with = wire.Zlib
	}
	b, err := e.codec.Compress(nil, p.Payload, with)
	if err != nil {
		e.judge.fail("own", "compressing failed: %v", err)
		return p
	}
	p.Payload, p.Compression = b, with
	e.judge.mark("compressed by " + with.String())
	return p
}

func (e *endpoint) send(c *conn, i identity, t wire.Type, id wire.MessageID) {
	p := e.build(i, t, id)
	e.append(c, &p)
}

// append puts p behind what is sent when the turn ends, and returns where it begins.
func (e *endpoint) append(c *conn, p *wire.Packet) (at int) {
	at = len(c.out)
	out, err := wire.Append(c.out, p, c.framing())
	if err != nil {
		e.judge.fail("own", "a packet cannot be sent: %v", err)
		return at
	}
	c.out = out
	c.sworn.packets++
	return at
}

// damage sends a packet that the peer has to close the connection for.
func (e *endpoint) damage(c *conn) {
	c.sworn.damagedAt = c.sworn.packets
	i := identity{kindDamaged, c.sworn.serial, 0}
	p := e.build(i, wire.OneWay, 1)
	what := e.chance.Intn(6)
	if what == 5 {
		b, err := e.codec.Compress(nil, append(i.payload(), 1), wire.Zlib)
		if err != nil {
			e.judge.fail("own", "compressing failed: %v", err)
			return
		}
		p.Compression, p.Payload = wire.Zlib, b
	}
	head := e.append(c, &p)
	if c.framing() == wire.Prefixed {
		head += wire.PrefixBytes
	}
	switch b := c.out[head:]; what {
	case 0:
		b[0] ^= 1 << e.chance.Intn(8) // version
	case 1:
		b[1] = byte(e.chance.Range(3, 255)) // compression
	case 2:
		b[2] = byte(e.chance.Range(3, 255)) // packet_type
	case 3:
		b[15] |= 1 // FRAGMENTED
	case 4:
		b[10] |= 0x80 >> e.chance.Intn(8) // payload_len, over any limit
	case 5:
		b[len(b)-1] ^= 1 << e.chance.Intn(8) // the checksum behind a zlib stream
	}
	e.judge.mark("a packet was damaged")
}

// bomb sends a packet that decompresses to more than the limit.
func (e *endpoint) bomb(c *conn) {
	c.sworn.damagedAt = c.sworn.packets
	p := e.build(identity{kindDamaged, c.sworn.serial, 0}, wire.OneWay, 1)
	p.Compression = wire.Compression(e.chance.Range(int64(wire.Zstd), int64(wire.Zlib)))
	b, err := e.codec.Compress(nil, make([]byte, bombBytes), p.Compression)
	if err != nil {
		e.judge.fail("own", "compressing failed: %v", err)
		return
	}
	p.Payload = b
	e.append(c, &p)
	e.judge.mark("a bomb was sent")
}

// flip changes any bit of what is about to be sent: not everybody can notice that.
func (e *endpoint) flip(c *conn) {
	e.message(c)
	c.out[e.chance.Intn(len(c.out))] ^= 1 << e.chance.Intn(8)
	c.sworn.tainted, c.sworn.peer.tainted = true, true
	e.judge.mark("a bit was flipped")
}

// half sends a part of a packet and dies, or closes as if nothing were missing.
func (e *endpoint) half(c *conn) {
	p := e.build(identity{kindDamaged, c.sworn.serial, 0}, wire.OneWay, 1)
	at := len(c.out)
	out, err := wire.Append(c.out, &p, c.framing())
	if err != nil {
		e.judge.fail("own", "a packet cannot be sent: %v", err)
		return
	}
	c.out = out[:at+1+e.chance.Intn(len(out)-at-1)]
	how := net.RequestClose
	if e.chance.Bool(500) {
		how = net.RequestAbort
	}
	e.end(c, how)
}

package simnet

import "github.com/mortarmq/mortarmq/net"

// receive takes in a packet.
func (e *endpoint) receive(k packet) {
	switch k.kind {
	case packetAccept:
		e.open(e.link.addr)
	case packetRefuse:
		e.finish(net.CauseRefused)
	case packetReset:
		e.reset()
	case packetData:
		if e.muted {
			e.in().acknowledge(len(k.data))
			return
		}
		e.arrived.push(k.data)
		e.read()
	case packetEnd:
		e.peerEnded = true
		e.read()
	}
}

// reset ends the connection as broken. What lies in the buffer is read or lost.
func (e *endpoint) reset() {
	switch {
	case !e.opened:
		e.finish(net.CauseRefused)
		return
	case e.closing:
		e.finish(net.CauseLocal)
		return
	}
	if !e.paused {
		keep := e.host.world.rand.Intn(e.arrived.len() + 1)
		for _, b := range e.arrived.all()[:keep] {
			e.postBytes(b)
		}
	}
	e.finish(net.CauseReset)
}

// read moves the buffer into the inbox, unless reading is paused or far ahead, and
// acts on the stream's end when it has come to it.
func (e *endpoint) read() {
	for e.arrived.len() > 0 && !e.paused && e.unpolled <= net.ReadAheadBytes {
		e.postBytes(e.arrived.pop())
	}
	if !e.peerEnded || e.arrived.len() > 0 || e.paused && !e.closing {
		return
	}
	switch {
	case !e.closing:
		e.out().send(packetEnd, nil)
		e.finish(net.CauseEOF)
	case e.ended:
		e.finish(net.CauseLocal)
	}
}

func (e *endpoint) postBytes(b []byte) {
	e.unpolled += len(b)
	e.post(net.Event{Kind: net.EventBytes, Data: b})
}

// discard throws away what was not read and will not be.
func (e *endpoint) discard() {
	e.muted = true
	n := 0
	for _, b := range e.arrived.all() {
		n += len(b)
	}
	e.arrived.cut(0)
	if n > 0 {
		e.in().acknowledge(n)
	}
	e.read()
}

// polled tells that n bytes were handed out.
func (e *endpoint) polled(n int) {
	e.unpolled -= n
	e.in().acknowledge(n)
	if !e.done {
		e.read()
	}
}

// pause stops or resumes reading.
func (e *endpoint) pause(on bool) {
	if e.done {
		return
	}
	if e.paused = on; !on {
		e.read()
	}
}

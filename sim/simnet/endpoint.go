package simnet

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
)

// endpoint is one end of a connection as its host's process has it.
type endpoint struct {
	host  *Host
	link  *link
	side  int
	id    net.ConnID
	plane net.Plane
	place int // in Host.order

	opened    bool // both ends are there
	known     bool // Opened was polled
	paused    bool
	closing   bool // Close was asked for
	ended     bool // this side's stream has its end
	peerEnded bool
	muted     bool // its bytes are not wanted any more
	done      bool

	queue      fifo[[]byte] // accepted and not in the window
	queued     int
	arrived    fifo[[]byte] // the receiver's buffer
	unpolled   int          // bytes in the host's inbox
	generation uint32       // of the timer that counts
}

func (e *endpoint) out() *pipe { return e.link.pipes[e.side] }
func (e *endpoint) in() *pipe  { return e.link.pipes[1-e.side] }

func (e *endpoint) post(ev net.Event) {
	ev.Conn, ev.Plane = e.id, e.plane
	e.host.inbox = append(e.host.inbox, posted{Event: ev, endpoint: e})
}

// patience starts the endpoint's timer anew.
func (e *endpoint) patience(d clock.Duration) {
	e.generation++
	w := e.host.world
	w.agenda.push(item{at: w.now.Add(d), endpoint: e, generation: e.generation})
}

// timeUp ends a dial that nobody answered, a flush that nobody read, a drain.
func (e *endpoint) timeUp(generation uint32) {
	switch {
	case e.done || generation != e.generation:
	case !e.opened:
		e.finish(net.CauseRefused)
	case e.closing && !e.ended:
		e.abort()
	default:
		e.finish(net.CauseLocal)
	}
}

// open posts Opened.
func (e *endpoint) open(remote string) {
	e.opened = true
	e.generation++
	e.host.world.observe("opened", e.host, nil, e.id, 0)
	e.post(net.Event{Kind: net.EventOpened, Remote: remote})
}

// send accepts data.
func (e *endpoint) send(data []byte) {
	if len(data) == 0 || !e.known || e.closing || e.done {
		return
	}
	e.queue.push(append([]byte(nil), data...))
	e.queued += len(data)
	waited := e.queued > len(data)
	e.fill()
	if e.queued > 0 || waited {
		e.post(net.Event{Kind: net.EventProgress, Queued: e.queued})
	}
}

// pump goes on after the window has moved.
func (e *endpoint) pump() {
	before := e.queued
	e.fill()
	if e.queued < before && !e.done {
		e.post(net.Event{Kind: net.EventProgress, Queued: e.queued})
		if e.closing && e.queued > 0 {
			e.patience(net.FlushMillis * clock.Millisecond)
		}
	}
	e.endStream()
}

// fill moves the queue into the window, in pieces. It waits for a quarter of the
// window, or small acknowledgements would make small packets for ever.
func (e *endpoint) fill() {
	p, w := e.out(), e.host.world
	for e.queue.len() > 0 {
		space := w.options.WindowBytes - p.inWindow
		if space <= 0 || space < min(w.options.WindowBytes/4, e.queued) {
			return
		}
		first := e.queue.first()
		n := w.piece(min(space, len(*first)))
		p.inWindow += n
		e.queued -= n
		p.send(packetData, (*first)[:n:n])
		if *first = (*first)[n:]; len(*first) == 0 {
			e.queue.pop()
		}
	}
}

// close begins the orderly end.
func (e *endpoint) close() {
	if !e.opened {
		e.finish(net.CauseLocal)
		return
	}
	if e.closing || e.done {
		return
	}
	e.closing = true
	e.discard()
	if !e.done {
		e.patience(net.FlushMillis * clock.Millisecond)
		e.endStream()
	}
}

// endStream sends the stream's end behind the queue, when Close was asked for.
func (e *endpoint) endStream() {
	if !e.closing || e.ended || e.done || e.queued > 0 {
		return
	}
	e.ended = true
	e.out().send(packetEnd, nil)
	if e.peerEnded {
		e.finish(net.CauseLocal)
		return
	}
	e.patience(net.DrainMillis * clock.Millisecond)
}

// abort resets the connection.
func (e *endpoint) abort() {
	if e.done {
		return
	}
	e.out().cutOff()
	e.out().send(packetReset, nil)
	e.finish(net.CauseLocal)
}

// finish ends the connection for this host.
func (e *endpoint) finish(cause net.Cause) {
	if e.done {
		return
	}
	e.host.world.observe("closed", e.host, nil, e.id, int(cause))
	e.post(net.Event{Kind: net.EventClosed, Cause: cause})
	e.vanish()
	if cause == net.CauseLocal {
		e.muted = true
	}
}

// vanish takes the endpoint out of its host and its link, without a word.
func (e *endpoint) vanish() {
	e.done = true
	e.queue, e.queued, e.arrived = fifo[[]byte]{}, 0, fifo[[]byte]{}
	e.link.ends[e.side] = nil
	e.host.drop(e)
}

package simnet

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/mortarmq/mortarmq/net"
)

// poison is what lent bytes are overwritten with (invariant 5).
const poison = 0xdb

// hostState says whether a host answers.
type hostState uint8

const (
	hostUp      hostState = iota
	processDown           // the machine answers for it: refused, reset
	machineDown           // nobody answers
)

// ErrInUse is Listen's error for an address that is listened on.
var ErrInUse = errors.New("address in use")

// ErrAddress is Listen's error for an address that is not NAME:PORT of its host.
var ErrAddress = errors.New("not an address of this host")

// Host is a machine with one process. It implements net.Network for that process.
type Host struct {
	world     *World
	name      string
	number    int
	state     hostState
	listeners []listener
	conns     map[net.ConnID]*endpoint // only looked into
	order     []*endpoint              // the same, to be walked
	inbox     []posted
	next      int      // first of inbox that was not handed out
	lent      [][]byte // by the last Poll
	dialled   int      // for the ports of dialling sockets
}

type listener struct {
	addr  string
	plane net.Plane
}

// posted is an event and whose it is.
type posted struct {
	net.Event
	endpoint *endpoint
}

// Name gives the host's name.
func (h *Host) Name() string { return h.name }

// Listen accepts connections to addr, NAME:PORT with the host's name, for a plane.
func (h *Host) Listen(addr string, plane net.Plane) (string, error) {
	if hostName(addr) != h.name {
		return "", ErrAddress
	}
	for _, l := range h.listeners {
		if l.addr == addr {
			return "", ErrInUse
		}
	}
	h.listeners = append(h.listeners, listener{addr, plane})
	return addr, nil
}

// hostName gives the name in NAME:PORT.
func hostName(addr string) string {
	if i := strings.LastIndexByte(addr, ':'); i >= 0 {
		return addr[:i]
	}
	return addr
}

// Submit carries out the requests, in order.
func (h *Host) Submit(reqs []net.Request) {
	if h.state != hostUp {
		return
	}
	for i := range reqs {
		r := &reqs[i]
		e := h.conns[r.Conn]
		if r.Kind == net.RequestDial {
			if e == nil {
				h.dial(r.Conn, r.Addr)
			}
			continue
		}
		if e == nil {
			continue
		}
		switch r.Kind {
		case net.RequestSend:
			e.send(r.Data)
		case net.RequestClose:
			e.close()
		case net.RequestAbort:
			e.muted = true
			e.abort()
		case net.RequestPauseRead:
			e.pause(true)
		case net.RequestResumeRead:
			e.pause(false)
		}
	}
}

// Poll appends what has happened, of Bytes at most budget bytes.
func (h *Host) Poll(into []net.Event, budget int) []net.Event {
	for i, b := range h.lent {
		for j := range b {
			b[j] = poison
		}
		h.lent[i] = nil
	}
	h.lent = h.lent[:0]
	for bytes := 0; h.next < len(h.inbox); {
		p := h.inbox[h.next]
		if p.Kind == net.EventBytes {
			if p.endpoint.muted {
				h.taken()
				p.endpoint.polled(len(p.Data))
				continue
			}
			if bytes += len(p.Data); bytes > budget && len(h.lent) > 0 {
				break
			}
			h.lent = append(h.lent, p.Data)
		}
		h.taken()
		into = append(into, p.Event)
		switch p.Kind {
		case net.EventOpened:
			p.endpoint.known = true
		case net.EventBytes:
			p.endpoint.polled(len(p.Data))
		}
	}
	return into
}

// taken moves behind the inbox's first event.
func (h *Host) taken() {
	h.inbox[h.next] = posted{}
	if h.next++; h.next == len(h.inbox) {
		h.inbox, h.next = h.inbox[:0], 0
	}
}

// Pending reports whether Poll would give something.
func (h *Host) Pending() bool { return h.next < len(h.inbox) }

// ConnCount is the number of connections that are open or being dialled.
func (h *Host) ConnCount() int { return len(h.order) }

// dial begins a connection.
func (h *Host) dial(id net.ConnID, addr string) {
	w := h.world
	to := w.Host(hostName(addr))
	l := newLink(w, h, to, addr, id)
	e := &endpoint{host: h, link: l, side: 0, id: id, plane: net.PlaneDialed}
	h.add(e)
	h.dialled++
	e.patience(w.options.DialTimeout)
	l.pipes[0].send(packetOpen, nil)
}

// accept makes the other end of a dial, or refuses it.
func (h *Host) accept(p *pipe) {
	back := p.link.pipes[1]
	i := slices.IndexFunc(h.listeners, func(l listener) bool { return l.addr == p.link.addr })
	if i < 0 || h.state != hostUp {
		back.send(packetRefuse, nil)
		return
	}
	w := h.world
	w.accepted++
	e := &endpoint{host: h, link: p.link, side: 1, id: net.FirstAccepted + w.accepted, plane: h.listeners[i].plane}
	h.add(e)
	e.open(p.from.name + ":" + strconv.Itoa(40000+p.from.dialled))
	back.send(packetAccept, nil)
}

func (h *Host) add(e *endpoint) {
	e.link.ends[e.side] = e
	e.place = len(h.order)
	h.order = append(h.order, e)
	h.conns[e.id] = e
}

func (h *Host) drop(e *endpoint) {
	last := len(h.order) - 1
	h.order[e.place] = h.order[last]
	h.order[e.place].place = e.place
	h.order[last] = nil
	h.order = h.order[:last]
	delete(h.conns, e.id)
}

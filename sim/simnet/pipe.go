package simnet

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
)

// packetKind says what travels.
type packetKind uint8

const (
	packetOpen   packetKind = iota // a dial asks for the other end
	packetAccept                   // the other end is there
	packetRefuse                   // nobody listens
	packetData
	packetEnd   // the stream's end
	packetReset // the connection's end
)

// Where data is cut, in permille of the packets: a tiny piece, any piece, and
// otherwise as much as fits.
const (
	tinyPermille = 50
	anyPermille  = 200
	packetMax    = 64 << 10
)

type packet struct {
	kind packetKind
	due  clock.Instant
	data []byte // of this packet alone: the receiver's Poll overwrites it
}

// pipe is one direction of a connection. It outlives its sender: what was in the
// window arrives also when the sender has gone.
type pipe struct {
	world    *World
	from, to *Host
	link     *link
	side     int // the sender's
	packets  fifo[packet]
	planned  bool // the first packet is on the agenda
	held     bool // or waits in World.held
	silent   bool // everything vanishes
	last     clock.Instant
	inWindow int // bytes sent and not polled
	unacked  int // of them polled, but the acknowledgement waits
}

// link is a connection: its two ends, nil before they are made and after they have
// gone, and the two directions.
type link struct {
	addr  string     // that was dialled
	id    net.ConnID // at the dialling end
	ends  [2]*endpoint
	pipes [2]*pipe // by sender
}

func newLink(w *World, from, to *Host, addr string, id net.ConnID) *link {
	l := &link{addr: addr, id: id}
	l.pipes[0] = &pipe{world: w, from: from, to: to, link: l, side: 0}
	l.pipes[1] = &pipe{world: w, from: to, to: from, link: l, side: 1}
	return l
}

func (p *pipe) sender() *endpoint   { return p.link.ends[p.side] }
func (p *pipe) receiver() *endpoint { return p.link.ends[1-p.side] }

// send lets a packet travel.
func (p *pipe) send(kind packetKind, data []byte) {
	w := p.world
	route := w.route(p.from, p.to)
	due := w.now.Add(clock.Duration(w.rand.Range(int64(route.DelayMin), int64(route.DelayMax))))
	due = max(due, p.last)
	if route.BytesPerSecond > 0 {
		due = due.Add(clock.Duration(int64(len(data)) * int64(clock.Second) / route.BytesPerSecond))
	}
	p.last = due
	p.packets.push(packet{kind, due, data})
	p.plan()
}

// plan puts the first packet on the agenda, if it is not and does not wait.
func (p *pipe) plan() {
	if p.planned || p.held || p.packets.len() == 0 {
		return
	}
	p.planned = true
	p.world.agenda.push(item{at: max(p.world.now, p.packets.first().due), pipe: p})
}

// arrive brings the first packet to the other host, or finds that it cannot.
func (p *pipe) arrive() {
	w := p.world
	p.planned = false
	if p.packets.len() == 0 {
		return // dropped since
	}
	if p.packets.first().due > w.now {
		p.plan() // what was planned was dropped since
		return
	}
	if w.route(p.from, p.to).cut || p.to.state == machineDown {
		p.held = true
		w.held = append(w.held, p)
		return
	}
	if first := p.packets.pop(); !p.silent {
		p.deliver(first)
	}
	p.plan()
}

func (p *pipe) deliver(k packet) {
	w := p.world
	w.observe(packetNames[k.kind], p.from, p.to, p.link.id, len(k.data))
	if k.kind == packetOpen {
		p.to.accept(p)
		return
	}
	e := p.receiver()
	if e == nil {
		// Invariant 4. A reset is not answered, or two ends would do it for ever.
		if k.kind != packetReset && k.kind != packetRefuse {
			p.link.pipes[1-p.side].send(packetReset, nil)
		}
		return
	}
	e.receive(k)
}

var packetNames = [...]string{"open", "accept", "refuse", "data", "end", "reset"}

// acknowledge frees n bytes of the window, when the way back is open.
func (p *pipe) acknowledge(n int) {
	w := p.world
	if p.silent {
		return
	}
	if w.route(p.to, p.from).cut {
		if p.unacked == 0 {
			w.unacked = append(w.unacked, p)
		}
		p.unacked += n
		return
	}
	p.inWindow -= n
	if e := p.sender(); e != nil {
		e.pump()
	}
}

// cutOff drops a random part of what is under way, from the end.
func (p *pipe) cutOff() {
	p.packets.cut(p.world.rand.Intn(p.packets.len() + 1))
}

// piece draws how many of n bytes the next packet takes.
func (w *World) piece(n int) int {
	n = min(n, packetMax)
	switch {
	case n <= 1:
		return n
	case w.rand.Bool(tinyPermille):
		return 1 + w.rand.Intn(min(n, 8))
	case w.rand.Bool(anyPermille):
		return 1 + w.rand.Intn(n)
	}
	return n
}

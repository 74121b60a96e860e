package simnet

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/sim/prng"
)

// Options of a world. The zero value works.
type Options struct {
	Seed uint64
	// Link is what every pair of hosts starts with; zero means DefaultLink.
	Link Link
	// WindowBytes is how much of a stream is under way or unread; default 128 KiB.
	WindowBytes int
	// DialTimeout bounds a dial that nobody answers; default 5 s.
	DialTimeout clock.Duration
	// RepeatMax bounds how long after a cut was healed what it held arrives;
	// default 1 s.
	RepeatMax clock.Duration
	// Observe, when set, sees every effect in the order in which it happens.
	Observe func(Effect)
}

// Link is one direction between two hosts.
type Link struct {
	// DelayMin and DelayMax bound a packet's delay.
	DelayMin, DelayMax clock.Duration
	// BytesPerSecond limits each connection; 0 means no limit.
	BytesPerSecond int64
}

// DefaultLink is that of a data centre.
var DefaultLink = Link{DelayMin: 50 * clock.Microsecond, DelayMax: clock.Millisecond}

// Effect is one thing that happened, as the observer sees it.
type Effect struct {
	At       clock.Instant
	What     string
	From, To string // hosts
	Conn     net.ConnID
	Bytes    int
}

// World holds hosts and what is under way between them. One driver uses it.
type World struct {
	options  Options
	rand     *prng.Rand
	now      clock.Instant
	agenda   agenda
	hosts    []*Host
	links    [][]route // by the hosts' numbers: from, to
	held     []*pipe   // their first packet waits for a cut to be healed, or a host to come up
	unacked  []*pipe   // acknowledgements wait
	accepted net.ConnID
}

// route is a link and its faults.
type route struct {
	Link
	cut bool
}

// New gives a world without hosts.
func New(options Options) *World {
	if options.Link == (Link{}) {
		options.Link = DefaultLink
	}
	if options.WindowBytes == 0 {
		options.WindowBytes = 128 << 10
	}
	if options.DialTimeout == 0 {
		options.DialTimeout = 5 * clock.Second
	}
	if options.RepeatMax == 0 {
		options.RepeatMax = clock.Second
	}
	return &World{options: options, rand: prng.New(options.Seed)}
}

// Host gives the host of that name, made when it is first asked for.
func (w *World) Host(name string) *Host {
	for _, h := range w.hosts {
		if h.name == name {
			return h
		}
	}
	h := &Host{world: w, name: name, number: len(w.hosts), conns: make(map[net.ConnID]*endpoint)}
	w.hosts = append(w.hosts, h)
	for i := range w.links {
		w.links[i] = append(w.links[i], route{Link: w.options.Link})
	}
	row := make([]route, len(w.hosts))
	for i := range row {
		row[i].Link = w.options.Link
	}
	w.links = append(w.links, row)
	return h
}

func (w *World) route(from, to *Host) *route { return &w.links[from.number][to.number] }

// NextDeadline is the instant at which the next thing happens, or Never.
func (w *World) NextDeadline() clock.Instant {
	if len(w.agenda.items) == 0 {
		return clock.Never
	}
	return w.agenda.items[0].at
}

// Advance moves the world's time to now and lets happen all that is due by then.
// Time never goes back.
func (w *World) Advance(now clock.Instant) {
	for len(w.agenda.items) > 0 && w.agenda.items[0].at <= now {
		i := w.agenda.pop()
		w.now = max(w.now, i.at)
		if i.pipe != nil {
			i.pipe.arrive()
		} else {
			i.endpoint.timeUp(i.generation)
		}
	}
	w.now = max(w.now, now)
}

// observe reports an effect to whoever watches.
func (w *World) observe(what string, from, to *Host, conn net.ConnID, bytes int) {
	if w.options.Observe == nil {
		return
	}
	e := Effect{At: w.now, What: what, Conn: conn, Bytes: bytes, From: from.name}
	if to != nil {
		e.To = to.name
	}
	w.options.Observe(e)
}

// item is something that will happen: the arrival of a pipe's first packet, or the
// end of an endpoint's patience.
type item struct {
	at         clock.Instant
	order      uint64 // of planning: equal instants keep it
	pipe       *pipe
	endpoint   *endpoint
	generation uint32
}

// agenda is a heap of items, the next one at the top.
type agenda struct {
	items []item
	last  uint64
}

func (a *agenda) less(i, j int) bool {
	x, y := &a.items[i], &a.items[j]
	return x.at < y.at || x.at == y.at && x.order < y.order
}

func (a *agenda) push(i item) {
	a.last++
	i.order = a.last
	a.items = append(a.items, i)
	for n := len(a.items) - 1; n > 0; {
		parent := (n - 1) / 2
		if !a.less(n, parent) {
			break
		}
		a.items[n], a.items[parent] = a.items[parent], a.items[n]
		n = parent
	}
}

func (a *agenda) pop() item {
	top, last := a.items[0], len(a.items)-1
	a.items[0] = a.items[last]
	a.items[last] = item{}
	a.items = a.items[:last]
	for n := 0; ; {
		child := 2*n + 1
		if child >= last {
			return top
		}
		if child+1 < last && a.less(child+1, child) {
			child++
		}
		if !a.less(child, n) {
			return top
		}
		a.items[n], a.items[child] = a.items[child], a.items[n]
		n = child
	}
}

package tcp

import (
	"sync"
	"sync/atomic"

	"github.com/mortarmq/mortarmq/net"
)

// Sizes of reading.
const (
	blockBytes = 64 << 10
	// Reads of up to shareBytes are copied together into one block, so that many
	// small messages do not hold a block each.
	shareBytes = 8 << 10
	planeCount = int(net.PlaneDialed) + 1
)

// block is memory that reads fill and events lend.
type block struct {
	refs int // events that lie in it, and the inbox while it fills it
	used int
	data [blockBytes]byte
}

// spareBlocks are those that no network uses: a process may have many networks, one
// for each client.
var spareBlocks = sync.Pool{New: func() any { return new(block) }}

// blockPool lends blocks to a network and counts those in use.
type blockPool struct{ out atomic.Int64 }

func (p *blockPool) get() *block {
	p.out.Add(1)
	return spareBlocks.Get().(*block)
}

func (p *blockPool) put(b *block) {
	b.refs, b.used = 0, 0
	p.out.Add(-1)
	spareBlocks.Put(b)
}

// posted is an event of Bytes with the block that its Data lies in, or another
// event.
type posted struct {
	net.Event
	conn  *conn
	block *block
}

// flow is a connection's part in the inbox; inbox.mu guards it.
type flow struct {
	ended    bool // Closed was posted
	muted    bool // its Bytes are not wanted any more
	unpolled int  // bytes
	room     sync.Cond
}

// inbox holds what happened until it is polled.
type inbox struct {
	budget int
	blocks *blockPool
	wake   func()

	mu       sync.Mutex
	events   []posted
	unpolled [planeCount]int // bytes
	filling  *block          // small reads go here
	waiting  []*conn         // whose readers wait for room

	// Of who polls:
	taken []posted // swapped out of events
	next  int      // first of taken that was not handed out
	lent  []*block // of the events handed out by the last poll
}

func (in *inbox) init(budget int, blocks *blockPool, wake func()) {
	in.budget, in.blocks, in.wake = budget, blocks, wake
}

// post appends an event of c, unless c has ended. Closed ends it.
func (in *inbox) post(c *conn, e net.Event) {
	e.Conn, e.Plane = c.id, c.plane
	in.mu.Lock()
	if c.flow.ended {
		in.mu.Unlock()
		return
	}
	if e.Kind == net.EventClosed {
		c.flow.ended = true
		c.flow.room.Signal()
	}
	if in.append(posted{Event: e, conn: c}) {
		in.wake()
	}
}

// mute drops what there is and will be of c's bytes.
func (in *inbox) mute(c *conn) {
	in.mu.Lock()
	c.flow.muted = true
	in.mu.Unlock()
}

// end lets c end without an event.
func (in *inbox) end(c *conn) {
	in.mu.Lock()
	c.flow.ended = true
	in.mu.Unlock()
}

// append ends with in.mu unlocked, and reports whether there was nothing before.
func (in *inbox) append(p posted) (first bool) {
	first = len(in.events) == 0
	in.events = append(in.events, p)
	in.mu.Unlock()
	return first
}

// postBytes posts the first n bytes of b, which it takes over. It does not wake
// anybody: it reports whether that is to be done.
func (in *inbox) postBytes(c *conn, b *block, n int) (first bool) {
	in.mu.Lock()
	if c.flow.ended || c.flow.muted {
		in.mu.Unlock()
		in.blocks.put(b)
		return false
	}
	in.unpolled[c.plane] += n
	c.flow.unpolled += n
	data := b.data[:n:n]
	if n <= shareBytes {
		b, data = in.share(b, data)
	} else {
		b.refs = 1
	}
	return in.append(posted{Event: net.Event{Kind: net.EventBytes, Conn: c.id, Plane: c.plane, Data: data}, conn: c, block: b})
}

// share copies data behind that of other events and gives back b.
func (in *inbox) share(b *block, data []byte) (*block, []byte) {
	if f := in.filling; f != nil && f.used+len(data) > blockBytes {
		in.unref(f)
		in.filling = nil
	}
	if in.filling == nil {
		// b itself is the next one to be filled.
		b.refs, b.used = 2, len(data)
		in.filling = b
		return b, data
	}
	f := in.filling
	copied := f.data[f.used : f.used+len(data) : f.used+len(data)]
	copy(copied, data)
	f.refs, f.used = f.refs+1, f.used+len(data)
	in.blocks.put(b)
	return f, copied
}

func (in *inbox) unref(b *block) {
	if b.refs--; b.refs == 0 {
		in.blocks.put(b)
	}
}

// full reports whether c's reader has to stop.
func (in *inbox) full(c *conn) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return c.flow.unpolled > net.ReadAheadBytes || in.unpolled[c.plane] > in.budget
}

// hasRoom reports whether a reader that stopped may go on: not at once, or it
// would stop for every read. in.mu is held.
func (in *inbox) hasRoom(c *conn) bool {
	return c.flow.ended || c.flow.unpolled <= net.ReadAheadBytes/2 && in.unpolled[c.plane] <= in.budget/2
}

// awaitRoom waits until c may be read again, or has ended.
func (in *inbox) awaitRoom(c *conn) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if c.flow.unpolled <= net.ReadAheadBytes && in.unpolled[c.plane] <= in.budget {
		return
	}
	for !in.hasRoom(c) {
		in.waiting = append(in.waiting, c) // letIn has forgotten it
		c.flow.room.Wait()
	}
}

// letIn wakes the readers that have room, and forgets them.
func (in *inbox) letIn() {
	left := in.waiting[:0]
	for _, c := range in.waiting {
		if in.hasRoom(c) {
			c.flow.room.Signal()
		} else {
			left = append(left, c)
		}
	}
	clear(in.waiting[len(left):])
	in.waiting = left
}

// poll hands out events, and takes back what the last one lent.
func (in *inbox) poll(into []net.Event, budget int) []net.Event {
	in.mu.Lock()
	for _, b := range in.lent {
		in.unref(b)
	}
	clear(in.lent)
	in.lent = in.lent[:0]
	if f := in.filling; f != nil && f.refs == 1 {
		in.unref(f) // nothing lies in it: whoever reads next brings another
		in.filling = nil
	}
	for bytes := 0; ; {
		if in.next == len(in.taken) {
			if len(in.events) == 0 {
				break
			}
			clear(in.taken)
			in.taken, in.events, in.next = in.events, in.taken[:0], 0
		}
		p := &in.taken[in.next]
		if bytes += len(p.Data); bytes > budget && len(in.lent) > 0 {
			break
		}
		in.next++
		if p.block == nil {
			if p.Kind == net.EventOpened {
				p.conn.known = true
			}
			into = append(into, p.Event)
			continue
		}
		in.unpolled[p.Plane] -= len(p.Data)
		p.conn.flow.unpolled -= len(p.Data)
		if p.conn.flow.muted {
			bytes -= len(p.Data)
			in.unref(p.block)
			continue
		}
		into = append(into, p.Event)
		in.lent = append(in.lent, p.block)
	}
	in.letIn()
	left := in.next < len(in.taken) || len(in.events) > 0
	in.mu.Unlock()
	if left {
		in.wake()
	}
	return into
}

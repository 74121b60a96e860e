package msgtrans

import (
	"sync"
	"sync/atomic"
)

// inbox is what a connection has accepted and not yet handled. Requests are handled
// by up to handlersMax goroutines, messages by one, in order.
//
// A goroutine is added when a packet waits and none is about to start: one that
// starts to work sees what is left and adds the next. So handlers that never block
// share one goroutine, and handlers that block get as many as they need.
//
// Invariant: open and bytes count what was accepted and is not over: queued,
// running, held. They change without the mutex; room is signalled when the reader
// says that it waits for it.
type inbox struct {
	conn        *Conn
	packetsMax  int64
	bytesMax    int64
	open, bytes atomic.Int64
	waiting     atomic.Bool // the reader waits for room
	room        chan struct{}

	mu       sync.Mutex
	closed   bool // nobody waits for room any more
	dropped  bool // what is queued is not handled any more
	requests lane
	messages lane
}

// lane is a queue with its goroutines.
type lane struct {
	items      []*inbound
	head       int
	workers    int
	workersMax int
	starting   bool
}

func (l *lane) len() int { return len(l.items) - l.head }

func (l *lane) push(i *inbound) {
	if l.head > 0 && len(l.items) == cap(l.items) {
		n := copy(l.items, l.items[l.head:])
		clear(l.items[n:])
		l.items, l.head = l.items[:n], 0
	}
	l.items = append(l.items, i)
}

func (l *lane) pop() *inbound {
	i := l.items[l.head]
	l.items[l.head] = nil
	if l.head++; l.head == len(l.items) {
		l.items, l.head = l.items[:0], 0
	}
	return i
}

// wantsWorker reports whether a goroutine is to be added, and counts it.
func (l *lane) wantsWorker() bool {
	if l.len() == 0 || l.starting || l.workers >= l.workersMax {
		return false
	}
	l.starting = true
	l.workers++
	return true
}

// init prepares the inbox of c.
func (b *inbox) init(c *Conn) {
	b.conn = c
	b.packetsMax, b.bytesMax = int64(c.set.InboundPackets), int64(c.set.InboundBytes)
	b.room = make(chan struct{}, 1)
	b.requests.workersMax = c.set.HandlersMax
	b.messages.workersMax = 1
}

// push queues items, which open counts already, and then keeps the reader from
// reading until there is room for more: a batch goes over the limits at most once.
func (b *inbox) push(items []*inbound) {
	size := int64(0)
	for i := range items {
		size += int64(items[i].size)
	}
	b.bytes.Add(size)
	b.mu.Lock()
	if b.dropped {
		b.mu.Unlock()
		b.bytes.Add(-size)
		b.open.Add(-int64(len(items)))
		return
	}
	for i := range items {
		l := &b.messages
		if items[i].request && !b.conn.set.Serial {
			l = &b.requests
		}
		l.push(items[i])
	}
	requests, messages := b.requests.wantsWorker(), b.messages.wantsWorker()
	b.mu.Unlock()
	if requests {
		b.start(&b.requests)
	}
	if messages {
		b.start(&b.messages)
	}
	b.waitForRoom()
}

func (b *inbox) full() bool {
	return b.open.Load() >= b.packetsMax || b.bytes.Load() >= b.bytesMax
}

func (b *inbox) waitForRoom() {
	for b.full() {
		// Announced first: whoever makes room sees either the announcement or the reader
		// sees the room.
		b.waiting.Store(true)
		if b.full() {
			<-b.room
		}
		b.waiting.Store(false)
		b.mu.Lock()
		closed := b.closed
		b.mu.Unlock()
		if closed {
			return
		}
	}
}

func (b *inbox) start(l *lane) {
	b.conn.live.Add(1)
	go b.work(l)
}

// work handles what is queued in l until there is nothing left.
func (b *inbox) work(l *lane) {
	defer b.conn.exit()
	b.mu.Lock()
	l.starting = false
	for l.len() > 0 && !b.dropped {
		i := l.pop()
		another := l.wantsWorker()
		b.mu.Unlock()
		if another {
			b.start(l)
		}
		b.conn.handle(i)
		b.mu.Lock()
	}
	l.workers--
	b.mu.Unlock()
}

// over is called once for everything that open counts.
func (b *inbox) over(size int) {
	b.bytes.Add(-int64(size))
	b.open.Add(-1)
	if b.waiting.Load() {
		b.signal()
	}
	b.conn.quietened()
}

func (b *inbox) signal() {
	select {
	case b.room <- struct{}{}:
	default:
	}
}

// close lets nobody wait for room; with drop, nothing that is queued is handled.
func (b *inbox) close(drop bool) {
	b.mu.Lock()
	b.closed = true
	if drop && !b.dropped {
		b.dropped = true
		b.open.Add(-int64(b.requests.len() + b.messages.len()))
		b.requests.items, b.requests.head = nil, 0
		b.messages.items, b.messages.head = nil, 0
	}
	b.mu.Unlock()
	b.signal()
}

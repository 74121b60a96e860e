package tcp

import (
	"context"
	stdnet "net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mortarmq/mortarmq/net"
)

// Options of a Network. The zero value works.
type Options struct {
	// Wake is called from any goroutine when there is something to poll. It must
	// not block.
	Wake func()
	// Arrived is called instead of Wake by a reader whose bytes are the first thing to
	// poll. It may take its time, and the part of who polls. rest is what the reader
	// goes on with: an Arrived that cannot come back soon lets another goroutine
	// call it, and returns false. The default calls Wake.
	Arrived func(rest func()) bool
	// BudgetBytes is how much of each plane may be unpolled before its readers
	// stop; default 16 MiB.
	BudgetBytes int
	// DialTimeout bounds a dial; default 5 s.
	DialTimeout time.Duration
	// NextID gives the ConnIDs of accepted connections, at least FirstAccepted and
	// unique in the process; the default counts for all Networks that use it. It
	// is called from any goroutine.
	NextID func() net.ConnID
}

var lastAccepted atomic.Uint64

// NextID is the default of Options.NextID, for other transports of the process.
func NextID() net.ConnID { return net.FirstAccepted + net.ConnID(lastAccepted.Add(1)) }

// Network implements net.Network over TCP. One goroutine at a time submits and polls; the
// other methods may be called from any.
type Network struct {
	options Options
	closing context.Context // done when Close was called
	stop    context.CancelFunc
	tasks   sync.WaitGroup
	blocks  blockPool
	inbox   inbox
	out     gather

	mu        sync.RWMutex
	conns     map[net.ConnID]*conn
	listeners []*stdnet.TCPListener
	closed    bool

	acceptErrors atomic.Uint64
	now          func() time.Time // the clock of the flush; tests have their own
}

// New gives a network without listeners.
func New(options Options) *Network {
	if options.Wake == nil {
		options.Wake = func() {}
	}
	if options.Arrived == nil {
		wake := options.Wake
		options.Arrived = func(func()) bool {
			wake()
			return true
		}
	}
	if options.BudgetBytes == 0 {
		options.BudgetBytes = 16 << 20
	}
	if options.DialTimeout == 0 {
		options.DialTimeout = 5 * time.Second
	}
	if options.NextID == nil {
		options.NextID = NextID
	}
	n := &Network{options: options, conns: make(map[net.ConnID]*conn), now: time.Now}
	n.closing, n.stop = context.WithCancel(context.Background())
	n.inbox.init(options.BudgetBytes, &n.blocks, options.Wake)
	n.out.init(&n.blocks)
	return n
}

// Submit carries out or queues the requests, in order per connection.
func (n *Network) Submit(reqs []net.Request) {
	for i := range reqs {
		r := &reqs[i]
		if r.Kind == net.RequestDial {
			n.dial(r.Conn, r.Addr)
			continue
		}
		c := n.lookup(r.Conn)
		if c == nil {
			continue
		}
		if r.Kind == net.RequestSend {
			n.out.add(c, r.Data)
			continue
		}
		n.out.flush(c)
		switch r.Kind {
		case net.RequestClose:
			c.close()
		case net.RequestAbort:
			c.abort()
		case net.RequestPauseRead:
			c.pause(true)
		case net.RequestResumeRead:
			c.pause(false)
		}
	}
	n.out.flushAll()
}

// Poll appends what has happened, of Bytes at most budget bytes.
func (n *Network) Poll(into []net.Event, budget int) []net.Event { return n.inbox.poll(into, budget) }

// ConnCount is the number of connections that are open or being dialled.
func (n *Network) ConnCount() int {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.conns)
}

// AcceptErrors counts the accepts that failed, for want of descriptors mostly.
func (n *Network) AcceptErrors() uint64 { return n.acceptErrors.Load() }

func (n *Network) lookup(id net.ConnID) *conn {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.conns[id]
}

// adopt registers a connection and counts a task for it; false means that the
// network is closed or the id in use.
func (n *Network) adopt(c *conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || n.conns[c.id] != nil {
		return false
	}
	n.conns[c.id] = c
	n.tasks.Add(1)
	return true
}

func (n *Network) forget(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c.id)
}

// Close aborts every connection, ends listeners and dials, and joins their
// goroutines. What was not polled still can be.
func (n *Network) Close() error {
	n.mu.Lock()
	n.closed = true
	conns := make([]*conn, 0, len(n.conns))
	for _, c := range n.conns {
		conns = append(conns, c)
	}
	listeners := n.listeners
	n.listeners = nil
	n.mu.Unlock()
	n.stop()
	for _, l := range listeners {
		l.Close()
	}
	for _, c := range conns {
		c.abort()
	}
	n.tasks.Wait()
	return nil
}

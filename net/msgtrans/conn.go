package msgtrans

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// ConnID tells the connections of a process apart.
type ConnID uint64

var connIDs atomic.Uint64

// The states of a connection. They only grow.
const (
	stateOpen      uint32 = iota
	stateDraining         // nothing new from here; what is under way goes on
	stateFinishing        // everything is written and answered; the peer has been told
	stateEnded            // the transport is closed
)

// Conn is one connection, the same at both ends.
//
// Invariants:
//
//  1. state changes under mu. Only end sets stateEnded, and then pairing is empty
//     and stays so.
//  2. live counts the goroutines that may call a handler or the link: a reader, a
//     writer and the inbox's. It does not rise from 0; the last one reports
//     EventClosed and closes done.
//  3. A call leaves pairing before it is completed, so it is completed once.
type Conn struct {
	id    ConnID
	born  time.Time // what instants count from
	set   *settings
	link  link
	peer  Peer
	stats counters

	state  atomic.Uint32
	live   atomic.Int64
	in     inbox
	ended  chan struct{} // closed by end
	done   chan struct{} // closed when nothing of the connection runs any more
	onDone func(*Conn)
	closed sync.Once // EventClosed was reported

	// requestCtx ends with the connection, messageCtx only when it is closed hard or done.
	requestCtx, messageCtx         context.Context
	cancelRequests, cancelMessages context.CancelFunc

	mu         sync.Mutex
	pairing    *wire.Pairing[*call]
	out        outbox
	writerIdle bool
	gathering  atomic.Int64 // when the batch was begun that the writer gathers; 0 if it does not
	err        error
	age        time.Duration // when err was set
	unwritten  int           // packets that were queued or being written when err was set
	quiet      chan struct{} // closed when a draining connection has nothing under way
	deadline   *time.Timer
	deadlineAt wire.Instant // when the timer fires; 0 when it is not running
	wake       chan struct{}
	idle       idleWatch
}

// newConn makes a connection of l and reports it. start lets it run.
func newConn(l link, p Peer, s *settings, onDone func(*Conn)) *Conn {
	c := &Conn{
		id:      ConnID(connIDs.Add(1)),
		born:    time.Now(),
		set:     s,
		link:    l,
		peer:    p,
		ended:   make(chan struct{}),
		done:    make(chan struct{}),
		onDone:  onDone,
		pairing: wire.NewPairing[*call](s.PendingMax),
		quiet:   make(chan struct{}),
		wake:    make(chan struct{}, 1),
	}
	c.messageCtx, c.cancelMessages = context.WithCancel(context.Background())
	c.requestCtx, c.cancelRequests = context.WithCancel(c.messageCtx)
	c.out.framing, c.out.packetsMax, c.out.bytesMax = framingOf(s.transport), s.SendPackets, s.SendBytes
	c.out.conn = c
	c.in.init(c)
	return c
}

// start reports the connection as open and lets it run. first is what was read for
// the Accept hook.
func (c *Conn) start(first []Packet) {
	c.event(Event{Kind: EventOpened})
	c.live.Add(2)
	c.idle.start(c)
	go c.writeLoop()
	go c.readLoop(first)
}

func (c *Conn) now() wire.Instant { return wire.Instant(time.Since(c.born)) }

// ID tells the connection from others of this process.
func (c *Conn) ID() ConnID { return c.id }

// Peer is what is known of the other end.
func (c *Conn) Peer() Peer { return c.peer }

// Done is closed when the connection has ended and every handler has returned.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Stats counts what the connection has done.
func (c *Conn) Stats() Stats {
	s := c.stats.snapshot()
	s.Texts = c.link.texts()
	return s
}

// Err returns why the connection has ended, nil while it has not.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *Conn) String() string {
	return fmt.Sprintf("conn %d to %v over %s", c.id, c.peer.Remote, c.peer.Transport)
}

// Close ends the connection at once. Everything pending fails with ErrClosed, and
// what was accepted and not yet begun is not handled.
func (c *Conn) Close() error {
	c.cancelMessages()
	c.in.close(true)
	c.end(&Error{Op: "close", Kind: ErrClosed, Cause: errLocalClosed})
	return nil
}

// Shutdown ends the connection gracefully: it waits until what was accepted is
// handled, what is pending has its Response and what was sent is written, and for
// the peer to end its side, for at most DrainTimeout. When ctx ends first it does what
// Close does and returns ErrTimeout or the cancellation. It returns nil only if the peer
// has taken everything; otherwise why the connection ended. It must not be called by a
// handler of the connection, which it would wait for.
func (c *Conn) Shutdown(ctx context.Context) error {
	c.drain()
	select {
	case <-c.quiet:
	case <-c.ended:
	case <-ctx.Done():
		_ = c.Close()
		return contextError("shutdown", ctx)
	}
	if err := c.hangUp(ctx); err != nil {
		return err
	}
	return c.loss()
}

// hangUp tells the peer that nothing follows, waits for its end and ends the
// connection.
func (c *Conn) hangUp(ctx context.Context) error {
	patience, cancel := context.WithTimeout(ctx, c.set.DrainTimeout)
	defer cancel()
	told := make(chan struct{})
	go func() {
		defer close(told)
		_ = c.link.finish() // fails only when the connection has ended already
	}()
	select {
	case <-c.ended:
	case <-patience.Done():
	}
	c.end(&Error{Op: "shutdown", Kind: ErrTimeout, Cause: errNoEnd})
	<-told
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		_ = c.Close()
		return contextError("shutdown", ctx)
	}
}

// loss returns why something that was accepted for sending may not have arrived, nil
// if the connection has ended regularly after all of it.
func (c *Conn) loss() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kind := kindOfEnd(c.err); c.unwritten > 0 || kind != ErrClosed {
		return &Error{Op: "shutdown", Kind: kind, Cause: fmt.Errorf("what was sent last may be lost, %d packets were not written: %w", c.unwritten, c.err)}
	}
	return nil
}

// drain refuses new messages and requests of this end.
func (c *Conn) drain() {
	c.mu.Lock()
	changed := c.state.CompareAndSwap(stateOpen, stateDraining)
	c.mu.Unlock()
	if changed {
		c.event(Event{Kind: EventDraining})
		c.quietened()
	}
}

// quietened looks whether a draining connection has nothing under way any more.
func (c *Conn) quietened() {
	if c.state.Load() != stateDraining {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.Load() == stateDraining && c.pairing.Len() == 0 && c.out.idle() && c.in.open.Load() == 0 {
		c.state.Store(stateFinishing)
		close(c.quiet)
	}
}

// end closes the transport and fails what is pending. The first reason stays.
func (c *Conn) end(why error) {
	c.mu.Lock()
	if c.state.Load() == stateEnded {
		c.mu.Unlock()
		return
	}
	c.state.Store(stateEnded)
	c.err, c.age = why, time.Duration(c.now())
	c.unwritten = c.out.packets
	rejected := c.pairing.Reset(nil)
	c.out.abandon()
	if c.deadline != nil {
		c.deadline.Stop()
	}
	c.mu.Unlock()
	c.idle.stop()
	close(c.ended)
	c.cancelRequests()
	c.in.close(false)
	for _, r := range rejected {
		r.Value.complete(Message{}, during("request", why))
	}
	c.link.abort(why) // may take a moment
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// exit is the end of a goroutine of the connection.
func (c *Conn) exit() {
	if c.live.Add(-1) > 0 {
		return
	}
	c.cancelMessages()
	c.reportClosed()
	if c.onDone != nil {
		c.onDone(c)
	}
	close(c.done)
}

// reportClosed reports the end of the connection, once. The second to call it waits.
func (c *Conn) reportClosed() {
	c.closed.Do(func() { c.event(Event{Kind: EventClosed, Err: c.Err()}) })
}

// lasted is how long a connection that has ended did.
func (c *Conn) lasted() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.age
}

func (c *Conn) event(e Event) {
	if c.set.OnEvent == nil {
		return
	}
	e.Conn, e.Peer = c, &c.peer
	c.set.OnEvent(e)
}

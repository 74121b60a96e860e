package msgtrans

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// call is a request that waits for its end.
type call struct {
	// done gets one value when the call is complete; fn is called instead if it is set.
	done  chan struct{}
	fn    func(Message, error)
	reply Message
	err   error
	at    wire.Instant // the deadline; 0 before send has set it
}

func newCall() any { return &call{done: make(chan struct{}, 1)} }

// complete ends a call that has left the table of pending requests.
func (l *call) complete(m Message, err error) {
	l.reply, l.err = m, err
	l.completed()
}

// completed tells whoever waits that reply and err are set.
func (l *call) completed() {
	if l.fn != nil {
		l.fn(l.reply, l.err)
		return
	}
	l.done <- struct{}{}
}

// endCall takes what l was completed with.
func (c *Conn) endCall(l *call, reply *Message) error {
	*reply = l.reply
	err := l.err
	c.freeCall(l)
	return err
}

func (c *Conn) freeCall(l *call) {
	l.reply, l.err, l.at = Message{}, nil, 0
	c.set.calls.Put(l)
}

// Send sends a OneWay. It returns when the message is in the send queue, waiting
// for room until ctx or the connection ends, however long that takes.
func (c *Conn) Send(ctx context.Context, m Message) error {
	p := m.packet(wire.OneWay)
	return c.send(ctx, "send", &p, m.Compression, nil)
}

// Request sends a Request and waits for its Response, until ctx or RequestTimeout
// ends, room in the send queue included. When the caller gives up, a Response that
// comes later is dropped.
func (c *Conn) Request(ctx context.Context, m Message) (reply Message, err error) {
	_, err = c.request(ctx, &m, &reply)
	return reply, err
}

// request is Request without copies. With errUnsent it also returns when the request
// will run out of time, or the zero time if that has not begun.
func (c *Conn) request(ctx context.Context, m, reply *Message) (by time.Time, err error) {
	l := c.set.calls.Get().(*call)
	p := m.packet(wire.Request)
	if err := c.send(ctx, "request", &p, m.Compression, l); err != nil {
		by = c.deadlineOf(l)
		c.freeCall(l)
		return by, err
	}
	cancelled := ctx.Done()
	if cancelled == nil {
		<-l.done // cheaper than a select
		return by, c.endCall(l, reply)
	}
	select {
	case <-l.done:
	case <-cancelled:
		c.mu.Lock()
		_, mine := c.pairing.Cancel(p.ID)
		c.mu.Unlock()
		if mine {
			c.freeCall(l)
			c.quietened()
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				c.stats.timeouts.Add(1)
			}
			return by, contextError("request", ctx)
		}
		<-l.done // it was completed at the same moment
	}
	return by, c.endCall(l, reply)
}

// deadlineOf returns when l runs out of time, the zero time if that has not begun.
func (c *Conn) deadlineOf(l *call) time.Time {
	if l.at == 0 {
		return time.Time{}
	}
	return c.born.Add(time.Duration(l.at))
}

// RequestFunc sends a Request and returns when it is in the send queue. done is
// called exactly once, with the Response or the error, if RequestFunc returned nil;
// it runs where the connection reads, must not block, and borrows the message only
// until it returns. ctx bounds the wait for
// room, and its deadline the wait for the Response; its cancellation does not end
// the request. RequestTimeout bounds both together.
func (c *Conn) RequestFunc(ctx context.Context, m Message, done func(Message, error)) error {
	_, err := c.requestFunc(ctx, &m, done)
	return err
}

// requestFunc is RequestFunc, and returns what request does.
func (c *Conn) requestFunc(ctx context.Context, m *Message, done func(Message, error)) (by time.Time, err error) {
	p := m.packet(wire.Request)
	l := &call{fn: done}
	if err = c.send(ctx, "request", &p, m.Compression, l); err != nil {
		by = c.deadlineOf(l)
	}
	return by, err
}

// wireBytes is what p takes of the send queue.
func (c *Conn) wireBytes(p *Packet) int {
	n := int(p.PacketBytes())
	if c.out.framing == wire.Prefixed {
		n += wire.PrefixBytes
	}
	return n
}

// send compresses and queues p, and gives it its id unless it is a Response. l is
// the call of a Request. If it fails, nothing of p is left behind.
func (c *Conn) send(ctx context.Context, op string, p *Packet, with Compression, l *call) error {
	if err := ctx.Err(); err != nil {
		return contextError(op, ctx)
	}
	if err := p.CheckUnnumbered(c.set.limits.ExtBytes); err != nil {
		return unsendable(op, err)
	}
	if with != None {
		codec := c.set.codecs.get()
		defer c.set.codecs.put(codec)
		b, err := codec.Compress(codec.scratch[:0], p.Payload, with)
		if err != nil {
			return during(op, err)
		}
		codec.scratch, p.Payload = b, b
	}
	if n := p.PacketBytes(); n > int64(c.set.limits.PacketBytes) {
		return &Error{Op: op, Kind: ErrLimit, Cause: fmt.Errorf("%w: %d bytes, at most %d", wire.ErrPacketTooLong, n, c.set.limits.PacketBytes)}
	}
	size := c.wireBytes(p)
	var now, at wire.Instant
	if l != nil {
		now = c.sendTime()
		at = now + wire.Instant(min(c.set.RequestTimeout, math.MaxInt64-time.Duration(now)))
		if d, ok := ctx.Deadline(); ok {
			at = min(at, wire.Instant(d.Sub(c.born)))
		}
		l.at = at
	}

	c.mu.Lock()
	if err := c.mayQueue(op, p.Type); err != nil {
		c.mu.Unlock()
		return err
	}
	queued, err := c.out.add(op, p, size, at, l)
	if err != nil {
		c.mu.Unlock()
		return err
	}
	if !queued {
		var err error
		p.ID, err = c.waitForRoom(ctx, op, *p, size, at, l)
		return err
	}
	wake := c.writerIdle
	c.writerIdle = false
	if wake {
		c.gathering.Store(int64(now))
	}
	c.mu.Unlock()
	if wake {
		c.wake <- struct{}{}
	}
	return nil
}

// sendTime is what a request's patience counts from: now, or the moment at which the
// batch was begun that the writer is just gathering, as one reading of the clock serves
// all of those who send at the same time.
func (c *Conn) sendTime() wire.Instant {
	if at := c.gathering.Load(); at != 0 {
		return wire.Instant(at)
	}
	return c.now()
}

// mayQueue reports, under mu, whether packets of type t are still taken.
func (c *Conn) mayQueue(op string, t Type) error {
	switch state := c.state.Load(); {
	case state == stateEnded:
		return &Error{Op: op, Kind: kindOfEnd(c.err), Cause: unsent(c.err)}
	case state == stateOpen, t == wire.Response && state == stateDraining:
		return nil
	}
	return &Error{Op: op, Kind: ErrClosed, Cause: unsent(errDraining)}
}

var errDraining = errors.New("the connection is being closed")

// kindOfEnd returns the kind of the error that a connection ended with.
func kindOfEnd(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ErrClosed
}

// queue puts p into the send queue, under mu.
func (c *Conn) queue(op string, p *Packet, at wire.Instant, l *call) error {
	switch p.Type {
	case wire.OneWay:
		p.ID = c.pairing.OneWay()
	case wire.Request:
		id, err := c.pairing.Begin(at, l)
		if err != nil {
			return &Error{Op: op, Kind: ErrLimit, Cause: err}
		}
		p.ID = id
		c.stats.requests.Add(1)
		c.arm(at)
	}
	if err := c.out.put(p); err != nil {
		// A Response has the peer's id, which may also be that of a Request from here.
		if p.Type == wire.Request {
			c.pairing.Cancel(p.ID)
		}
		return unsendable(op, err)
	}
	return nil
}

// waitForRoom waits until a copy of p is queued, and returns its id. mu is held
// before, not after. ctx bounds the wait, and a Request's deadline that of a Request.
// The writer, which makes room, needs no waking.
func (c *Conn) waitForRoom(ctx context.Context, op string, p Packet, size int, at wire.Instant, l *call) (MessageID, error) {
	w := &waiter{op: op, packet: p, bytes: size, at: at, call: l, ready: make(chan struct{})}
	c.out.waiters = append(c.out.waiters, w)
	c.mu.Unlock()
	var patience <-chan time.Time
	if l != nil {
		t := time.NewTimer(time.Duration(at - c.now()))
		defer t.Stop()
		patience = t.C
	}
	var why error
	select {
	case <-w.ready:
	case <-ctx.Done():
		why = contextError(w.op, ctx)
	case <-patience:
		why = &Error{Op: w.op, Kind: ErrTimeout, Cause: errQueueFull}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.queued || w.err != nil {
		return w.packet.ID, w.err
	}
	if c.state.Load() == stateEnded {
		return 0, &Error{Op: w.op, Kind: kindOfEnd(c.err), Cause: unsent(c.err)}
	}
	c.out.leave(w)
	return 0, why
}

var errQueueFull = errors.New("the send queue is full")

// arm makes sure, under mu, that the timer fires at the latest at the given instant.
func (c *Conn) arm(at wire.Instant) {
	if c.deadlineAt != 0 && c.deadlineAt <= at {
		return
	}
	c.deadlineAt = at
	wait := time.Duration(at - c.now())
	if c.deadline == nil {
		c.deadline = time.AfterFunc(wait, c.expire)
		return
	}
	c.deadline.Reset(wait)
}

// expire fails the requests whose time has run out.
func (c *Conn) expire() {
	c.mu.Lock()
	c.deadlineAt = 0
	if c.state.Load() == stateEnded {
		c.mu.Unlock()
		return
	}
	late := c.pairing.Expire(c.now(), nil)
	if at, ok := c.pairing.Deadline(); ok {
		c.arm(at)
	}
	c.mu.Unlock()
	for _, r := range late {
		c.stats.timeouts.Add(1)
		r.Value.complete(Message{}, &Error{Op: "request", Kind: ErrTimeout, Cause: errNoResponse})
	}
	if len(late) > 0 {
		c.quietened()
	}
}

// errNoResponse is a deadline that was exceeded, whoever noticed it first.
var errNoResponse = fmt.Errorf("no Response: %w", context.DeadlineExceeded)

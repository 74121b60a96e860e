package client

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mortarmq/mortarmq/client/core"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/wire"
)

// Client is a connection to the brokers and everything on it. Its methods may be called from any goroutine.
type Client struct {
	opt   Options
	inbox inbox
	core  *core.Core // the loop's
	net   network    // the loop's
	ended bool       // the loop's
	done  chan struct{}

	closeOnce sync.Once
	finishers finishers

	mu        sync.Mutex
	lastErr   error // why the last attempt to connect failed
	connected chan struct{}
	isUp      bool
	failed    chan struct{} // closed when fatal is set
	fatal     error
	handles   core.Handle
	refs      uint64
	calls     map[uint64]chan core.Event // declares
	producers map[core.Handle]*Producer
	consumers map[core.Handle]*Consumer
}

// clients counts the Clients of the process, so that their ConnIDs differ.
var clients atomic.Uint64

// Dial makes a Client and connects it to the node that leads. It tries every address, repeatedly, until the context or
// DialTimeout ends; a token that is refused ends it at once.
func Dial(ctx context.Context, opt Options) (*Client, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	opt = opt.withDefaults()
	if opt.Seed == 0 {
		var b [8]byte
		if _, err := rand.Read(b[:]); err != nil {
			return nil, fmt.Errorf("mortarmq: no random seed: %w", err)
		}
		opt.Seed = binary.LittleEndian.Uint64(b[:])
	}
	c := &Client{
		opt: opt, done: make(chan struct{}), connected: make(chan struct{}), failed: make(chan struct{}),
		calls: map[uint64]chan core.Event{}, producers: map[core.Handle]*Producer{}, consumers: map[core.Handle]*Consumer{},
	}
	c.inbox.wake = make(chan struct{}, 1)
	c.finishers.init()
	co := opt.core()
	co.FirstConn = net.ConnID(clients.Add(1) << 32)
	c.core = core.New(co)
	c.net = newNetwork(c.inbox.notify)
	go c.loop()
	if err := c.awaitConnection(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Client) awaitConnection(ctx context.Context) error {
	timeout := time.NewTimer(c.opt.DialTimeout)
	defer timeout.Stop()
	var cause error
	select {
	case <-c.connected:
		return nil
	case <-c.failed:
		return c.fatalErr()
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-timeout.C:
	}
	c.mu.Lock()
	last := c.lastErr
	c.mu.Unlock()
	if last != nil {
		last = within{last}
	}
	switch {
	case last != nil && cause != nil:
		return fmt.Errorf("%w within %v at %v: %w; last: %w", ErrNoBroker, c.opt.DialTimeout, c.opt.Addrs, cause, last)
	case last != nil:
		return fmt.Errorf("%w within %v at %v: %w", ErrNoBroker, c.opt.DialTimeout, c.opt.Addrs, last)
	case cause != nil:
		return fmt.Errorf("%w: %w", ErrNoBroker, cause)
	}
	return fmt.Errorf("%w within %v at %v", ErrNoBroker, c.opt.DialTimeout, c.opt.Addrs)
}

func (c *Client) fatalErr() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fatal
}

// Close ends everything at once: publishes that were sent and not answered end as ErrOutcomeUnknown, Runs return ErrClosed,
// consumers leave their groups by disappearing. Close producers and stop consumers first for an orderly end. It does not wait
// for callbacks and handlers, and may be called from them, and more than once.
func (c *Client) Close() error {
	c.closeOnce.Do(func() {
		c.inbox.post(&core.Input{Kind: core.InputClose})
	})
	<-c.done
	c.finishers.end()
	return nil
}

// deliverEvent runs in the loop.
func (c *Client) deliverEvent(e *core.Event) {
	switch e.Kind {
	case core.EventConnected:
		c.noteConnection(e.Text, nil)
	case core.EventDisconnected:
		c.noteConnection(e.Text, fromCore(&e.Err))
	case core.EventFailed:
		if e.Err.Code == wire.CodeAuthFailed && c.opt.Token == "" {
			e.Err.Message = "no token was given, and the broker wants one"
		}
		c.mu.Lock()
		c.fatal = fromCore(&e.Err)
		c.mu.Unlock()
		close(c.failed)
	case core.EventDeclared:
		c.mu.Lock()
		ch := c.calls[e.Ref]
		delete(c.calls, e.Ref)
		c.mu.Unlock()
		if ch != nil {
			ch <- *e
		}
	case core.EventProducerReady, core.EventProducerFailed:
		c.mu.Lock()
		p := c.producers[e.Handle]
		c.mu.Unlock()
		if p != nil {
			p.resolved(e)
		}
	case core.EventClosed:
		c.ended = true
	default:
		c.deliverConsumerEvent(e)
	}
}

// noteConnection is told of a connection that was made or lost.
func (c *Client) noteConnection(addr string, err error) {
	c.mu.Lock()
	if err == nil && !c.isUp {
		c.isUp = true
		close(c.connected)
	}
	if err != nil {
		c.lastErr = err
	}
	c.mu.Unlock()
	if c.opt.OnConnection != nil {
		c.opt.OnConnection(addr, err)
	}
}

// handle draws the name of a producer or consumer.
func (c *Client) handle() core.Handle {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handles++
	return c.handles
}

// Topic is what a broker said of a topic.
type Topic struct {
	ID         uint16
	Partitions int
	Created    bool // it was not there before
}

// Declare creates a topic, or finds it: with partitions 0 whatever its partition count is (a new one gets the broker's
// default), else only if it is the same.
func (c *Client) Declare(ctx context.Context, topic string, partitions int) (Topic, error) {
	if partitions < 0 || partitions > 1<<16-1 {
		return Topic{}, &Error{Code: wire.CodeMutationNotPackable, Op: wire.OpDeclare, Message: "a topic has at most 1024 partitions"}
	}
	e, err := c.call(ctx, core.Input{Kind: core.InputDeclare, Topic: topic, Count: uint16(partitions)})
	if err != nil {
		return Topic{}, err
	}
	return Topic{ID: e.TopicID, Partitions: int(e.Partitions), Created: e.Declared == wire.DeclareCreated}, nil
}

// DeleteTopic removes a topic, its dead letters and its groups. It says whether there was one; after a connection was lost
// on the way, false may also mean that an earlier attempt removed it.
func (c *Client) DeleteTopic(ctx context.Context, topic string) (bool, error) {
	e, err := c.call(ctx, core.Input{Kind: core.InputDelete, Topic: topic})
	return err == nil && e.Declared == wire.DeclareDeleted, err
}

// call posts a declare and waits for its end.
func (c *Client) call(ctx context.Context, in core.Input) (core.Event, error) {
	ch := make(chan core.Event, 1)
	c.mu.Lock()
	c.refs++
	in.Ref = c.refs
	c.calls[in.Ref] = ch
	c.mu.Unlock()
	if !c.inbox.post(&in) {
		c.mu.Lock()
		delete(c.calls, in.Ref)
		c.mu.Unlock()
		return core.Event{}, &Error{Op: wire.OpDeclare, cause: ErrClosed}
	}
	select {
	case e := <-ch:
		return e, fromCore(&e.Err)
	case <-ctx.Done():
	}
	posted := c.inbox.post(&core.Input{Kind: core.InputCancelDeclare, Ref: in.Ref})
	e := <-ch // the cancel, or the loop's end, brings it
	err := fromCore(&e.Err)
	if posted && err != nil {
		err = withContext(ctx, err)
	}
	return e, err
}

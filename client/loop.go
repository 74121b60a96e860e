package client

import (
	"sync"
	"time"

	"github.com/mortarmq/mortarmq/client/core"
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/clock/osclock"
	"github.com/mortarmq/mortarmq/net"
)

// inbox is what goroutines of the application hand to the loop. Whoever makes it non-empty wakes the loop, so a burst costs
// one wake-up and one turn.
type inbox struct {
	mu     sync.Mutex
	inputs []core.Input
	ended  bool
	wake   chan struct{} // holds one
}

// post hands over one input; false when the loop has ended and nobody will look at it.
func (b *inbox) post(in *core.Input) bool {
	b.mu.Lock()
	if b.ended {
		b.mu.Unlock()
		return false
	}
	first := len(b.inputs) == 0
	b.inputs = append(b.inputs, *in)
	b.mu.Unlock()
	if first {
		b.notify()
	}
	return true
}

// notify wakes the loop. It never blocks.
func (b *inbox) notify() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// swap takes what is there and leaves the given slice, emptied, in its place.
func (b *inbox) swap(spare []core.Input) []core.Input {
	b.mu.Lock()
	defer b.mu.Unlock()
	in := b.inputs
	b.inputs = spare[:0]
	return in
}

// end refuses later inputs and gives back those that came too late to be taken.
func (b *inbox) end() []core.Input {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	in := b.inputs
	b.inputs = nil
	return in
}

// network is a Network that can be stopped.
type network interface {
	net.Network
	// Close ends every connection and waits for the goroutines behind them.
	Close() error
}

// pollBytes is how much of what arrived one turn takes.
const pollBytes = 1 << 20

// inboxKeepMax is the largest inbox, in inputs, that is kept unused.
const inboxKeepMax = 1 << 10

// loop drives the core, until it has closed.
func (c *Client) loop() {
	defer close(c.done)
	var (
		clk    = osclock.New()
		out    core.Effects
		spare  []core.Input
		events []net.Event
		timer  = time.NewTimer(time.Hour)
	)
	defer timer.Stop()
	for !c.ended {
		in := c.inbox.swap(spare)
		for i := range events {
			in = append(in, core.Input{Kind: core.InputNet, Net: events[i]})
		}
		now := clk.Read().Mono
		c.core.Turn(now, in, &out)
		c.net.Submit(out.Requests)
		c.deliver(&out)
		clear(in)
		clear(events)
		if spare = in; cap(in) > inboxKeepMax && len(in) < cap(in)/4 {
			spare = nil
		}
		if c.ended {
			break
		}
		// This poll also gives back the memory that the last one lent: a client that sleeps holds none.
		if events = c.net.Poll(events[:0], pollBytes); len(events) == 0 {
			c.sleep(timer, now, out.Deadline)
			events = c.net.Poll(events[:0], pollBytes)
		}
	}
	for _, in := range c.inbox.end() {
		c.core.Turn(clk.Read().Mono, []core.Input{in}, &out)
		c.deliver(&out)
	}
	_ = c.net.Close() // nothing is left that an error could be about
}

// sleep waits for an input, a network event or the deadline. What came during the turn has left a wake-up behind.
func (c *Client) sleep(timer *time.Timer, now, deadline clock.Instant) {
	if deadline == clock.Never {
		<-c.inbox.wake
		return
	}
	timer.Reset(time.Duration(max(0, deadline.Sub(now))))
	select {
	case <-c.inbox.wake:
	case <-timer.C:
	}
}

// deliver hands a turn's effects to those who wait for them.
func (c *Client) deliver(out *core.Effects) {
	if len(out.Published) > 0 {
		c.deliverPublished(out.Published)
	}
	for i := range out.Events {
		c.deliverEvent(&out.Events[i])
	}
	if len(out.Deliveries) > 0 {
		c.deliverMessages(out.Deliveries)
	}
}

package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mortarmq/mortarmq/client/core"
	"github.com/mortarmq/mortarmq/wire"
)

// Consumer is a member of a group. It joins when it is made, and takes its first message when Run is called.
type Consumer struct {
	c      *Client
	opt    ConsumerOptions
	handle core.Handle
	topic  string
	group  string
	steps  steps

	joined chan struct{} // closed by the first membership, or by the end
	ended  chan struct{} // closed by the end
	base   context.Context
	cancel context.CancelCauseFunc // of base: every handler's context

	mu       sync.Mutex
	handler  Handler
	endErr   error // once hasEnded: nil after a stop
	hasEnded bool
	isMember bool // joined is closed
	stopping bool
	paused   bool
	runs     bool
	workers  map[uint16]*worker
}

// Handler handles a delivery. nil acknowledges it; an error gives it back, as Reject, Release and RetryAfter say, else for
// another attempt after the broker's backoff. ctx ends when the delivery is lost: with the connection or when a Stop ran out of
// patience.
type Handler func(ctx context.Context, d *Delivery) error

// Consumer joins a group that reads a topic, which is declared where it does not exist, unless MustExist is set.
func (c *Client) Consumer(ctx context.Context, topic, group string, opt ConsumerOptions) (*Consumer, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	s := &Consumer{c: c, opt: opt.withDefaults(), handle: c.handle(), topic: topic, group: group,
		joined: make(chan struct{}), ended: make(chan struct{}), workers: map[uint16]*worker{}}
	s.base, s.cancel = context.WithCancelCause(context.Background())
	c.mu.Lock()
	c.consumers[s.handle] = s
	c.mu.Unlock()
	in := core.Input{Kind: core.InputConsumer, Handle: s.handle, Topic: topic, Group: group, Consumer: s.opt.core()}
	if !c.inbox.post(&in) {
		s.end(&Error{Op: wire.OpSub, cause: ErrClosed})
	}
	select {
	case <-s.joined:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.hasEnded {
			return nil, s.endErr
		}
		return s, nil
	case <-ctx.Done():
		s.beginStop()
		return nil, waited(ctx, "joining group "+group)
	}
}

// Topic is the topic's name.
func (s *Consumer) Topic() string { return s.topic }

// Group is the group's name.
func (s *Consumer) Group() string { return s.group }

// Assigned are the partitions that are this member's now, in rising order.
func (s *Consumer) Assigned() []uint16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []uint16
	for n, w := range s.workers { // order-free: sorted below
		if w.owned {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}

// ErrRunning is what a second Run gets.
var ErrRunning = errors.New("mortarmq: the consumer has been run already")

// Run calls the handler for each message until Stop (then it returns nil), the context's end (its error), a refusal that the
// consumer cannot get over, or the Client's Close (ErrClosed). In the first two cases it starts no further handler, waits for
// those at work, and leaves the group; after StopGrace their contexts end too. A Consumer runs once.
func (s *Consumer) Run(ctx context.Context, handler Handler) error {
	s.mu.Lock()
	if s.runs {
		s.mu.Unlock()
		return ErrRunning
	}
	s.runs, s.handler = true, handler
	paused := s.paused
	s.mu.Unlock()
	if !paused {
		s.post(core.InputResume)
	}
	var err error
	select {
	case <-s.ended:
	case <-ctx.Done():
		err = context.Cause(ctx)
		s.beginStop()
		<-s.ended
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endErr != nil {
		return s.endErr
	}
	return err
}

// Stop ends a Run in good order, or leaves the group without one, and waits for it. When ctx ends first, the handlers' contexts
// end with it, and Stop returns its error; the consumer then leaves when they have returned.
func (s *Consumer) Stop(ctx context.Context) error {
	s.beginStop()
	select {
	case <-s.ended:
		return nil
	case <-ctx.Done():
		s.cancel(context.Cause(ctx))
		return waited(ctx, "stopping the consumer")
	}
}

// beginStop starts no further handler and lets the core leave the group when those at work have returned.
func (s *Consumer) beginStop() {
	s.mu.Lock()
	if s.stopping || s.hasEnded {
		s.mu.Unlock()
		return
	}
	s.stopping = true
	s.dropAll()
	s.post(core.InputStopConsumer)
	s.mu.Unlock()
	grace := time.AfterFunc(s.opt.StopGrace, func() { s.cancel(errStopGrace) })
	context.AfterFunc(s.base, func() { grace.Stop() })
}

var errStopGrace = errors.New("mortarmq: the consumer is stopping and its grace is over")

// Pause takes no more messages until Resume. What waits for a handler goes back to the broker, free of charge; handlers at
// work finish.
func (s *Consumer) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = true
	s.dropAll()
	s.post(core.InputPause)
}

// Resume goes on after Pause.
func (s *Consumer) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = false
	if s.runs {
		s.post(core.InputResume)
	}
}

func (s *Consumer) post(kind core.InputKind) {
	s.c.inbox.post(&core.Input{Kind: kind, Handle: s.handle})
}

// end is the end of the consumer, whatever brought it. It runs in the loop, or before the loop has seen the consumer.
func (s *Consumer) end(err error) {
	s.c.mu.Lock()
	delete(s.c.consumers, s.handle)
	s.c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hasEnded {
		return
	}
	s.hasEnded, s.endErr = true, err
	s.dropAll()
	if !s.isMember {
		s.isMember = true
		close(s.joined)
	}
	if s.opt.OnAssigned != nil || s.opt.OnRevoked != nil || s.opt.OnLost != nil || s.opt.OnTrouble != nil {
		s.steps.add(func() { close(s.ended) }) // behind the callbacks
	} else {
		close(s.ended)
	}
	if err == nil {
		err = ErrClosed
	}
	s.cancel(err)
}

// deliverConsumerEvent runs in the loop.
func (c *Client) deliverConsumerEvent(e *core.Event) {
	c.mu.Lock()
	s := c.consumers[e.Handle]
	c.mu.Unlock()
	if s == nil {
		return
	}
	switch e.Kind {
	case core.EventJoined:
		s.mu.Lock()
		if !s.isMember {
			s.isMember = true
			close(s.joined)
		}
		s.mu.Unlock()
	case core.EventAssigned:
		s.assigned(e.Partition)
	case core.EventRevoking:
		s.revoking(e.Partition)
	case core.EventRevoked:
		s.revoked(e.Partition, e.Epoch)
	case core.EventLost:
		s.lost(e.Partition)
	case core.EventConsumerTrouble:
		if s.opt.OnTrouble != nil {
			err := fromCore(&e.Err)
			s.steps.add(func() { s.opt.OnTrouble(err) })
		}
	case core.EventConsumerFailed:
		s.end(fromCore(&e.Err))
	case core.EventStopped:
		s.end(nil)
	}
}

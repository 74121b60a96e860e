package client

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/mortarmq/mortarmq/client/core"
	"github.com/mortarmq/mortarmq/clock"
)

// worker runs the handlers of one partition, PartitionHandlers at a time. Its goroutines live while there is something in the
// queue. It outlives the ownership: a handler of an earlier one may still be at work.
type worker struct {
	queue   []*Delivery
	head    int
	running int // goroutines
	busy    int // those of them that have a delivery
	owned   bool
	waiting bool // for OnAssigned to return
	ctx     context.Context
	cancel  context.CancelCauseFunc
}

func (s *Consumer) worker(partition uint16) *worker {
	w := s.workers[partition]
	if w == nil {
		w = &worker{}
		s.workers[partition] = w
	}
	return w
}

// deliverMessages runs in the loop. The deliveries of a turn share an allocation.
func (c *Client) deliverMessages(all []core.Delivery) {
	out := make([]Delivery, len(all))
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].Consumer == all[0].Consumer {
			n++
		}
		c.mu.Lock()
		s := c.consumers[all[0].Consumer]
		c.mu.Unlock()
		if s != nil {
			s.deliver(all[:n], out[:n])
		}
		all, out = all[n:], out[n:]
	}
}

func (s *Consumer) deliver(in []core.Delivery, out []Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range in {
		d := &in[i]
		w := s.worker(d.Partition)
		out[i] = Delivery{Partition: d.Partition, Sequence: d.Sequence, Attempt: int(d.Attempt), Redelivered: d.Redelivered, FromDLQ: d.FromDLQ,
			ProducerID: d.ProducerID, ProducerSeq: d.ProducerSeq, Key: d.Key, Value: d.Value, s: s, id: d.DeliveryID, ctx: w.ctx}
		if s.paused || s.stopping || s.hasEnded || w.ctx == nil {
			s.settle(&out[i], core.SettleDrop, nil)
			continue
		}
		w.queue = append(w.queue, &out[i])
		s.start(w)
	}
}

// start starts a handler goroutine if there is work that no other is about to
// take.
func (s *Consumer) start(w *worker) {
	if w.running < s.opt.PartitionHandlers && w.running-w.busy < len(w.queue)-w.head && !w.waiting && s.handler != nil {
		w.running++
		go s.work(w)
	}
}

// work handles what is in the queue.
func (s *Consumer) work(w *worker) {
	clean := false
	defer func() {
		if clean {
			return
		}
		// A handler has ended its goroutine (runtime.Goexit): another takes its place.
		s.mu.Lock()
		w.running--
		w.busy--
		s.start(w)
		s.mu.Unlock()
	}()
	for done := 0; ; done = 1 {
		d := s.take(w, done)
		if d == nil {
			clean = true
			return
		}
		s.handle1(d)
	}
}

// take is the next delivery for a goroutine that is done with one or with none,
// or nil: then the goroutine is over.
func (s *Consumer) take(w *worker, done int) *Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.busy -= done
	if w.head == len(w.queue) {
		w.queue, w.head = w.queue[:0], 0
		w.running--
		return nil
	}
	d := w.queue[w.head]
	w.queue[w.head] = nil
	w.head++
	w.busy++
	return d
}

// handle1 calls the handler and settles as it says.
func (s *Consumer) handle1(d *Delivery) {
	err := error(errGone)
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
		s.finish(d, err)
	}()
	err = s.handler(d.ctx, d)
}

var errGone = errors.New("mortarmq: the handler ended its goroutine")

// PanicError is a handler's panic.
type PanicError struct {
	Value any
	Stack []byte
}

// Error is the panic's value.
func (e *PanicError) Error() string {
	return fmt.Sprintf("mortarmq: the handler panicked: %v", e.Value)
}

// finish settles a delivery by its handler's result.
func (s *Consumer) finish(d *Delivery, err error) {
	if err == nil {
		s.settle(d, core.SettleAck, nil)
		return
	}
	how := core.SettleRetry
	var v *verdict
	if errors.As(err, &v) {
		how = v.how
	}
	if s.opt.OnError != nil {
		// Before it is settled, so that OnError and the next handler of the partition do not overlap.
		s.opt.OnError(d, err)
	}
	s.settle(d, how, v)
}

func (s *Consumer) settle(d *Delivery, how core.Settle, v *verdict) {
	in := core.Input{Kind: core.InputSettle, Handle: s.handle, Partition: d.Partition, Delivery: d.id, Settle: how}
	if v != nil && v.delayed {
		in.HasDelay, in.Delay = true, clock.Duration(v.delay)
	}
	s.c.inbox.post(&in)
}

// drop gives back what no handler has begun.
func (s *Consumer) drop(w *worker) {
	for _, d := range w.queue[w.head:] {
		s.settle(d, core.SettleDrop, nil)
	}
	clear(w.queue)
	w.queue, w.head = w.queue[:0], 0
}

func (s *Consumer) dropAll() {
	for _, w := range s.workers { // order-free: partitions do not depend on each other
		s.drop(w)
	}
}

func (s *Consumer) assigned(partition uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.worker(partition)
	w.owned = true
	w.ctx, w.cancel = context.WithCancelCause(s.base)
	if s.opt.OnAssigned == nil {
		return
	}
	w.waiting = true
	s.steps.add(func() {
		s.opt.OnAssigned(partition)
		s.mu.Lock()
		defer s.mu.Unlock()
		w.waiting = false
		for range s.opt.PartitionHandlers {
			s.start(w)
		}
	})
}

func (s *Consumer) revoking(partition uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(s.worker(partition))
}

func (s *Consumer) revoked(partition uint16, epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disown(s.worker(partition), errRevoked)
	if s.opt.OnRevoked == nil {
		return // the core has confirmed
	}
	s.steps.add(func() {
		s.opt.OnRevoked(partition)
		s.c.inbox.post(&core.Input{Kind: core.InputConfirmRevoke, Handle: s.handle, Partition: partition, Ref: epoch})
	})
}

func (s *Consumer) lost(partition uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.worker(partition)
	s.drop(w)
	s.disown(w, errLost)
	if s.opt.OnLost != nil {
		s.steps.add(func() { s.opt.OnLost(partition) })
	}
}

func (s *Consumer) disown(w *worker, cause error) {
	w.owned = false
	if w.cancel != nil {
		w.cancel(cause)
		w.ctx, w.cancel = nil, nil
	}
}

var (
	errRevoked = errors.New("mortarmq: the partition was revoked")
	errLost    = errors.New("mortarmq: the partition was lost, its messages are delivered again")
)

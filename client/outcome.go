package client

import (
	"context"
	"time"

	"github.com/mortarmq/mortarmq/client/core"
)

// deliverPublished runs in the loop. Outcomes of one producer that stand together take its mutex once.
func (c *Client) deliverPublished(all []core.Published) {
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].Producer == all[0].Producer {
			n++
		}
		c.mu.Lock()
		p := c.producers[all[0].Producer]
		c.mu.Unlock()
		if p != nil {
			p.published(all[:n])
		}
		all = all[n:]
	}
}

func (p *Producer) published(all []core.Published) {
	p.mu.Lock()
	for i := range all {
		o := &all[i]
		e := p.leave(o.Ref)
		switch {
		case e.waiter != nil:
			e.waiter.result, e.waiter.err = resultOf(o), fromCore(&o.Err)
			e.waiter.done <- struct{}{}
		case e.callback != nil:
			p.calling++
			p.batch = append(p.batch, finished{producer: p, callback: e.callback, result: resultOf(o), err: fromCore(&o.Err)})
		}
	}
	p.settleIdle()
	p.mu.Unlock()
	p.signalRoom()
	if len(p.batch) > 0 {
		p.c.finishers.add(p.batch)
		clear(p.batch)
		p.batch = p.batch[:0]
	}
}

func resultOf(o *core.Published) Result {
	if o.Err.Failed() {
		return Result{}
	}
	return Result{Partition: o.Partition, Sequence: o.Sequence, CommitSeq: o.CommitSeq, LeaderEpoch: o.LeaderEpoch,
		Durability: o.Durability, Deduplicated: o.Deduplicated}
}

// ranCallbacks says that n more callbacks have returned.
func (p *Producer) ranCallbacks(n int) {
	p.mu.Lock()
	p.calling -= n
	p.settleIdle()
	p.mu.Unlock()
}

func (p *Producer) settleIdle() {
	if p.idle != nil && p.held == 0 && p.calling == 0 {
		close(p.idle)
		p.idle = nil
	}
}

// Flush waits until nothing that was published is without outcome and every callback has returned, or ctx ends. Called from
// a callback it would wait for itself.
func (p *Producer) Flush(ctx context.Context) error {
	p.mu.Lock()
	if p.held == 0 && p.calling == 0 {
		p.mu.Unlock()
		return nil
	}
	if p.idle == nil {
		p.idle = make(chan struct{})
	}
	idle := p.idle
	p.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return waited(ctx, "flushing")
	}
}

// Close takes no more publishes and flushes. When ctx ends first, what has no outcome gets one: ErrOutcomeUnknown where it was
// sent, else ErrClosed; and Close returns the context's error.
func (p *Producer) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.signalRoom()
	err := p.Flush(ctx)
	p.abort()
	defer p.forget()
	if err != nil {
		// The outcomes are on their way; callbacks that hang are not waited for.
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
		defer cancel()
		_ = p.Flush(grace) // its error is the one that is returned already
	}
	return err
}

// closeGrace is how long Close waits for the outcomes that it brought about.
const closeGrace = time.Second

// abort gives up what is under way.
func (p *Producer) abort() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.signalRoom()
	p.c.inbox.post(&core.Input{Kind: core.InputCloseProducer, Handle: p.handle})
}

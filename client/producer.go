package client

import (
	"context"
	"sync"

	"github.com/mortarmq/mortarmq/client/core"
	"github.com/mortarmq/mortarmq/wire"
)

// Partition says where a message goes. Its zero value is AnyPartition.
type Partition uint32

// AnyPartition leaves the choice to the key's hash or, without a key, to turns.
const AnyPartition Partition = 0

// InPartition is partition n of the topic, from 0.
func InPartition(n uint16) Partition { return Partition(n) + 1 }

// Message is what is published.
type Message struct {
	Key       []byte // at most 255 bytes; may be empty
	Value     []byte // at most 16 MiB - 1 KiB
	Partition Partition
}

// Result is where a message is in the log.
type Result struct {
	Partition    uint16
	Sequence     uint64
	CommitSeq    uint64 // of the partition, when the broker answered
	LeaderEpoch  uint64
	Durability   wire.Durability
	Deduplicated bool // an earlier attempt had put it there
}

// Producer publishes to one topic. Its methods may be called from any goroutine; what one goroutine publishes to a partition
// is in the log in that order.
type Producer struct {
	c      *Client
	opt    ProducerOptions
	handle core.Handle
	topic  string

	ready      chan struct{} // closed when the topic is resolved, or cannot be
	readyErr   error
	partitions int

	mu      sync.Mutex
	buf     buffer
	pending []pending // by index in a Ref
	free    []uint32
	held    int // accepted and without outcome
	calling int // outcomes whose callbacks have not returned
	closed  bool
	room    chan struct{} // holds one: somebody who waits for room may look again
	idle    chan struct{} // closed when held and calling are 0; nil while nobody waits
	batch   []finished    // the loop's
}

// pending is a publish under way.
type pending struct {
	gen      uint32
	chunk    *chunk
	waiter   *waiter
	callback func(Result, error)
}

// waiter is a Publish that waits.
type waiter struct {
	done   chan struct{} // holds one
	result Result
	err    error
}

var waiters = sync.Pool{New: func() any { return &waiter{done: make(chan struct{}, 1)} }}

// Producer makes a producer for a topic, which is declared where it does not exist, unless MustExist is set.
func (c *Client) Producer(ctx context.Context, topic string, opt ProducerOptions) (*Producer, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	p := &Producer{c: c, opt: opt.withDefaults(), handle: c.handle(), topic: topic,
		ready: make(chan struct{}), room: make(chan struct{}, 1)}
	c.mu.Lock()
	c.producers[p.handle] = p
	c.mu.Unlock()
	in := core.Input{Kind: core.InputProducer, Handle: p.handle, Topic: topic,
		Producer: &core.ProducerOptions{Plain: opt.Plain, MustExist: opt.MustExist}}
	if !c.inbox.post(&in) {
		p.forget()
		return nil, &Error{Op: wire.OpDeclare, cause: ErrClosed}
	}
	select {
	case <-p.ready:
		if p.readyErr != nil {
			p.forget()
			return nil, p.readyErr
		}
		return p, nil
	case <-ctx.Done():
		p.abort()
		p.forget()
		return nil, waited(ctx, "looking for topic "+topic)
	}
}

// resolved runs in the loop.
func (p *Producer) resolved(e *core.Event) {
	select {
	case <-p.ready: // an end after the beginning
		return
	default:
	}
	p.readyErr = fromCore(&e.Err)
	p.partitions = int(e.Partitions)
	close(p.ready)
}

// forget takes the producer out of the Client, unless outcomes are still to come.
func (p *Producer) forget() {
	p.mu.Lock()
	held := p.held
	p.mu.Unlock()
	if held > 0 {
		return
	}
	p.c.mu.Lock()
	delete(p.c.producers, p.handle)
	p.c.mu.Unlock()
}

// Topic is the topic's name.
func (p *Producer) Topic() string { return p.topic }

// Partitions is how many partitions the topic has.
func (p *Producer) Partitions() int { return p.partitions }

// Publish publishes a message and waits for its outcome. When ctx ends first, the error says whether the message certainly
// is not in the log, or is ErrOutcomeUnknown.
func (p *Producer) Publish(ctx context.Context, m Message) (Result, error) {
	w := waiters.Get().(*waiter)
	ref, err := p.accept(ctx, &m, pending{waiter: w})
	if err != nil {
		waiters.Put(w)
		return Result{}, err
	}
	var cancelled bool
	select {
	case <-w.done:
	case <-ctx.Done():
		cancelled = p.c.inbox.post(&core.Input{Kind: core.InputCancel, Handle: p.handle, Ref: ref})
		<-w.done // the cancel, or the loop's end, brings it
	}
	res, err := w.result, w.err
	*w = waiter{done: w.done}
	waiters.Put(w)
	if cancelled && err != nil {
		err = withContext(ctx, err)
	}
	return res, err
}

// PublishAsync publishes a message and returns once it has a place in the buffer; ctx bounds only that wait. Its outcome goes
// to callback, which may be nil, in a goroutine that all callbacks of the Client share: callbacks of a partition come in
// order, and should be quick. Key and Value are the caller's again when PublishAsync returns. An error means that there will be no
// callback.
func (p *Producer) PublishAsync(ctx context.Context, m Message, callback func(Result, error)) error {
	_, err := p.accept(ctx, &m, pending{callback: callback})
	return err
}

// accept waits for room, copies the message and hands it to the loop.
func (p *Producer) accept(ctx context.Context, m *Message, e pending) (uint64, error) {
	in := core.Input{Kind: core.InputPublish, Handle: p.handle, Partition: core.AnyPartition}
	if m.Partition != AnyPartition {
		if int(m.Partition) > p.partitions {
			return 0, &Error{Code: wire.CodeUnknownPartition, Op: wire.OpPub, Message: "the topic does not have that partition"}
		}
		in.Partition = uint16(m.Partition - 1)
	}
	if len(m.Key) > wire.MaxKeyLen || len(m.Value) > wire.MaxValueLen {
		return 0, &Error{Code: wire.CodeMalformedPayload, Op: wire.OpPub, Message: "a key has at most 255 bytes and a value at most 16776192"}
	}
	p.mu.Lock()
	for !p.closed && !p.hasRoom(len(m.Key)+len(m.Value)) {
		p.mu.Unlock()
		select {
		case <-p.room:
		case <-ctx.Done():
			p.signalRoom() // another may have come for nothing
			return 0, waited(ctx, "the producer's buffer is full")
		}
		p.mu.Lock()
	}
	if p.closed {
		p.mu.Unlock()
		p.signalRoom()
		return 0, &Error{Op: wire.OpPub, cause: ErrClosed}
	}
	e.chunk, in.Key, in.Value = p.buf.put(m.Key, m.Value)
	in.Ref = p.enter(e)
	// Posted under the mutex: what is accepted in an order is published in that order.
	posted := p.c.inbox.post(&in)
	if !posted {
		p.leave(in.Ref)
	}
	more := p.hasRoom(0)
	p.mu.Unlock()
	if more {
		p.signalRoom()
	}
	if !posted {
		return 0, &Error{Op: wire.OpPub, cause: ErrClosed}
	}
	return in.Ref, nil
}

func (p *Producer) hasRoom(n int) bool {
	return p.held < p.opt.MaxBufferedMessages && p.buf.room(n, p.opt.MaxBufferedBytes)
}

// signalRoom lets one that waits for room look again.
func (p *Producer) signalRoom() {
	select {
	case p.room <- struct{}{}:
	default:
	}
}

// enter notes a publish under way and gives its Ref: a generation over an index, so that a Ref is not used again.
func (p *Producer) enter(e pending) uint64 {
	var i uint32
	if n := len(p.free); n > 0 {
		i = p.free[n-1]
		p.free = p.free[:n-1]
	} else {
		i = uint32(len(p.pending))
		p.pending = append(p.pending, pending{})
	}
	e.gen = p.pending[i].gen + 1
	p.pending[i] = e
	p.held++
	return uint64(e.gen)<<32 | uint64(i)
}

// leave ends a publish under way.
func (p *Producer) leave(ref uint64) pending {
	i := uint32(ref)
	e := p.pending[i]
	p.pending[i] = pending{gen: e.gen}
	p.free = append(p.free, i)
	p.buf.release(e.chunk)
	p.held--
	return e
}

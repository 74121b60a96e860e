package core

import "github.com/mortarmq/mortarmq/wire"

// producer publishes to one topic.
type producer struct {
	handle  Handle
	plain   bool
	id      uint64 // of every lane's first incarnation
	ready   bool
	topicID uint16
	lanes   []*lane // by partition; nil until something is published to it
	turn    int     // the partition that keyless messages go to now
	stuck   int     // how many went to it
	turnAt  uint64  // and in which turn the last did
}

// stickMax is how many keyless messages in a row one partition takes: enough that a burst makes few runs, few enough that
// partitions stay level.
const stickMax = 32

func (c *Core) newProducer(in *Input) {
	opt := in.Producer
	if opt == nil {
		opt = &ProducerOptions{}
	}
	p := &producer{handle: in.Handle, plain: opt.Plain, id: opt.ID}
	if p.id == 0 {
		p.id = c.rng.id()
	}
	assert(c.producer(in.Handle) == nil, "a producer handle is used twice")
	c.producers = append(c.producers, p)
	if wire.IsDLQName([]byte(in.Topic)) {
		c.producerResolved(p, wire.DeclareResult{},
			refusal(wire.CodeInvalidTopic, "a dead-letter topic takes no publishes: publish to the topic itself"))
		return
	}
	c.addCall(&call{producer: p, name: in.Topic, lookup: opt.MustExist})
}

func (c *Core) producer(h Handle) *producer {
	for _, p := range c.producers {
		if p.handle == h {
			return p
		}
	}
	return nil
}

func (c *Core) producerResolved(p *producer, res wire.DeclareResult, err Err) {
	if err.Failed() {
		c.removeProducer(p)
		c.event(Event{Kind: EventProducerFailed, Handle: p.handle, Err: err})
		return
	}
	p.topicID = res.TopicID
	p.lanes = make([]*lane, res.PartitionCount)
	p.ready = true
	c.event(Event{Kind: EventProducerReady, Handle: p.handle, TopicID: res.TopicID, Partitions: res.PartitionCount})
}

func (c *Core) removeProducer(p *producer) {
	for i, other := range c.producers {
		if other == p {
			c.producers = append(c.producers[:i], c.producers[i+1:]...)
			return
		}
	}
}

// publish accepts a message (C1), or refuses what the broker would refuse for its form.
func (c *Core) publish(in *Input) {
	p := c.producer(in.Handle)
	switch {
	case p == nil && c.fatal.Failed():
		c.refusePublish(in, c.fatal)
		return
	case p == nil:
		c.refusePublish(in, Err{Reason: ReasonClosed, Op: wire.OpPub})
		return
	}
	assert(p.ready, "Publish before EventProducerReady")
	partitions := uint16(len(p.lanes))
	partition := in.Partition
	switch {
	case len(in.Key) > wire.MaxKeyLen || len(in.Value) > wire.MaxValueLen:
		c.refusePublish(in, Err{Reason: ReasonRefused, Op: wire.OpPub, Code: wire.CodeMalformedPayload,
			Message: "a key has at most 255 bytes and a value at most 16776192"})
		return
	case partition == AnyPartition && len(in.Key) > 0:
		partition = wire.Partition(in.Key, partitions)
	case partition == AnyPartition:
		partition = p.nextPartition(uint64(c.now))
	case partition >= partitions:
		c.refusePublish(in, Err{Reason: ReasonRefused, Op: wire.OpPub, Code: wire.CodeUnknownPartition,
			Message: "the topic does not have that many partitions"})
		return
	}
	l := p.lanes[partition]
	if l == nil {
		l = &lane{producer: p, partition: partition, id: p.id, nextSeq: 1, window: inFlightMax, head: none, tail: none, unsent: none}
		p.lanes[partition] = l
	}
	i := c.items.take()
	it := c.items.at(i)
	it.ref, it.key, it.value, it.lane = in.Ref, in.Key, in.Value, l
	c.enqueue(l, i)
}

// nextPartition goes round: on to the next partition when the last one has had its share, or when time has passed.
func (p *producer) nextPartition(turn uint64) uint16 {
	if p.stuck >= stickMax || turn != p.turnAt && p.stuck > 0 {
		p.turn, p.stuck = (p.turn+1)%len(p.lanes), 0
	}
	p.stuck++
	p.turnAt = turn
	return uint16(p.turn)
}

func (c *Core) refusePublish(in *Input, err Err) {
	c.out.Published = append(c.out.Published, Published{Ref: in.Ref, Producer: in.Handle, Partition: in.Partition, Err: err})
}

// cancel ends the publish that ref names, if it is still under way. One that certainly has had no effect is taken out of its
// lane; any other is Unknown to its caller and goes on, because its sequence must be resolved before those behind it.
func (c *Core) cancel(in *Input) {
	p := c.producer(in.Handle)
	if p == nil {
		return
	}
	for _, l := range p.lanes {
		if l == nil {
			continue
		}
		for i := l.head; i != none; i = c.items.at(i).next {
			it := c.items.at(i)
			if it.ref != in.Ref || it.has(abandoned) {
				continue
			}
			err := Err{Reason: ReasonCanceled, Op: wire.OpPub, Code: it.code}
			if it.has(inFlight | uncertain) {
				err.Unknown = true
				c.outcome(it, err)
				c.abandon(it)
				return
			}
			c.outcome(it, err)
			c.breakLane(l, i, true)
			c.remove(l, i)
			c.rewindIdle(l)
			return
		}
	}
}

// abandon keeps an item whose outcome is out. What it borrowed is the caller's again, so it is copied.
func (c *Core) abandon(it *item) {
	it.flags |= abandoned
	it.key = append([]byte(nil), it.key...)
	it.value = append([]byte(nil), it.value...)
}

// outcome reports an item that failed.
func (c *Core) outcome(it *item, err Err) {
	if it.has(abandoned) {
		return
	}
	c.out.Published = append(c.out.Published, Published{Ref: it.ref, Producer: it.lane.producer.handle,
		Partition: it.lane.partition, ProducerID: it.id, ProducerSeq: it.seq, Err: err})
}

func (c *Core) closeProducer(in *Input) {
	p := c.producer(in.Handle)
	if p == nil {
		return
	}
	c.removeProducer(p)
	c.endProducer(p, Err{Reason: ReasonClosed, Op: wire.OpPub})
}

// endProducer gives every item its outcome. Those in flight stay in the slab until their answer or the connection's end.
func (c *Core) endProducer(p *producer, err Err) {
	if !p.ready {
		c.forgetCalls(p, nil)
		if err.Failed() && !c.fatal.Failed() {
			c.event(Event{Kind: EventProducerFailed, Handle: p.handle, Err: err})
		}
	}
	for _, l := range p.lanes {
		if l == nil {
			continue
		}
		l.closed = true
		for i := l.head; i != none; {
			it := c.items.at(i)
			next := it.next
			e := err
			e.Unknown = it.has(inFlight | uncertain)
			c.outcome(it, e)
			if it.has(inFlight) {
				it.flags |= abandoned
				it.key, it.value = nil, nil
			} else {
				c.remove(l, i)
			}
			i = next
		}
	}
}

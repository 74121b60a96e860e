package core

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
)

// part is one partition as a consumer sees it. Invariants: while it is not owned, queue is empty and every handed is lost;
// settling counts the settlements of this epoch that are not answered; revoking implies owned.
type part struct {
	number   uint16
	owned    bool
	revoking bool
	asked    bool // EventRevoked is out
	touched  bool // in Core.touched
	epoch    uint64
	notice   wire.Notice // the REVOKE, while revoking
	twins    bool        // the queue may hold a redelivery of what is handed
	queue    queue
	handed   []handed // with the application, oldest first
	settling int
	hold     hold
}

// handed is a delivery that the application has.
type handed struct {
	seq     uint64
	id      uint64
	bytes   uint32
	lost    bool          // its ownership is over
	joined  uint32        // consumer.generation of its membership
	renewed clock.Instant // when its lease was last known to begin
}

// hold is the message that StrictOrder waits for.
type hold struct {
	seq   uint64
	until clock.Instant // when waiting is given up
	fails int           // how often it was given back with a charge
}

// lose ends the ownership.
func (p *part) lose() {
	p.owned, p.revoking, p.asked = false, false, false
	p.settling = 0
	p.queue.clear()
	p.hold = hold{}
	for i := range p.handed {
		p.handed[i].lost = true
	}
}

// queued is a delivery that waits for its turn.
type queued struct {
	Delivery
	renewed clock.Instant
}

// queue is a ring of deliveries.
type queue struct {
	ring []queued
	head int
	n    int
}

func (q *queue) at(i int) *queued { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

func (q *queue) push(d queued) {
	if q.n == len(q.ring) {
		grown := make([]queued, max(8, 2*q.n))
		for i := range q.n {
			grown[i] = *q.at(i)
		}
		q.ring, q.head = grown, 0
	}
	q.n++
	*q.at(q.n - 1) = d
}

func (q *queue) pop() queued {
	d := *q.at(0)
	*q.at(0) = queued{}
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return d
}

// cut takes out the one at i.
func (q *queue) cut(i int) {
	for ; i+1 < q.n; i++ {
		*q.at(i) = *q.at(i + 1)
	}
	*q.at(q.n - 1) = queued{}
	q.n--
}

// sift moves the last one forward to where its sequence belongs.
func (q *queue) sift() {
	for i := q.n - 1; i > 0 && q.at(i).Sequence < q.at(i-1).Sequence; i-- {
		a, b := q.at(i), q.at(i-1)
		*a, *b = *b, *a
	}
}

// find is the place of a sequence, or -1.
func (q *queue) find(seq uint64) int {
	for i := range q.n {
		if q.at(i).Sequence == seq {
			return i
		}
	}
	return -1
}

func (q *queue) clear() { *q = queue{} }

func (c *Core) onMsg(f wire.Frame) error {
	var m wire.Msg
	if err := m.Decode(f.Payload); err != nil {
		return err
	}
	var s *consumer
	for _, o := range c.consumers {
		if o.sub == m.SubscriptionID && (o.state == stateMember || o.state == stateLeaving) {
			s = o
		}
	}
	if s == nil || int(m.Partition) >= len(s.parts) || m.TopicID != s.topicID {
		return nil // of a membership that this side has given up
	}
	s.credit.take(len(m.Value))
	s.pulls.got()
	s.trouble = ""
	p := &s.parts[m.Partition]
	if !p.owned || p.revoking || s.stopping || p.epoch != m.OwnershipEpoch {
		s.credit.giveBack(c.now, 1, uint32(len(m.Value)))
		return nil
	}
	if m.Flags&wire.FlagMsgRedelivered != 0 {
		// Its lease has run out while it waited here: the later delivery counts.
		if i := p.queue.find(m.Sequence); i >= 0 {
			s.credit.giveBack(c.now, 1, uint32(len(p.queue.at(i).Value)))
			p.queue.cut(i)
		}
		p.twins = true
	}
	d := Delivery{Consumer: s.handle, Partition: m.Partition, Attempt: m.Attempt,
		Redelivered: m.Flags&wire.FlagMsgRedelivered != 0, FromDLQ: m.Flags&wire.FlagMsgFromDLQ != 0,
		Sequence: m.Sequence, DeliveryID: m.DeliveryID, OwnershipEpoch: m.OwnershipEpoch,
		ProducerID: m.ProducerID, ProducerSeq: m.ProducerSeq, Key: m.Key, Value: m.Value}
	if !f.Owned {
		d.Key, d.Value = c.keep(m.Key, m.Value)
	}
	p.queue.push(queued{Delivery: d, renewed: c.now})
	if s.opt.StrictOrder {
		p.queue.sift()
	}
	c.touch(s, p)
	return nil
}

// chunkSize is what is allocated for the deliveries of a turn together; a larger one gets its own.
const chunkSize = 64 << 10

// keep copies what is borrowed from the network. Small deliveries share an allocation, which lives as long as one of them.
func (c *Core) keep(key, value []byte) (k, v []byte) {
	n := len(key) + len(value)
	if n > chunkSize/4 {
		b := append(append(make([]byte, 0, n), key...), value...)
		return b[:len(key):len(key)], b[len(key):n:n]
	}
	if len(c.chunk)+n > cap(c.chunk) {
		c.chunk = make([]byte, 0, chunkSize)
	}
	at := len(c.chunk)
	c.chunk = append(append(c.chunk, key...), value...)
	return c.chunk[at : at+len(key) : at+len(key)], c.chunk[at+len(key) : at+n : at+n]
}

// touch lets the partition be looked at when the turn ends. What is handed out then is consistent with all that the turn has
// brought, so the driver takes Events first and Deliveries then.
func (c *Core) touch(s *consumer, p *part) {
	if !p.touched {
		p.touched = true
		c.touched = append(c.touched, touched{s, p})
	}
}

type touched struct {
	consumer *consumer
	part     *part
}

func (c *Core) handOutTouched() {
	for _, t := range c.touched {
		t.part.touched = false
		if t.consumer.state == stateMember {
			c.handOut(t.consumer, t.part)
		}
	}
	clear(c.touched)
	c.touched = c.touched[:0]
}

// handOut gives the application what may be given (C8).
func (c *Core) handOut(s *consumer, p *part) {
	if s.stopping || !p.owned || p.revoking {
		return
	}
	if s.paused {
		c.releaseQueue(s, p)
		return
	}
	for p.queue.n > 0 && len(p.handed) < s.opt.HandOut {
		if s.opt.StrictOrder && (p.settling > 0 || p.hold.seq != 0 && p.queue.at(0).Sequence != p.hold.seq) {
			return
		}
		d := p.queue.pop()
		p.handed = append(p.handed, handed{seq: d.Sequence, id: d.DeliveryID, bytes: uint32(len(d.Value)), joined: s.generation, renewed: d.renewed})
		c.out.Deliveries = append(c.out.Deliveries, d.Delivery)
	}
}

// dropQueue lets go what waits. The broker delivers it elsewhere, free of charge, once the ownership ends.
func (c *Core) dropQueue(s *consumer, p *part) {
	for i := range p.queue.n {
		s.credit.giveBack(c.now, 1, uint32(len(p.queue.at(i).Value)))
	}
	p.queue.clear()
}

// renew sends PROGRESS for what waits here, so that a lease is spent by a handler and not by a queue.
func (c *Core) renew(s *consumer) {
	s.renewAt = c.now.Add(s.opt.Lease / 6)
	old := func(t clock.Instant) bool { return c.now.Sub(t) >= s.opt.Lease/3 }
	for i := range s.parts {
		p := &s.parts[i]
		if !p.owned {
			continue
		}
		for j := range p.handed {
			h := &p.handed[j]
			if j >= s.opt.Handlers && !h.lost && old(h.renewed) {
				h.renewed = c.now
				c.queueProgress(s, p, h.seq, h.id)
			}
		}
		for j := range p.queue.n {
			d := p.queue.at(j)
			if old(d.renewed) {
				d.renewed = c.now
				c.queueProgress(s, p, d.Sequence, d.DeliveryID)
			}
		}
	}
}

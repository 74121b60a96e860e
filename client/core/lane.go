package core

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
)

// lane is the queue of one producer for one partition: a list of items in order of arrival. unsent is the first that is not
// in flight and has not been answered in this run. While rewinding, a sequence has failed and nothing more is sent until the
// last answer of the run is in. An incarnation is a producer_id with its sequences; a lane takes the next one when a sequence
// of this one will never be used (breakLane).
type lane struct {
	producer  *producer
	partition uint16
	id        uint64 // of this incarnation
	nextSeq   uint64
	head      int32
	tail      int32
	unsent    int32

	inFlight  int
	flightID  uint64 // incarnation of what is in flight: two are never in flight together
	window    int    // how many may be: 1 after a refusal, doubled by each OK
	rewinding bool
	queued    bool // in Core.ready
	resting   bool // in Core.resting
	closed    bool
	failures  int
	resumeAt  clock.Instant
}

func (c *Core) enqueue(l *lane, i int32) {
	it := c.items.at(i)
	it.prev, it.next = l.tail, none
	if l.tail == none {
		l.head = i
	} else {
		c.items.at(l.tail).next = i
	}
	l.tail = i
	if l.unsent == none {
		l.unsent = i
	}
	c.wake(l)
}

// remove takes an item out of its lane and the slab.
func (c *Core) remove(l *lane, i int32) {
	it := c.items.at(i)
	if it.prev == none {
		l.head = it.next
	} else {
		c.items.at(it.prev).next = it.next
	}
	if it.next == none {
		l.tail = it.prev
	} else {
		c.items.at(it.next).prev = it.prev
	}
	if l.unsent == i {
		l.unsent = it.next
	}
	c.items.put(i)
}

// wake puts the lane among those that may send.
func (c *Core) wake(l *lane) {
	if !l.queued && c.sendable(l) {
		l.queued = true
		c.ready.push(l)
	}
}

func (c *Core) sendable(l *lane) bool {
	if l.unsent == none || l.rewinding || l.resting || l.closed || l.inFlight >= l.window {
		return false
	}
	return l.inFlight == 0 || l.flightID == c.items.at(l.unsent).incarnation(l)
}

// incarnation is the producer_id that the item has been, or would be, sent under.
func (it *item) incarnation(l *lane) uint64 {
	if it.seq != 0 {
		return it.id
	}
	return l.id
}

// sendPubs lets the lanes send in turns, a quantum each, while the connection has room (C6).
func (c *Core) sendPubs() {
	const quantum = 32
	for full := false; c.ready.n > 0 && !full; {
		l := c.ready.pop()
		for n := 0; n < quantum && c.sendable(l); n++ {
			if full = !c.pubRoom(c.items.at(l.unsent).size()); full {
				break
			}
			c.sendPub(l)
		}
		l.queued = false
		c.wake(l)
	}
}

func (c *Core) pubRoom(size int) bool {
	if c.pubs >= c.opt.MaxInFlight || c.fifo.len() >= requestsMax {
		return false
	}
	return c.pubs == 0 || c.pubBytes+size <= c.opt.MaxInFlightBytes
}

// copyMax is the value size up to which a value is copied next to its header instead of being sent by itself.
const copyMax = 32 << 10

func (c *Core) sendPub(l *lane) {
	i := l.unsent
	it := c.items.at(i)
	m := wire.Pub{TopicID: l.producer.topicID, Partition: l.partition, Key: it.key}
	if !l.producer.plain {
		if it.seq == 0 {
			it.id, it.seq = l.id, l.nextSeq
			l.nextSeq++
		}
		m.ProducerID, m.ProducerSeq = it.id, it.seq
	}
	c.wbuf = m.AppendHeader(c.wbuf, len(it.value))
	if len(it.value) <= copyMax {
		c.wbuf = append(c.wbuf, it.value...)
	} else {
		c.sendLarge(it.value)
	}
	it.flags |= inFlight
	it.bytes = int32(it.size())
	l.unsent = it.next
	l.inFlight++
	l.flightID = it.incarnation(l)
	c.pubs++
	c.pubBytes += int(it.bytes)
	c.request(request{op: wire.OpPub, slot: i})
}

// rest keeps a lane from sending until its backoff is over.
func (c *Core) rest(l *lane) {
	if !l.resting {
		l.resting = true
		c.resting = append(c.resting, l)
	}
}

func (c *Core) wakeLanes() {
	kept := c.resting[:0]
	for _, l := range c.resting {
		if c.now < l.resumeAt && !l.closed {
			kept = append(kept, l)
			continue
		}
		l.resting = false
		c.wake(l)
	}
	clear(c.resting[len(kept):])
	c.resting = kept
}

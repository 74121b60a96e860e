package core

import "github.com/mortarmq/mortarmq/wire"

// answered takes an item out of flight.
func (c *Core) answered(i int32) (*lane, *item) {
	it := c.items.at(i)
	l := it.lane
	assert(it.has(inFlight), "an answer to a publish that is not in flight")
	it.flags &^= inFlight
	l.inFlight--
	c.pubs--
	c.pubBytes -= int(it.bytes)
	return l, it
}

func (c *Core) pubOK(i int32, res *wire.PubResult) {
	l, it := c.answered(i)
	l.failures = 0
	l.window = min(2*l.window, inFlightMax)
	if !it.has(abandoned) {
		c.out.Published = append(c.out.Published, Published{Ref: it.ref, Producer: l.producer.handle, Partition: l.partition,
			Durability: res.Durability, Deduplicated: res.ResultFlags&wire.ResultDeduplicated != 0, Sequence: res.Sequence,
			LeaderEpoch: res.LeaderEpoch, CommitSeq: res.CommitSeq, ProducerID: it.id, ProducerSeq: it.seq})
	}
	c.remove(l, i)
	c.afterAnswer(l)
}

// pubErr takes a refusal: the consequence of one before it, something to repeat, or an outcome.
func (c *Core) pubErr(i int32, err Err) {
	l, it := c.answered(i)
	info, known := err.Code.Info()
	repeat := known && (info.Retry == wire.RetryBackoff || info.Retry == wire.RetryLeader)
	maybe := !known || info.Outcome == wire.OutcomeUnknown
	it.code = err.Code
	switch {
	case l.closed:
		c.remove(l, i)
	case it.has(orphan) && (repeat || missing(err.Code)):
		it.unnumber()
		l.rewinding = true
	case c.consequence(l, it, err.Code):
		if it.id != l.id {
			it.unnumber()
		}
		l.rewinding = true
	case repeat && !(maybe && l.producer.plain):
		if maybe {
			it.flags |= uncertain
		}
		c.rewind(l)
	default:
		err.Unknown = (maybe || it.has(uncertain)) && !it.has(orphan)
		c.outcome(it, err)
		c.breakLane(l, i, !err.Unknown)
		c.remove(l, i)
	}
	c.afterAnswer(l)
}

// unnumber makes an item new that certainly has not been committed under the sequence that it had.
func (it *item) unnumber() {
	it.id, it.seq = 0, 0
	it.flags &^= uncertain | orphan
}

// missing says whether the code means that a sequence before this one is not there. A new producer's sequences behind a
// refused first one are SEQ_EXPIRED rather than SEQ_GAP (broker.md, "Producers").
func missing(code wire.Code) bool { return code == wire.CodeSeqGap || code == wire.CodeSeqExpired }

// consequence says whether the code only says that a sequence before it is missing: the item itself is sound.
func (c *Core) consequence(l *lane, it *item, code wire.Code) bool {
	if l.producer.plain {
		return false
	}
	switch code {
	case wire.CodeSeqGap:
		// Behind a sequence of another incarnation whose fate is not known, a copy on an old connection could still be
		// committed after it.
		return it.id == l.id && l.rewinding || it.id != l.id && !it.has(uncertain)
	case wire.CodeSeqExpired:
		return l.rewinding && !it.has(uncertain)
	}
	return false
}

// rewind makes the lane wait for the rest of its answers and a backoff.
func (c *Core) rewind(l *lane) {
	if l.rewinding {
		return
	}
	l.rewinding = true
	l.failures++
	l.window = 1
	l.resumeAt = c.now.Add(c.backoff(l.failures))
}

// breakLane takes the next incarnation, because item i, which has a sequence of this one, is about to leave the lane without
// having been committed, or nobody knows. surely says that it was not: then nothing behind it can ever be committed under
// this incarnation (orphans), and its uncertainty ends.
func (c *Core) breakLane(l *lane, i int32, surely bool) {
	it := c.items.at(i)
	if it.seq == 0 || it.has(orphan) {
		return
	}
	id := it.id
	if l.id == id {
		l.id, l.nextSeq = c.rng.id(), 1
	}
	l.rewinding = true
	if !surely {
		return
	}
	for j := it.next; j != none; j = c.items.at(j).next {
		behind := c.items.at(j)
		switch {
		case behind.seq == 0 || behind.id != id:
		case behind.has(inFlight):
			behind.flags |= orphan
		default:
			behind.unnumber()
		}
	}
}

func (c *Core) afterAnswer(l *lane) {
	c.rewindIdle(l)
	c.wake(l)
}

// rewindIdle begins the lane again from its head once nothing is in flight.
func (c *Core) rewindIdle(l *lane) {
	if !l.rewinding || l.inFlight > 0 {
		return
	}
	l.rewinding = false
	l.unsent = l.head
	if l.resumeAt > c.now {
		c.rest(l)
	}
	c.wake(l)
}

// pubLost is a publish whose answer will not come.
func (c *Core) pubLost(i int32) {
	l, it := c.answered(i)
	switch {
	case l.closed:
		c.remove(l, i)
	case it.has(orphan):
		it.unnumber()
		l.rewinding = true
	case l.producer.plain:
		c.outcome(it, Err{Reason: ReasonDisconnected, Unknown: true, Op: wire.OpPub, Code: it.code})
		c.remove(l, i)
	default:
		it.flags |= uncertain
		l.rewinding = true
	}
	c.afterAnswer(l)
}

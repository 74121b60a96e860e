package session

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// serving is the state of one PULL being served.
type serving struct {
	code wire.Code // what to answer with, when there is an answer
	text string

	given   int // messages
	size    int // their keys and values
	frames  int // their MSG frames
	full    bool
	short   bool // the next message fits the window but not the balance
	big     bool // a message beyond the window holds its partition
	reading bool
	refused wire.Code // of a Deliver
	logNow  op.LogMillis
	look    clock.Instant

	run  run
	undo []undo
}

// run is a run of contiguous sequences that one Deliver op notes.
type run struct {
	first    op.Sequence
	delivery op.DeliveryID
	count    uint32
	out      int // length of the connection's output before it
	before   tally
}

// tally is where a run began: a refused one goes back to it.
type tally struct {
	given, size, frames int
	taken               credit
	sent                total
	ids                 uint64
}

// undo is what an entry was before a run took it.
type undo struct {
	entry    uint32
	fresh    bool
	delivery op.DeliveryID
	at       int64
	flags    uint8
	size     uint32
}

// take says what came of one message.
type take uint8

const (
	taken   take = iota
	skipped      // it holds its lane; others may go on
	ended        // it ends the PULL
)

// serve gives a PULL what is due. It says whether the PULL goes on waiting;
// otherwise s.serving has the answer.
func (s *Sessions) serve(i uint32, c *conn, u *sub, p *pull) bool {
	v := &s.serving
	undo := v.undo[:0]
	*v = serving{logNow: s.broker.LogTime(), look: clock.Never, undo: undo}
	b := u.balance()
	if b.count == 0 || b.bytes == 0 {
		v.code = wire.CodeNoCredit
		return false
	}
	if s.oversizedFor(u, oversizePatience) {
		v.code, v.text = wire.CodeMessageExceedsCredit, textExceeds
		return false
	}
	must := p.must || s.now >= p.deadline
	if p.minBytes > 1 && !must && !s.enough(u, p) {
		p.look, p.reading = v.look, v.reading
		return true
	}
	first := u.nextLane(&s.groups.lanes)
	for k := range u.lanes {
		if !s.serveLane(i, c, u, u.lanes[(first+k)%len(u.lanes)], p) {
			break
		}
	}
	p.look, p.reading = v.look, v.reading
	switch {
	case v.given > 0:
	case v.short:
		v.code = wire.CodeNoCredit
	case v.reading:
		return true
	case v.big:
		v.code, v.text = wire.CodeMessageExceedsCredit, textExceeds
	case v.refused == wire.CodeBackpressure:
		v.code = v.refused
	case v.refused != wire.CodeOK && !must:
		p.look = min(p.look, s.now.Add(retryPause))
		return true
	case p.maxMsgs == 0:
	case !must:
		return true
	default:
		if ln := s.stuckLane(u); ln != nil {
			v.code, v.text = wire.CodeInternal, s.broker.Unreadable(u.topic, ln.part, ln.stuck)
		}
	}
	return false
}

// stuckLane gives a lane of the member that waits for a record which cannot be
// read, if all that it owns do: a PULL is told so that would come back with nothing
// for ever. As long as one can go on, the damage of another does not stop it.
func (s *Sessions) stuckLane(u *sub) (first *lane) {
	for _, l := range u.lanes {
		ln := s.groups.lanes.at(l)
		if !ln.told || ln.revoking {
			continue
		}
		if ln.stuck == 0 || ln.out.head != none {
			return nil
		}
		if first == nil {
			first = ln
		}
	}
	return first
}

const textExceeds = "the message that is next due is larger than the window: raise credit_bytes"

// nextLane is where this PULL begins: behind the partition that was served last.
func (u *sub) nextLane(lanes *slab[lane]) int {
	first := 0
	for first < len(u.lanes) && int(lanes.at(u.lanes[first]).part) <= u.served {
		first++
	}
	return first
}

// serveLane gives what is due of one lane: redeliveries, then first deliveries.
// It says whether other lanes may go on.
func (s *Sessions) serveLane(i uint32, c *conn, u *sub, l uint32, p *pull) bool {
	g := &s.groups
	ln := g.lanes.at(l)
	if !ln.told || ln.revoking {
		return true
	}
	v := &s.serving
	before := v.given
	v.run = run{}
	more := s.redeliver(i, c, u, l, ln, p)
	if more == taken {
		more = s.deliverNext(i, c, u, l, ln, p)
	}
	if !s.note(i, c, u, ln) {
		more = ended
	}
	if v.given > before {
		u.served = int(ln.part)
	}
	return more != ended
}

// settlingPause is how much later, in ms of log time, a message is due whose
// settlement is under way.
const settlingPause = 100

// redeliver gives what is due again.
func (s *Sessions) redeliver(i uint32, c *conn, u *sub, l uint32, ln *lane, p *pull) take {
	g, v := &s.groups, &s.serving
	for len(ln.due) > 0 {
		e := ln.due[0]
		en := g.entries.at(e)
		if en.at > int64(v.logNow) {
			if en.at != never {
				v.look = min(v.look, s.instantOf(op.LogMillis(en.at)))
			}
			return taken
		}
		if en.flags&entrySettling != 0 {
			// Its ACK came after the lease ran out and is ahead of any DELIVER in the
			// log: a MSG now would be for a message that is settled.
			ln.removeDue(en, &g.entries)
			en.at = int64(v.logNow) + settlingPause
			ln.pushDue(e, en, &g.entries)
			continue
		}
		rec, found := s.broker.Record(u.topic, ln.part, en.seq)
		switch found {
		case LookupHit:
		case LookupPending:
			ln.reading, v.reading = true, true
			return taken
		default: // it cannot be read: look again later, it may be repaired
			ln.removeDue(en, &g.entries)
			en.at = int64(v.logNow) + 1000
			ln.pushDue(e, en, &g.entries)
			ln.stuck = en.seq
			s.stats.Unreadable++
			continue
		}
		if t := s.fits(u, ln, p, &rec); t != taken {
			return t
		}
		if !s.join(i, c, u, ln, en.seq) {
			return ended
		}
		if v.run.count == 0 && fault.On("reused_delivery_id") {
			v.run.delivery = en.delivery
		}
		v.undo = append(v.undo, undo{entry: e, delivery: en.delivery, at: en.at, flags: en.flags, size: en.size})
		ln.removeDue(en, &g.entries)
		s.send(i, c, u, e, en, ln, &rec)
	}
	return taken
}

// deliverNext gives first deliveries in log order.
func (s *Sessions) deliverNext(i uint32, c *conn, u *sub, l uint32, ln *lane, p *pull) take {
	g, v := &s.groups, &s.serving
	last := s.view.LastSeq(u.topic, ln.part)
	for ln.next <= last && ln.entries < maxUnsettled {
		rec, found := s.broker.Record(u.topic, ln.part, ln.next)
		switch found {
		case LookupHit:
		case LookupPending:
			ln.reading, v.reading = true, true
			return skipped
		default:
			if ln.stuck != ln.next {
				ln.stuck = ln.next
				s.stats.Unreadable++
			}
			v.look = min(v.look, s.now.Add(clock.Second))
			return skipped
		}
		ln.stuck = 0
		if t := s.fits(u, ln, p, &rec); t != taken {
			return t
		}
		if !s.join(i, c, u, ln, ln.next) {
			return ended
		}
		e, en := g.newEntry(l, ln, ln.next)
		v.undo = append(v.undo, undo{entry: e, fresh: true})
		ln.next++
		s.send(i, c, u, e, en, ln, &rec)
	}
	return taken
}

// fits says whether a message may be given now.
func (s *Sessions) fits(u *sub, ln *lane, p *pull, rec *format.Record) take {
	v := &s.serving
	size, value := len(rec.Key)+len(rec.Value), uint64(len(rec.Value))
	b := u.balance()
	switch {
	case v.given >= int(p.maxMsgs):
		v.full = true
		return ended
	case value > u.window.bytes:
		v.big = true
		if ln.oversized == 0 {
			ln.oversized = s.now
		}
		return skipped
	case b.count == 0 || value > b.bytes && !fault.On("credit_bytes_ignored"):
		v.short = true
		return ended
	case v.given > 0 && (v.size+size > int(p.maxBytes) || v.frames+size+msgOverhead > pullBytesMax):
		v.full = true
		return ended
	}
	ln.oversized = 0
	return taken
}

// join puts seq at the end of the run under way, or begins another one.
func (s *Sessions) join(i uint32, c *conn, u *sub, ln *lane, seq op.Sequence) bool {
	v := &s.serving
	if v.run.count > 0 && seq == v.run.first+op.Sequence(v.run.count) {
		return true
	}
	if !s.note(i, c, u, ln) {
		return false
	}
	if s.given >= idsMax {
		v.refused = wire.CodeBackpressure // the node starts a new epoch
		return false
	}
	out := s.output(i, c)
	v.undo = v.undo[:0]
	v.run = run{
		first: seq, delivery: op.DeliveryID(op.MakeID(s.epoch, s.given+1)), out: len(out),
		before: tally{given: v.given, size: v.size, frames: v.frames, taken: u.taken, sent: u.sent, ids: s.given},
	}
	return true
}

// msgOverhead is the size of a MSG frame without key and value in bytes.
const msgOverhead = 5 + 56

// send writes MSG for an entry that joined the run and begins its lease.
func (s *Sessions) send(i uint32, c *conn, u *sub, e uint32, en *entry, ln *lane, rec *format.Record) {
	v := &s.serving
	s.given++
	en.delivery = v.run.delivery + op.DeliveryID(v.run.count)
	v.run.count++
	en.flags = 0
	en.size = uint32(len(rec.Value))
	if en.attempts < 1<<16-1 {
		en.attempts++
	}
	m := wire.Msg{
		SubscriptionID: u.id, TopicID: uint16(u.topic), Partition: uint16(ln.part), Sequence: uint64(en.seq),
		DeliveryID: uint64(en.delivery), Attempt: en.attempts, OwnershipEpoch: uint64(ln.epoch),
		ProducerID: rec.ProducerID, ProducerSeq: rec.ProducerSeq, Key: rec.Key, Value: rec.Value,
	}
	if en.attempts > 1 {
		m.Flags |= wire.FlagMsgRedelivered
	}
	if rec.Kind == format.RecordDeadLetter {
		m.Flags |= wire.FlagMsgFromDLQ
	}
	before := len(c.out)
	s.reserve(c, msgOverhead+len(rec.Key)+len(rec.Value))
	c.out = m.Append(c.out)
	v.given++
	v.size += len(rec.Key) + len(rec.Value)
	v.frames += len(c.out) - before
	u.sent.count++
	u.sent.bytes += uint64(len(rec.Value))
	u.taken.count++
	u.taken.bytes += uint64(len(rec.Value))
	s.lease(e, en, ln)
}

// note proposes the Deliver op of the run under way; a refusal takes the run
// back.
func (s *Sessions) note(i uint32, c *conn, u *sub, ln *lane) bool {
	v := &s.serving
	if v.run.count == 0 {
		return true
	}
	s.o = op.Op{
		Kind: op.KindDeliver, Group: u.group, Partition: ln.part, Count: v.run.count,
		Sequence: v.run.first, Delivery: v.run.delivery, Ownership: ln.epoch,
	}
	code := s.broker.Propose(&s.o, Ref{})
	if code == wire.CodeOK {
		s.stats.Messages += uint64(v.run.count)
		v.run = run{}
		return true
	}
	v.refused = code
	s.takeBack(c, u, ln)
	return false
}

// takeBack undoes a run whose Deliver was refused.
func (s *Sessions) takeBack(c *conn, u *sub, ln *lane) {
	g, v := &s.groups, &s.serving
	for k := len(v.undo) - 1; k >= 0; k-- {
		d := v.undo[k]
		en := g.entries.at(d.entry)
		if d.fresh {
			ln.next = en.seq
			s.drop(d.entry, en, ln)
			continue
		}
		g.unlease(d.entry, en, ln)
		en.state, en.delivery, en.at, en.flags, en.size = entryWaiting, d.delivery, d.at, d.flags, d.size
		en.attempts--
		ln.pushDue(d.entry, en, &g.entries)
	}
	b := v.run.before
	v.given, v.size, v.frames, u.taken = b.given, b.size, b.frames, b.taken
	u.sent = b.sent
	s.given = b.ids
	c.out = c.out[:v.run.out]
	v.undo, v.run = v.undo[:0], run{}
}

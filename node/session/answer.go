package session

import (
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// advice is the registry's text for a code.
func advice(code wire.Code) string {
	info, _ := code.Info()
	return info.Advice
}

// reject counts a refusal.
func (s *Sessions) reject(code wire.Code) {
	if s.stats.Rejected == nil {
		s.stats.Rejected = map[wire.Code]uint64{}
	}
	s.stats.Rejected[code]++
}

// ok decides a request as done, without a result.
func (s *Sessions) ok(i uint32, c *conn, n uint64) {
	c.ring.at(n).kind = answerOK
	s.decided(i, c, n)
}

// refuse decides a request by an ERR; an empty text stands for the registry's.
func (s *Sessions) refuse(i uint32, c *conn, n uint64, code wire.Code, text string) {
	if text == "" {
		text = advice(code)
	}
	s.reject(code)
	r := c.ring.at(n)
	r.kind, r.code, r.text = answerErr, code, text
	if info, ok := code.Info(); ok && info.Close {
		r.flags |= flagClose
		s.end(i, c)
	}
	s.decided(i, c, n)
}

// refuseBad decides a request whose payload does not decode.
func (s *Sessions) refuseBad(i uint32, c *conn, n uint64, err error) {
	s.refuse(i, c, n, wire.CodeOf(err), messageOf(err))
}

// fail ends a connection with an ERR behind the answers that are still to come.
func (s *Sessions) fail(i uint32, c *conn, code wire.Code, request wire.Op, text string) {
	n, r := c.ring.push()
	*r = newRequest(request)
	s.end(i, c)
	r.kind, r.code, r.text, r.flags = answerErr, code, text, flagClose
	s.reject(code)
	s.decided(i, c, n)
}

func newRequest(o wire.Op) request { return request{op: o} }

// end stops reading: an answer that closes is on its way, and nothing may wait
// before it.
func (s *Sessions) end(i uint32, c *conn) {
	if c.state < connEnding {
		c.state = connEnding
		c.held = nil
		s.finishPulls(i, c)
	}
}

// decided takes note that a request has its answer, and writes all answers
// whose turn it is.
func (s *Sessions) decided(i uint32, c *conn, n uint64) {
	if r := c.ring.at(n); r.flags&flagBarrier != 0 {
		r.flags &^= flagBarrier
		s.unhold(i, c, holdBarrier)
	}
	if n != c.ring.head {
		return
	}
	for c.ring.len() > 0 && c.state != connClosing {
		r := c.ring.at(c.ring.head)
		if r.kind == answerNone {
			break
		}
		s.write(i, c, r)
		c.size -= int(r.size)
		closes := r.flags&flagClose != 0
		sub := r.kind == answerSub
		id := r.small
		r.text = ""
		c.ring.head++
		if sub {
			s.toldSub(i, c, id)
		}
		if closes {
			s.shut(i, c)
		}
	}
	if c.hold&holdLimit != 0 && c.ring.len() < wire.MaxUnansweredRequests/2 && c.size < wire.MaxUnansweredBytes/2 {
		s.unhold(i, c, holdLimit)
	}
	s.closeDrained(i, c)
}

// closeDrained closes a connection whose drain is done.
func (s *Sessions) closeDrained(i uint32, c *conn) {
	if s.stopping && c.ring.len() == 0 && c.state != connClosing {
		s.shut(i, c)
	}
}

// write appends the answer of r to the connection's output.
func (s *Sessions) write(i uint32, c *conn, r *request) {
	b := s.output(i, c)
	switch r.kind {
	case answerOK:
		b = wire.AppendOKEmpty(b, r.op)
	case answerErr:
		b = wire.AppendErr(b, r.code, r.op, r.text)
	case answerPub:
		b = s.writePub(b, r)
	case answerDeclare:
		d := wire.DeclareResult{TopicID: r.small, PartitionCount: uint16(r.a), Created: wire.DeclareOutcome(r.b)}
		b = d.AppendOK(b)
	case answerSub:
		d := wire.SubResult{SubscriptionID: r.small, MemberID: r.a, MembershipEpoch: uint32(r.b), AssignmentEpoch: uint32(r.c)}
		b = d.AppendOK(b)
	case answerCredit:
		b = s.writeCredit(b, c, r)
	case answerConnect:
		b = s.writeConnect(b, r)
	case answerNone:
		panic("session: ring invariant 1: an undecided request is written")
	}
	c.out = b
}

// waiting gives the connection and the ring number that ref names, if that
// request is still without an answer.
func (s *Sessions) waiting(ref Ref) (uint32, *conn, bool) {
	if ref.Kind != refRequest || ref.Slot >= s.conns.used {
		return none, nil, false
	}
	c := s.conns.at(ref.Slot)
	if c.gen != ref.Gen || c.state == connFree || c.state == connClosing || !c.ring.holds(ref.Arg) || c.ring.at(ref.Arg).kind != answerNone {
		return none, nil, false
	}
	return ref.Slot, c, true
}

// ref makes the Ref of a request.
func (c *conn) ref(i uint32, n uint64) Ref { return Ref{Kind: refRequest, Slot: i, Gen: c.gen, Arg: n} }

// answerApplied decides the request that an applied op was proposed for.
// Publish and Join have their own.
func (s *Sessions) answerApplied(o *op.Op, res *machine.Result, ref Ref) {
	i, c, ok := s.waiting(ref)
	if !ok {
		return
	}
	n := ref.Arg
	if res.Code != wire.CodeOK {
		s.refuse(i, c, n, res.Code, res.Message)
		return
	}
	r := c.ring.at(n)
	switch o.Kind {
	case op.KindTopicCreate:
		r.kind, r.small, r.a, r.b = answerDeclare, uint16(res.TopicID), uint64(res.Partitions), uint64(res.Created)
	case op.KindTopicDelete:
		r.kind, r.small, r.a, r.b = answerDeclare, 0, 0, uint64(res.Created)
	case op.KindDeadLetter:
		if !res.Append.Present {
			s.refuse(i, c, n, wire.CodeDLQPathOverflow, "")
			return
		}
		r.kind = answerOK
	default:
		r.kind = answerOK
	}
	s.decided(i, c, n)
}

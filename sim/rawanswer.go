package sim

import (
	"github.com/mortarmq/mortarmq/checker"
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
)

// onFrame takes one frame of the broker.
func (r *raw) onFrame(f wire.Frame) {
	var err error
	switch f.Op {
	case wire.OpOK:
		var m wire.OK
		if err = m.Decode(f.Payload); err == nil {
			r.answer(m.RequestOp, m.Result, wire.CodeOK)
		}
	case wire.OpErr:
		var m wire.Err
		if err = m.Decode(f.Payload); err == nil && m.RequestOp != wire.OpNone {
			r.answer(m.RequestOp, nil, m.Code)
		}
	case wire.OpMsg:
		var m wire.Msg
		if err = m.Decode(f.Payload); err == nil {
			r.onMsg(&m)
		}
	case wire.OpNotice:
		var m wire.Notice
		if err = m.Decode(f.Payload); err == nil {
			r.onNotice(&m)
		}
	default:
		r.w.finding(PropertyProtocol, "raw client %d was sent %v", r.id, f.Op)
	}
	if err != nil {
		r.w.finding(PropertyProtocol, "raw client %d: %v does not decode: %v", r.id, f.Op, err)
	}
}

// answer takes the answer to the oldest request.
func (r *raw) answer(of wire.Op, result []byte, code wire.Code) {
	r.quiet = r.w.now
	if len(r.fifo) == 0 || r.fifo[0].op != of {
		r.w.finding(PropertyProtocol, "raw client %d: an answer to %v, but the oldest request is another", r.id, of)
		return
	}
	q := r.fifo[0]
	r.fifo = r.fifo[1:]
	if q.step == nil && !q.right(code) && !(code == wire.CodeInternal && r.w.atlas.damaged) {
		r.w.finding(PropertyProtocol, "raw client %d: %v was answered with %v, wanted %v or %v", r.id, of, code, q.want, q.also)
		return
	}
	if code != wire.CodeOK {
		r.refused(q, code)
	} else if err := r.granted(q, result); err != nil {
		r.w.finding(PropertyProtocol, "raw client %d: OK of %v does not decode: %v", r.id, of, err)
	}
	if q.step != nil {
		r.script.answered(r, &q, code)
	}
}

// right says whether a code may answer the request: what was wanted, or what can
// always happen.
func (q *rawRequest) right(code wire.Code) bool {
	if code == q.want || code == q.also && code != wire.CodeOK {
		return true
	}
	if code == wire.CodeOK {
		return false
	}
	info, ok := code.Info()
	if ok && (info.Retry == wire.RetryBackoff || info.Retry == wire.RetryLeader || info.Retry == wire.RetryRejoin || info.Retry == wire.RetryContinue || info.Close) {
		return true
	}
	switch code {
	case wire.CodeSeqGap, wire.CodeSeqExpired: // what was before it was refused
		return q.op == wire.OpPub && q.index >= 0
	case wire.CodeMessageExceedsCredit:
		return q.op == wire.OpPull || q.op == wire.OpCredit
	case wire.CodeDLQPathOverflow:
		return q.op == wire.OpNack
	}
	return false
}

func (r *raw) granted(q rawRequest, result []byte) error {
	switch q.op {
	case wire.OpConnect:
		var res wire.ConnectResult
		r.phase = rawOpen
		return res.Decode(result, false)
	case wire.OpPub:
		var res wire.PubResult
		if err := res.Decode(result, false); err != nil {
			return err
		}
		r.onPub(q, &res, wire.CodeOK)
	case wire.OpSub:
		r.sub.joined = true
		r.sub.balanceCount, r.sub.balanceBytes = wire.DefaultCreditCount, wire.DefaultCreditBytes
		if n := r.spec.Int("credit", 0); r.script != nil && n > 0 {
			r.sub.balanceCount = n
		}
		return r.sub.SubResult.Decode(result)
	case wire.OpPull:
		r.sub.pulls--
	case wire.OpAck, wire.OpNack:
		r.onSettled(q, wire.CodeOK)
	}
	return nil
}

func (r *raw) refused(q rawRequest, code wire.Code) {
	r.w.marks.Mark("code." + code.String())
	if info, _ := code.Info(); code != q.want && (info.Retry == wire.RetryBackoff || info.Outcome == wire.OutcomeUnknown) {
		r.restTill = r.w.now.Add(clock.Duration(r.rand.Range(int64(clock.Millisecond), int64(50*clock.Millisecond))))
	}
	switch q.op {
	case wire.OpConnect:
		r.w.finding(PropertyProtocol, "raw client %d: CONNECT was refused: %v", r.id, code)
	case wire.OpPub:
		if q.index >= 0 {
			r.onPub(q, nil, code)
		}
	case wire.OpSub:
		r.sub.asked = false
		if code == wire.CodeGroupMemberLimit {
			r.sub.asked = true // never mind
		}
	case wire.OpPull:
		r.sub.pulls--
	case wire.OpAck, wire.OpNack:
		r.onSettled(q, code)
	}
	if code == wire.CodeUnknownMember && q.want != code && q.also != code && q.index < 0 && q.step == nil {
		r.abort() // begin again
	}
}

func (r *raw) onSettled(q rawRequest, code wire.Code) {
	if q.renews != 0 && code == wire.CodeOK {
		r.w.host.leases.renewed(q.renews, q.uptime)
	}
	if q.index < 0 {
		return
	}
	h := &r.w.rec.h.Settles[q.index]
	h.Outcome = checker.OK
	if code != wire.CodeOK {
		h.Outcome, h.Code = codeOutcome(code), code
	}
	if h.Outcome != checker.Unknown {
		h.Return = checker.Time(r.w.now)
	}
}

package sim

import (
	"fmt"

	"github.com/mortarmq/mortarmq/checker"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/sim/prng"
	"github.com/mortarmq/mortarmq/wire"
)

// publishNext sends the next message of a lane: a new one, or one that is not
// known to be there.
func (r *raw) publishNext(rand *prng.Rand) {
	i := rand.Intn(len(r.lanes))
	l := &r.lanes[i]
	if l.rewind {
		return
	}
	if l.next > uint64(len(l.sent)) {
		r.w.rec.messages++
		s := rawSent{value: content(r.w.rec.messages, 8+rand.Intn(200))}
		if rand.Bool(500) {
			s.key = fmt.Appendf(nil, "r%d", rand.Intn(20))
		}
		s.payload, s.incarnation = identity(s.key, s.value), r.w.host.incarnation
		l.sent = append(l.sent, s)
	}
	r.sendNext(i)
}

// sendNext sends the lane's next sequence.
func (r *raw) sendNext(i int) {
	l := &r.lanes[i]
	s := l.next
	l.next++
	r.publish(i, s, rawRequest{op: wire.OpPub, lane: i})
}

// publish sends one PUB of a lane under sequence s, and writes it into the
// history.
func (r *raw) publish(i int, s uint64, q rawRequest) {
	l := &r.lanes[i]
	m := &l.sent[s-1]
	q.index = r.w.rec.publish(checker.Publish{Client: r.id, Partition: r.partition(i), ProducerID: l.producer, ProducerSeq: s,
		Payload: m.payload, Call: checker.Time(r.w.now), Once: true})
	l.inFlight++
	r.pub(&wire.Pub{TopicID: r.topic, Partition: uint16(i), ProducerID: l.producer, ProducerSeq: s, Key: m.key, Value: m.value}, q)
}

func (r *raw) pub(m *wire.Pub, q rawRequest) {
	r.sendBuf = m.Append(r.sendBuf)
	r.ask(q)
}

// onPub takes the answer to a PUB that the history knows.
func (r *raw) onPub(q rawRequest, res *wire.PubResult, code wire.Code) {
	l := &r.lanes[q.lane]
	l.inFlight = max(0, l.inFlight-1)
	h := &r.w.rec.h.Publishes[q.index]
	if res == nil {
		h.Outcome, h.Code = codeOutcome(code), code
		if h.Outcome == checker.Refused {
			h.Return = checker.Time(r.w.now)
		}
		if h.ProducerID == l.producer && h.ProducerSeq >= 1 && h.ProducerSeq <= uint64(len(l.sent)) && !l.sent[h.ProducerSeq-1].ok && h.Payload == l.sent[h.ProducerSeq-1].payload {
			l.rewind = true
		}
	} else {
		h.Outcome, h.Return = checker.OK, checker.Time(r.w.now)
		h.Sequence, h.Commit, h.Deduplicated = res.Sequence, res.CommitSeq, res.ResultFlags&wire.ResultDeduplicated != 0
		if h.ProducerID == l.producer && h.ProducerSeq >= 1 && h.ProducerSeq <= uint64(len(l.sent)) {
			m := &l.sent[h.ProducerSeq-1]
			if h.Deduplicated && !m.ok && m.incarnation < r.w.host.incarnation {
				r.w.marks.Mark("sim.dedup_over_restart")
			}
			m.ok = true
		}
		r.w.judge.acked(placed{op.TopicID(r.topic), op.PartitionID(q.lane), h.Payload})
	}
	if l.inFlight == 0 && l.rewind {
		l.rewind, l.next = false, l.firstUnknown()
	}
}

// odd does what a good client does not.
func (r *raw) odd(rand *prng.Rand) {
	i := rand.Intn(len(r.lanes))
	l := &r.lanes[i]
	value := []byte("not to be kept")
	switch rand.Intn(14) {
	case 0, 1, 2: // a repeat
		if n := len(l.sent); n > 0 && !l.rewind {
			s := uint64(max(1, n-rand.Intn(6)))
			if s < l.next {
				r.publish(i, s, rawRequest{op: wire.OpPub, lane: i})
			}
		}
	case 3: // a gap
		r.refusedPub(i, l.next+2+uint64(rand.Intn(2000)), wire.CodeSeqGap, wire.CodeSeqExpired)
	case 4: // a producer that does not begin at 1
		r.pub(&wire.Pub{TopicID: r.topic, Partition: uint16(i), ProducerID: rand.Uint64() | 1, ProducerSeq: 2 + uint64(rand.Intn(9)), Value: value},
			rawRequest{op: wire.OpPub, index: -1, want: wire.CodeSeqExpired})
	case 5:
		r.pub(&wire.Pub{TopicID: r.topic, Partition: uint16(i), ProducerSeq: 1, Value: value}, rawRequest{op: wire.OpPub, index: -1, want: wire.CodeProducerSeqInvalid})
	case 6:
		r.pub(&wire.Pub{TopicID: 60_001, Partition: 0, Value: value}, rawRequest{op: wire.OpPub, index: -1, want: wire.CodeUnknownTopic})
	case 7:
		r.pub(&wire.Pub{TopicID: r.topic, Partition: uint16(len(r.lanes)), Value: value}, rawRequest{op: wire.OpPub, index: -1, want: wire.CodeUnknownPartition})
	case 8: // into the twin
		r.pub(&wire.Pub{TopicID: r.topic + 1, Partition: 0, Value: value}, rawRequest{op: wire.OpPub, index: -1, want: wire.CodeInvalidTopic})
	case 9:
		d := wire.Declare{Topic: []byte(r.w.plan.Topics[r.spec.Int("topic", 0)].Name), PartitionCount: uint16(len(r.lanes) + 1)}
		r.sendBuf = d.Append(r.sendBuf)
		r.ask(rawRequest{op: wire.OpDeclare, index: -1, want: wire.CodeTopicExistsMismatch})
	default:
		r.oddMember(rand)
	}
}

// refusedPub sends a PUB that must be refused, and writes it into the history.
func (r *raw) refusedPub(i int, s uint64, want, also wire.Code) {
	l := &r.lanes[i]
	r.w.rec.messages++
	value := content(r.w.rec.messages, 20)
	index := r.w.rec.publish(checker.Publish{Client: r.id, Partition: r.partition(i), ProducerID: l.producer, ProducerSeq: s,
		Payload: identity(nil, value), Call: checker.Time(r.w.now), Once: true})
	l.inFlight++
	r.pub(&wire.Pub{TopicID: r.topic, Partition: uint16(i), ProducerID: l.producer, ProducerSeq: s, Value: value},
		rawRequest{op: wire.OpPub, index: index, lane: i, want: want, also: also})
}

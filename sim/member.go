package sim

import (
	"fmt"
	"slices"

	"github.com/mortarmq/mortarmq/checker"
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
)

// script makes a raw client a member that does what the plan's steps say and
// nothing else: it joins its group, keeps alive, confirms notices, and gives
// credit back for what a step has settled.
//
//	kind=member  topic= group= twin=0|1 credit= pull=0|1 (a PULL waits all the time) mute=0|1 (no REVOKE is confirmed)
//
//	step client= do=pull n=
//	step client= do=ack|retry|reject|release|progress partition= seq= n= delay= old=0|1 want=
//	step client= do=leave|join
//
// A step waits for the one before it to be sent, and for the messages that it is
// about. old=1 names the delivery before the last one of each. want= is the only
// answer that is right; without it every answer is.
type script struct {
	steps     []*step
	known     []rawDelivery       // in the order in which they came, those that are settled included
	byMessage map[scriptKey][]int // places in known of those that are not settled, by message
	finished  int                 // so many of known are taken care of at the end
	beatAt    clock.Instant
	left      bool
}

type scriptKey struct {
	partition uint16
	sequence  uint64
}

// step is a step event, and how far it is.
type step struct {
	Event
	at   clock.Instant
	done uint64 // of its messages
}

// inFlightMax bounds the requests of a script without an answer.
const inFlightMax = 500

const beatEvery = 3 * clock.Second

func (s *script) take(e *Event, now clock.Instant) {
	s.steps = append(s.steps, &step{Event: *e, at: now})
}

// forget is the end of the process: what it was handed is forgotten.
func (s *script) forget() { s.known, s.byMessage, s.finished = nil, nil, 0 }

// add takes in what the broker hands out.
func (s *script) add(d *rawDelivery) {
	if s.byMessage == nil {
		s.byMessage = map[scriptKey][]int{}
	}
	k := scriptKey{d.Partition, d.Sequence}
	s.byMessage[k] = append(s.byMessage[k], len(s.known))
	s.known = append(s.known, *d)
}

// idle says whether there is nothing to do until something comes.
func (s *script) idle(r *raw) bool {
	return (len(s.steps) == 0 || !r.sub.joined && s.left) && s.finished == len(s.known) && r.phase == rawOpen
}

// act does what can be done now.
func (s *script) act(r *raw) {
	m := &r.sub
	if !m.asked && !s.left {
		m.asked = true
		q := wire.Sub{Group: []byte(groupName(&r.spec)), TopicID: r.topic, Partition: wire.PartitionAny,
			CreditCount: uint16(r.spec.Int("credit", 0)), CreditBytes: wire.DefaultCreditBytes}
		if q.CreditCount == 0 {
			q.CreditCount = wire.DefaultCreditCount
		}
		r.sendBuf = q.Append(r.sendBuf)
		r.ask(rawRequest{op: wire.OpSub, index: -1})
		return
	}
	if m.joined && r.w.now >= s.beatAt {
		s.beatAt = r.w.now.Add(beatEvery)
		s.beat(r, wire.HeartbeatActive, rawRequest{op: wire.OpHeartbeat, index: -1, also: wire.CodeStaleGeneration})
	}
	for len(s.steps) > 0 && len(r.fifo) < inFlightMax && s.step(r, s.steps[0]) {
		s.steps = s.steps[1:]
	}
	if !m.joined {
		return
	}
	if r.w.calm {
		s.finish(r)
	}
	r.giveCredit()
	if m.pulls == 0 && (r.w.calm || r.spec.Int("pull", 0) != 0) {
		s.pull(r, 1000, 1000)
	}
}

func (s *script) beat(r *raw, state wire.HeartbeatState, q rawRequest) {
	m := wire.Heartbeat{SubscriptionID: r.sub.SubscriptionID, MemberID: r.sub.MemberID, MembershipEpoch: r.sub.MembershipEpoch, AssignmentEpoch: r.sub.AssignmentEpoch, State: state}
	r.sendBuf = m.Append(r.sendBuf)
	r.ask(q)
}

func (s *script) pull(r *raw, most int64, wait uint16) {
	r.sendPull(&wire.Pull{MembershipEpoch: r.sub.MembershipEpoch, MaxMsgs: uint16(most), MaxBytes: 1 << 30, WaitMs: wait}, rawRequest{op: wire.OpPull, index: -1})
}

// step sends what a step asks for; it says whether that is all.
func (s *script) step(r *raw, x *step) bool {
	switch do := x.Int("do", doPull); {
	case do == doJoin:
		s.left = false
		return true
	case !r.sub.joined:
		return false
	case do == doPull:
		s.pull(r, x.Int("n", 1000), uint16(x.Span("wait", 0).Millis()))
		return true
	case do == doLeave:
		s.left = true
		s.beat(r, wire.HeartbeatLeave, rawRequest{op: wire.OpHeartbeat, index: -1, step: x})
		r.sub.joined = false
		return true
	}
	for x.done < uint64(x.Int("n", 1)) {
		seq := uint64(x.Int("seq", 1)) + x.done
		d := s.find(uint16(x.Int("partition", 0)), seq, int(x.Int("old", 0)))
		if d == nil || len(r.fifo) >= inFlightMax {
			return false
		}
		s.settle(r, d, x)
		x.done++
	}
	return true
}

// find gives the back-th last delivery of a message that is not settled, nil
// while there is none.
func (s *script) find(partition uint16, seq uint64, back int) *rawDelivery {
	places := s.byMessage[scriptKey{partition, seq}]
	if back >= len(places) {
		return nil
	}
	return &s.known[places[len(places)-1-back]]
}

// settle sends what a step says of one delivery.
func (s *script) settle(r *raw, d *rawDelivery, x *step) {
	q := rawRequest{step: x}
	switch x.Int("do", doAck) {
	case doProgress:
		r.sendProgress(d, q)
		return
	case doRetry:
		r.sendSettle(d, checker.Retry, d.OwnershipEpoch, x.Span("delay", 0), q)
	case doReject:
		r.sendSettle(d, checker.Reject, d.OwnershipEpoch, 0, q)
	case doRelease:
		r.sendSettle(d, checker.Release, d.OwnershipEpoch, x.Span("delay", 0), q)
	default:
		r.sendSettle(d, checker.Ack, d.OwnershipEpoch, 0, q)
	}
	r.owe(d)
}

// owe notes that credit is to be given back for a delivery, once.
func (r *raw) owe(d *rawDelivery) {
	if !d.paid {
		d.paid = true
		r.sub.credit.CreditCount++
		r.sub.credit.CreditBytes += uint32(len(d.Value))
	}
}

// answered takes the answer to a step's request.
func (s *script) answered(r *raw, q *rawRequest, code wire.Code) {
	if want := q.step.Int("want", -1); want >= 0 && wantWords[want] != code.String() {
		r.w.finding(PropertyExpectation, "member %d: %s of sequence %d, asked at %s, was answered with %v, wanted %s",
			r.id, doWords[q.step.Int("do", 0)], q.step.Int("seq", 0), stamp(q.step.at), code, wantWords[want])
		return
	}
	if q.index < 0 || code != wire.CodeOK && code != wire.CodeUnknownDelivery && code != wire.CodeStaleOwner {
		return
	}
	h := &r.w.rec.h.Settles[q.index]
	if code == wire.CodeOK && h.Kind != checker.Ack && h.Kind != checker.Reject {
		return // it comes back
	}
	k := scriptKey{h.Partition.Partition, h.Sequence}
	s.byMessage[k] = slices.DeleteFunc(s.byMessage[k], func(i int) bool { return code == wire.CodeOK || s.known[i].DeliveryID == h.DeliveryID })
	if len(s.byMessage[k]) == 0 {
		delete(s.byMessage, k)
	}
}

// finish acknowledges what is left when the storm is over, what it gave back for
// a later time included.
func (s *script) finish(r *raw) {
	for ; s.finished < len(s.known) && len(r.fifo) < inFlightMax; s.finished++ {
		d := &s.known[s.finished]
		if slices.Contains(s.byMessage[scriptKey{d.Partition, d.Sequence}], s.finished) && d.member == r.sub.MemberID {
			r.sendSettle(d, checker.Ack, d.OwnershipEpoch, 0, rawRequest{step: &step{Event: Event{Args: []Arg{{"do", doAck}}}}})
			r.owe(d)
		}
	}
}

// open says which step was not done when the storm ended, "" when all were.
func (s *script) open() string {
	if len(s.steps) == 0 {
		return ""
	}
	x := s.steps[0]
	return fmt.Sprintf("%s of partition %d, sequence %d, asked at %s", doWords[x.Int("do", 0)], x.Int("partition", 0), uint64(x.Int("seq", 1))+x.done, stamp(x.at))
}

package sim

import (
	"slices"

	"github.com/mortarmq/mortarmq/checker"
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/sim/prng"
	"github.com/mortarmq/mortarmq/wire"
)

// rawSub is the one subscription of a raw client.
type rawSub struct {
	asked  bool
	joined bool
	left   bool // and does not join again on this connection
	wire.SubResult
	owned  []rawOwned
	held   []rawDelivery // not answered yet
	pulls  int
	credit wire.Credit // to be given back
	// What the broker may still send, at most: MSG takes, CREDIT gives.
	balanceCount, balanceBytes int64
}

// rawOwned is a partition that it owns.
type rawOwned struct {
	partition uint16
	ownership uint64
}

type rawDelivery struct {
	wire.Msg
	at     clock.Instant
	member uint64
	paid   bool // its credit was given back
}

func (r *raw) group() string {
	return groupName(&r.spec)
}

// member does what a member of a group does: join, pull, settle, give credit
// back.
func (r *raw) member() {
	s := &r.sub
	if !s.asked {
		s.asked = true
		m := wire.Sub{Group: []byte(r.group()), TopicID: r.topic, Partition: wire.PartitionAny}
		r.sendBuf = m.Append(r.sendBuf)
		r.ask(rawRequest{op: wire.OpSub, index: -1, also: wire.CodeGroupMemberLimit})
		return
	}
	if !s.joined {
		return
	}
	r.nurse()
	for len(s.held) > 0 && len(r.fifo) < 24 {
		d := s.held[0]
		if !r.w.calm && r.rand.Bool(20) {
			break // later
		}
		s.held = s.held[1:]
		if r.keep(&d) {
			continue
		}
		r.settle(&d)
		if r.rand.Bool(100) {
			r.acked = append(r.acked, d)
			if len(r.acked) > 20 {
				r.acked = r.acked[1:]
			}
		}
	}
	if len(s.held) == 0 && s.pulls == 0 {
		r.giveCredit()
	}
	if s.pulls == 0 {
		r.pull(s.MembershipEpoch, rawRequest{op: wire.OpPull, index: -1})
	}
}

// giveCredit gives back what is owed.
func (r *raw) giveCredit() {
	s := &r.sub
	if s.credit.CreditCount == 0 {
		return
	}
	c := s.credit
	c.SubscriptionID, c.MembershipEpoch, c.Mode = s.SubscriptionID, s.MembershipEpoch, wire.CreditAdd
	s.credit = wire.Credit{}
	r.sendBuf = c.Append(r.sendBuf)
	s.balanceCount += int64(c.CreditCount)
	s.balanceBytes += int64(c.CreditBytes)
	r.ask(rawRequest{op: wire.OpCredit, index: -1, also: wire.CodeStaleGeneration})
}

func (r *raw) pull(membership uint32, q rawRequest) {
	r.sendPull(&wire.Pull{MembershipEpoch: membership,
		MaxMsgs: uint16(1 + r.rand.Intn(40)), MaxBytes: uint32(1 + r.rand.Intn(1<<20)), WaitMs: uint16(r.rand.Intn(1000)), MinBytes: uint32(r.rand.Intn(100))}, q)
}

// sendPull sends a PULL for what the member owns.
func (r *raw) sendPull(m *wire.Pull, q rawRequest) {
	s := &r.sub
	m.SubscriptionID, m.MemberID, m.AssignmentEpoch = s.SubscriptionID, s.MemberID, s.AssignmentEpoch
	for _, o := range s.owned {
		m.OwnershipEpochs = wire.AppendEpochs(m.OwnershipEpochs, o.ownership)
	}
	s.pulls++
	r.w.rec.polls++
	r.sendBuf = m.Append(r.sendBuf)
	r.ask(q)
}

// settle answers a delivery, mostly with an ACK.
func (r *raw) settle(d *rawDelivery) {
	kind := checker.Ack
	if !r.w.calm {
		kind = [...]checker.SettleKind{checker.Ack, checker.Retry, checker.Reject, checker.Release}[r.rand.Weighted(90, 5, 1, 4)]
	}
	delay := clock.Duration(0)
	if kind == checker.Retry && r.rand.Bool(300) {
		delay = clock.Duration(r.rand.Range(1, 3000)) * clock.Millisecond
	}
	r.sendSettle(d, kind, d.OwnershipEpoch, delay, rawRequest{})
	r.sub.credit.CreditCount++
	r.sub.credit.CreditBytes += uint32(len(d.Value))
}

// sendSettle sends an ACK or a NACK, which may ask for a delay.
func (r *raw) sendSettle(d *rawDelivery, kind checker.SettleKind, ownership uint64, delay clock.Duration, q rawRequest) {
	q.index = r.w.rec.settle(checker.Settle{Client: r.id, Group: r.group(), Kind: kind, Partition: r.partition(int(d.Partition)),
		Sequence: d.Sequence, DeliveryID: d.DeliveryID, Ownership: ownership, Call: checker.Time(r.w.now)})
	if kind == checker.Ack {
		m := wire.Ack{SubscriptionID: r.sub.SubscriptionID, TopicID: d.TopicID, Partition: d.Partition, Seq: d.Sequence, DeliveryID: d.DeliveryID, OwnershipEpoch: ownership}
		r.sendBuf = m.Append(r.sendBuf)
		q.op = wire.OpAck
	} else {
		if kind != checker.Reject {
			r.w.host.leases.gave(d.DeliveryID, delay)
		}
		m := wire.Nack{SubscriptionID: r.sub.SubscriptionID, TopicID: d.TopicID, Partition: d.Partition, Seq: d.Sequence, DeliveryID: d.DeliveryID, OwnershipEpoch: ownership,
			Reason: map[checker.SettleKind]wire.NackReason{checker.Retry: wire.NackRetry, checker.Reject: wire.NackReject, checker.Release: wire.NackRelease}[kind]}
		if delay > 0 {
			m.Flags, m.DelayMs = wire.FlagNackDelay, uint32(delay.Millis())
		}
		r.sendBuf = m.Append(r.sendBuf)
		q.op = wire.OpNack
	}
	r.ask(q)
}

// nursed is a delivery whose lease is renewed before it ends.
type nursed struct {
	rawDelivery
	renew, until clock.Instant
}

// keep decides to hold a delivery for longer than its lease.
func (r *raw) keep(d *rawDelivery) bool {
	lease := r.w.plan.Span("lease")
	if r.w.calm || lease > 3*clock.Second || len(r.nursed) >= 5 || !r.rand.Bool(10) {
		return false
	}
	r.nursed = append(r.nursed, nursed{*d, r.w.now.Add(lease * 6 / 10), r.w.now.Add(lease * 14 / 10)})
	return true
}

// nurse renews what is to be renewed and settles what was held for long enough.
func (r *raw) nurse() {
	kept := r.nursed[:0]
	for i := range r.nursed {
		d := &r.nursed[i]
		if r.w.now >= d.until || r.w.calm {
			r.settle(&d.rawDelivery)
			continue
		}
		if r.w.now >= d.renew {
			d.renew = d.until
			r.sendProgress(&d.rawDelivery, rawRequest{also: wire.CodeUnknownDelivery})
		}
		kept = append(kept, *d)
	}
	r.nursed = kept
}

// sendProgress renews the lease of a delivery.
func (r *raw) sendProgress(d *rawDelivery, q rawRequest) {
	m := wire.Ack{SubscriptionID: r.sub.SubscriptionID, TopicID: d.TopicID, Partition: d.Partition, Seq: d.Sequence, DeliveryID: d.DeliveryID,
		OwnershipEpoch: d.OwnershipEpoch, Flags: wire.FlagAckProgress}
	r.sendBuf = m.Append(r.sendBuf)
	q.op, q.index, q.renews, q.uptime = wire.OpAck, -1, d.DeliveryID, r.w.host.uptime()
	r.ask(q)
}

// oddMember does what a good member does not.
func (r *raw) oddMember(rand *prng.Rand) {
	s := &r.sub
	if !s.joined {
		return
	}
	switch rand.Intn(7) {
	case 0: // once more what was settled already
		if len(r.acked) > 0 {
			d := r.acked[rand.Intn(len(r.acked))]
			r.sendSettle(&d, checker.Ack, d.OwnershipEpoch, 0, rawRequest{})
		}
	case 1: // under an epoch that it does not have
		if len(s.held) > 0 {
			d := s.held[0]
			r.sendSettle(&d, checker.Ack, d.OwnershipEpoch+1+uint64(rand.Intn(3)), 0, rawRequest{want: wire.CodeStaleOwner, also: wire.CodeUnknownDelivery})
		}
	case 2:
		m := wire.Heartbeat{SubscriptionID: s.SubscriptionID, MemberID: s.MemberID + 1, MembershipEpoch: s.MembershipEpoch, AssignmentEpoch: s.AssignmentEpoch}
		r.sendBuf = m.Append(r.sendBuf)
		r.ask(rawRequest{op: wire.OpHeartbeat, index: -1, want: wire.CodeUnknownMember, also: wire.CodeStaleGeneration})
	case 3:
		m := wire.Credit{SubscriptionID: s.SubscriptionID + 7, MembershipEpoch: s.MembershipEpoch, Mode: wire.CreditAdd, CreditCount: 1}
		r.sendBuf = m.Append(r.sendBuf)
		r.ask(rawRequest{op: wire.OpCredit, index: -1, want: wire.CodeUnknownMember})
	case 4, 5: // what another member may have by now
		if len(r.stale) > 0 {
			d := r.stale[rand.Intn(len(r.stale))]
			r.sendSettle(&d, checker.Ack, d.OwnershipEpoch, 0, rawRequest{want: wire.CodeStaleOwner, also: wire.CodeUnknownDelivery})
		}
	case 6:
		r.pull(s.MembershipEpoch+1, rawRequest{op: wire.OpPull, index: -1, want: wire.CodeStaleGeneration})
	default:
		m := wire.Ack{SubscriptionID: s.SubscriptionID + 9, TopicID: r.topic, Seq: 1, DeliveryID: rand.Uint64(), OwnershipEpoch: 1}
		r.sendBuf = m.Append(r.sendBuf)
		r.ask(rawRequest{op: wire.OpAck, index: -1, want: wire.CodeUnknownMember})
	}
}

// depart leaves the group and comes back: the script of a member says so by steps.
func (r *raw) depart(span clock.Duration) {
	s := &r.sub
	if r.script != nil || !s.joined || r.leaving || r.phase != rawOpen {
		return
	}
	m := wire.Heartbeat{SubscriptionID: s.SubscriptionID, MemberID: s.MemberID, MembershipEpoch: s.MembershipEpoch, AssignmentEpoch: s.AssignmentEpoch, State: wire.HeartbeatLeave}
	r.sendBuf = m.Append(r.sendBuf)
	r.ask(rawRequest{op: wire.OpHeartbeat, index: -1, also: wire.CodeUnknownMember})
	r.w.marks.Mark("sim.left")
	// It is no member from here on: notices that are on their way are nobody's.
	r.w.after(span, func() {
		if r.phase == rawOpen && !r.leaving {
			r.abort()
		}
	})
	s.joined, s.left, r.nursed = false, true, nil
}

// onNotice follows what the broker tells of owners.
func (r *raw) onNotice(m *wire.Notice) {
	s := &r.sub
	if s.left {
		return
	}
	if !s.joined || m.MemberID != s.MemberID {
		r.w.finding(PropertyProtocol, "raw client %d: a NOTICE for member %x, before SUB's OK or of somebody else", r.id, m.MemberID)
		return
	}
	s.MembershipEpoch, s.AssignmentEpoch = m.MembershipEpoch, m.AssignmentEpoch
	// The broker must not wait for ever. Until it has waited for long enough, the
	// partition is still this member's.
	mute := m.Kind == wire.NoticeRevoke && !r.w.calm && r.rand.Bool(int(r.spec.Int("mute", 0)))
	i, found := slices.BinarySearchFunc(s.owned, m.Partition, func(o rawOwned, p uint16) int { return int(o.partition) - int(p) })
	if m.Kind == wire.NoticeAssign {
		o := rawOwned{m.Partition, m.OwnershipEpoch}
		if found {
			s.owned[i] = o
		} else {
			s.owned = slices.Insert(s.owned, i, o)
		}
	} else if found {
		s.owned = slices.Delete(s.owned, i, i+1)
		for j := range s.held {
			if s.held[j].Partition == m.Partition && !mute {
				r.stale = append(r.stale, s.held[j])
			}
		}
		r.stale = r.stale[max(0, len(r.stale)-20):]
		r.nursed = slices.DeleteFunc(r.nursed, func(d nursed) bool { return d.Partition == m.Partition })
		s.held = slices.DeleteFunc(s.held, func(d rawDelivery) bool { return d.Partition == m.Partition })
	}
	if mute {
		return
	}
	a := wire.ControlAck{NoticeID: m.NoticeID, NoticeKind: m.Kind, GroupID: m.GroupID, MembershipEpoch: m.MembershipEpoch, AssignmentEpoch: m.AssignmentEpoch, OwnershipEpoch: m.OwnershipEpoch}
	r.sendBuf = a.Append(r.sendBuf)
	r.ask(rawRequest{op: wire.OpControlAck, index: -1, also: wire.CodeStaleGeneration})
}

func (r *raw) onMsg(m *wire.Msg) {
	s := &r.sub
	if s.left {
		s.held = nil
	}
	if m.Attempt > 1 {
		r.w.marks.Mark("sim.redelivered")
	}
	d := rawDelivery{Msg: *m, at: r.w.now, member: s.MemberID}
	r.w.rec.h.Deliveries = append(r.w.rec.h.Deliveries, checker.Delivery{
		Client: r.id, Group: r.group(), Member: s.MemberID, Partition: r.partition(int(m.Partition)), Sequence: m.Sequence, DeliveryID: m.DeliveryID,
		Ownership: m.OwnershipEpoch, Attempt: m.Attempt, Payload: identity(m.Key, m.Value), At: checker.Time(r.w.now),
	})
	s.balanceCount--
	s.balanceBytes -= int64(len(m.Value))
	if s.balanceCount < 0 || s.balanceBytes < 0 {
		r.w.finding(PropertyCredit, "raw client %d was sent sequence %d beyond its credit: %d messages and %d bytes are left", r.id, m.Sequence, s.balanceCount, s.balanceBytes)
	}
	d.Key, d.Value = nil, make([]byte, len(m.Value))
	if r.script != nil {
		r.script.add(&d)
		return
	}
	s.held = append(s.held, d)
}

package session

import (
	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// delayMax cuts a NACK's delay_ms (wire-protocol.md, "NACK reason").
const delayMax = 24 * 60 * 60 * 1000

const (
	textStaleOwner = "the partition has another owner or ownership epoch since: drop the delivery"
	textNoDelivery = "no such delivery is open: it is settled, was given back, or was delivered again"
)

// settling is a delivery that a request names.
type settling struct {
	u  *sub
	ln *lane
	e  uint32
	en *entry
}

// delivery finds the delivery that an ACK or NACK names. What it cannot be is
// refused: an entry that is not there, or has another id, can never again be
// settled by this request, whatever is in flight.
func (s *Sessions) delivery(i uint32, c *conn, n uint64, m *wire.Nack) (d settling, ok bool) {
	_, u, ok := s.member(i, c, n, m.SubscriptionID)
	if !ok {
		return d, false
	}
	if op.TopicID(m.TopicID) != u.topic {
		s.refuse(i, c, n, wire.CodeUnknownDelivery, "the subscription reads another topic: echo topic_id of the MSG")
		return d, false
	}
	l, ln, ok := s.groups.laneOf(u.group, op.PartitionID(m.Partition))
	if !ok {
		s.refuse(i, c, n, wire.CodeUnknownPartition, "the topic has no such partition: echo partition of the MSG")
		return d, false
	}
	if (ln.owner == 0 || s.groups.subs.at(ln.owner-1) != u || uint64(ln.epoch) != m.OwnershipEpoch) && !fault.On("stale_ack_accepted") {
		s.refuse(i, c, n, wire.CodeStaleOwner, textStaleOwner)
		return d, false
	}
	e, en, ok := s.groups.find(l, op.Sequence(m.Seq))
	if !ok || en.delivery != op.DeliveryID(m.DeliveryID) {
		s.refuse(i, c, n, wire.CodeUnknownDelivery, textNoDelivery)
		return d, false
	}
	return settling{u: u, ln: ln, e: e, en: en}, true
}

// ack carries out ACK, and PROGRESS, which is a flag of it.
func (s *Sessions) ack(i uint32, c *conn, n uint64, payload []byte) {
	var m wire.Ack
	if err := m.Decode(payload); err != nil {
		s.refuseBad(i, c, n, err)
		return
	}
	name := wire.Nack{
		SubscriptionID: m.SubscriptionID, TopicID: m.TopicID, Partition: m.Partition, Seq: m.Seq,
		DeliveryID: m.DeliveryID, OwnershipEpoch: m.OwnershipEpoch,
	}
	d, ok := s.delivery(i, c, n, &name)
	if !ok {
		return
	}
	if m.Flags&wire.FlagAckProgress != 0 {
		if d.en.state != entryOut || d.en.flags != 0 {
			s.refuse(i, c, n, wire.CodeUnknownDelivery, textNoDelivery)
			return
		}
		if !fault.On("progress_renews_nothing") {
			s.groups.unlease(d.e, d.en, d.ln)
			s.lease(d.e, d.en, d.ln)
		}
		s.ok(i, c, n)
		return
	}
	s.o = op.Op{
		Kind: op.KindAck, Group: d.u.group, Partition: d.ln.part, Sequence: d.en.seq,
		Delivery: d.en.delivery, Ownership: d.ln.epoch,
	}
	s.proposeSettle(i, c, n, &d)
}

// nack carries out NACK.
func (s *Sessions) nack(i uint32, c *conn, n uint64, payload []byte) {
	var m wire.Nack
	if err := m.Decode(payload); err != nil {
		s.refuseBad(i, c, n, err)
		return
	}
	d, ok := s.delivery(i, c, n, &m)
	if !ok {
		return
	}
	if d.en.state != entryOut {
		s.refuse(i, c, n, wire.CodeUnknownDelivery, textNoDelivery)
		return
	}
	if m.Reason == wire.NackReject {
		s.rejectDelivery(i, c, n, &d)
		return
	}
	s.o = op.Op{
		Kind: op.KindNack, Group: d.u.group, Partition: d.ln.part, Sequence: d.en.seq,
		Delivery: d.en.delivery, Ownership: d.ln.epoch, Reason: uint8(m.Reason),
	}
	if m.Flags&wire.FlagNackDelay != 0 {
		s.o.Flags, s.o.DelayMillis = op.FlagDelay, min(m.DelayMs, delayMax)
	}
	s.proposeSettle(i, c, n, &d)
}

// proposeSettle proposes s.o, which settles d or gives it back.
func (s *Sessions) proposeSettle(i uint32, c *conn, n uint64, d *settling) {
	if code := s.broker.Propose(&s.o, c.ref(i, n)); code != wire.CodeOK {
		s.refuse(i, c, n, code, "")
		return
	}
	d.en.flags |= entrySettling
}

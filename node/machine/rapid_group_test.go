package machine

import (
	"slices"

	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
	"pgregory.net/rapid"
)

func (w *world) Join(*rapid.T) {
	w.ids++
	o := op.Op{Kind: op.KindJoin, Topic: w.anyTopic(), Name: []byte(rapid.SampledFrom([]string{"g", "h"}).Draw(w.T, "name")),
		StartPolicy: uint8(w.pick("start", 2)), Member: op.MemberID(op.MakeID(w.h.Epoch, w.ids))}
	if g := w.md.groupByName(string(o.Name)); g != nil && w.pick("same", 4) > 0 {
		o.Topic = g.topic
	}
	if w.pick("must", 4) == 0 {
		o.Flags = op.FlagMustExist
	}
	res := w.apply(o)
	base, _ := w.v.Owner(res.Group, 0)
	if !w.want(o, res, w.md.join(&o, res.Group, base, res.MembershipEpoch, res.AssignmentEpoch)) {
		return
	}
	g := w.md.groups[res.Group]
	if g == nil {
		w.Fatalf("joined group %d, unknown", res.Group)
	}
	w.md.goAlong(g, w.v, w.Fatalf)
	w.told(g, res)
}

// told checks what a member is answered.
func (w *world) told(g *mGroup, res Result) {
	if res.Group != g.id || res.GroupChanged != g.id || res.MembershipEpoch != g.mem || res.AssignmentEpoch != g.asg {
		w.Fatalf("%+v, want %+v", res, *g)
	}
}

func (w *world) Leave(*rapid.T) {
	g := w.anyGroup()
	if len(g.members) == 0 {
		w.Skip("empty")
	}
	o := op.Op{Kind: op.KindLeave, Group: g.id, Member: g.members[w.pick("who", len(g.members))], Cause: uint8(w.pick("cause", 3))}
	if w.pick("wrong", 8) == 0 {
		o.Member++
	}
	if !slices.Contains(g.members, o.Member) {
		w.want(o, w.apply(o), wire.CodeUnknownMember)
		return
	}
	res := w.apply(o)
	w.want(o, res, wire.CodeOK)
	w.md.leave(g, o.Member, o.Cause == op.CauseVanished, func(p op.PartitionID, s op.Sequence) op.LogMillis {
		d, _ := w.v.Delivery(g.id, p, s)
		w.backoff(d.Due, w.md.groups[g.id].parts[p].msgs[s].charges+1)
		return d.Due
	})
	w.md.goAlong(g, w.v, w.Fatalf)
	w.told(g, res)
}

// backoff checks a due time after the nth charge, unless it is the last.
func (w *world) backoff(due op.LogMillis, n int) {
	if n >= int(w.md.set.DeliveryMaxAttempts) {
		return
	}
	d := op.LogMillis(1000 << (n - 1))
	if got := due - w.h.LogTime; got < min(d*9/10, 2700) || got > min(d*11/10+1, 3000) {
		w.Fatalf("backoff of %d ms after charge %d", got, n)
	}
}

func (w *world) Revoked(*rapid.T) {
	g := w.anyGroup()
	p := w.pick("part", len(g.parts))
	for i := range g.parts {
		if g.parts[i].revoking {
			p = i
		}
	}
	gp := g.parts[p]
	if !gp.revoking && w.pick("sure", 8) != 0 {
		w.Skip("no revoke")
	}
	o := op.Op{Kind: op.KindRevoked, Group: g.id, Partition: op.PartitionID(p), Member: gp.owner, Cause: op.CauseConfirmed}
	res := w.apply(o)
	if !gp.revoking {
		w.want(o, res, wire.CodeStaleOwner)
		return
	}
	w.want(o, res, wire.CodeOK)
	w.md.lose(gp)
	gp.owner = gp.target
	w.told(g, res)
}

func (w *world) Assign(*rapid.T) {
	g := w.anyGroup()
	for _, id := range w.groupIDs() {
		if w.md.groups[id].hold > w.h.LogTime && w.pick("wait", 4) > 0 {
			g = w.md.groups[id]
			w.h.LogTime = g.hold
		}
	}
	if g.hold == 0 && w.pick("sure", 8) != 0 {
		w.Skip("not held")
	}
	o := op.Op{Kind: op.KindAssign, Group: g.id}
	res := w.apply(o)
	if g.hold == 0 || w.h.LogTime < g.hold {
		w.want(o, res, wire.CodeStaleGeneration)
		return
	}
	w.want(o, res, wire.CodeOK)
	g.hold = 0
	w.md.goAlong(g, w.v, w.Fatalf)
	w.told(g, res)
}

func (w *world) Deliver(*rapid.T) {
	g := w.anyGroup()
	p := w.pick("part", len(g.parts))
	gp := g.parts[p]
	w.ids += 10
	o := op.Op{Kind: op.KindDeliver, Group: g.id, Partition: op.PartitionID(p), Count: uint32(w.pick("count", 6)),
		Delivery: op.DeliveryID(op.MakeID(w.h.Epoch, w.ids)), Ownership: gp.epoch, Sequence: gp.next}
	switch w.pick("what", 4) {
	case 0:
		o.Sequence = op.Sequence(w.pick("seq", int(gp.next)+2))
	case 1:
		o.Sequence = gp.floor() + 1
	}
	if w.pick("stale", 8) == 0 {
		o.Ownership += op.OwnershipEpoch(w.pick("off", 3) - 1)
	}
	res := w.apply(o)
	code, n := w.md.deliver(&o)
	if w.want(o, res, code) && res.Count != n {
		w.Fatalf("delivered %d, want %d", res.Count, n)
	}
}

// place is a message of a group.
type place struct {
	g *mGroup
	p op.PartitionID
	s op.Sequence
}

// places lists the delivered, unsettled messages of all groups in order, those
// that pass only, or all if none does.
func (w *world) places(pass func(*mGP, *mMessage) bool) (good []place) {
	var all []place
	for _, id := range w.groupIDs() {
		g := w.md.groups[id]
		for p, gp := range g.parts {
			for s := op.Sequence(1); s < gp.next; s++ {
				if msg := gp.msgs[s]; msg != nil {
					all = append(all, place{g, op.PartitionID(p), s})
					if pass(gp, msg) {
						good = append(good, all[len(all)-1])
					}
				}
			}
		}
	}
	if len(good) == 0 || w.pick("any", 16) == 0 {
		return all
	}
	return good
}

// delivery draws an op about a delivery, mostly one that it fits.
func (w *world) delivery(k op.Kind) (op.Op, *mGroup) {
	all := w.places(func(gp *mGP, msg *mMessage) bool {
		if k == op.KindDeadLetter {
			return msg.state == DeliveryDead
		}
		return msg.state == DeliveryOut || k == op.KindAck && msg.own == gp.epoch
	})
	if len(all) == 0 {
		w.Skip("nothing delivered")
	}
	at := all[w.pick("which", len(all))]
	gp := at.g.parts[at.p]
	o := op.Op{Kind: k, Group: at.g.id, Partition: at.p, Sequence: at.s, Ownership: gp.epoch, Delivery: gp.msgs[at.s].delivery}
	g := at.g
	switch w.pick("wrong", 30) {
	case 0:
		o.Delivery--
	case 1:
		o.Ownership--
	case 2:
		o.Ownership++
	case 3:
		o.Sequence++
	case 4:
		o.Partition += 2
	}
	return o, g
}

func (w *world) Ack(*rapid.T) {
	o, g := w.delivery(op.KindAck)
	gp, _, code := w.md.named(&o, false)
	if w.want(o, w.apply(o), code) {
		delete(gp.msgs, o.Sequence)
		g.parts[o.Partition].delivered++
	}
}

func (w *world) Nack(*rapid.T) {
	o, _ := w.delivery(op.KindNack)
	o.Reason = rapid.SampledFrom([]uint8{op.NackRetry, op.NackRelease}).Draw(w.T, "reason")
	if rapid.Bool().Draw(w.T, "delay") {
		o.Flags, o.DelayMillis = op.FlagDelay, rapid.SampledFrom([]uint32{0, 500, 100_000_000}).Draw(w.T, "ms")
	}
	_, msg, code := w.md.named(&o, true)
	res := w.apply(o)
	if !w.want(o, res, code) {
		return
	}
	due := w.h.LogTime + op.LogMillis(min(o.DelayMillis, 86_400_000))
	if o.Reason == op.NackRelease {
		msg.state, msg.due = DeliveryWaiting, due
	} else {
		if o.Flags == 0 {
			due = res.Due
			w.backoff(due, msg.charges+1)
		}
		w.md.charge(msg, due)
	}
	if res.Due != msg.due || res.Dead != (msg.state == DeliveryDead) {
		w.Fatalf("%+v, want %+v", res, *msg)
	}
}

func (w *world) Expire(*rapid.T) {
	o, _ := w.delivery(op.KindExpire)
	_, msg, code := w.md.named(&o, true)
	res := w.apply(o)
	if !w.want(o, res, code) {
		return
	}
	w.backoff(res.Due, msg.charges+1)
	w.md.charge(msg, res.Due)
	if res.Due != msg.due || res.Dead != (msg.state == DeliveryDead) {
		w.Fatalf("%+v, want %+v", res, *msg)
	}
}

func (w *world) DeadLetter(*rapid.T) {
	o, g := w.delivery(op.KindDeadLetter)
	o.Topic, o.Timestamp, o.Cause = g.topic, uint64(w.pick("ts", 100)), op.CauseReject
	var gp *mGP
	var code wire.Code
	if rapid.Bool().Draw(w.T, "reject") {
		gp, _, code = w.md.named(&o, true)
	} else {
		o.Cause = op.CauseAttempts
		if int(o.Partition) >= len(g.parts) {
			code = wire.CodeUnknownPartition
		} else if gp = g.parts[o.Partition]; gp.msgs[o.Sequence] == nil || gp.msgs[o.Sequence].state != DeliveryDead || gp.msgs[o.Sequence].delivery != o.Delivery {
			code = wire.CodeUnknownDelivery
		}
	}
	t, twin := w.md.topic(g.topic)
	if code == wire.CodeOK && twin == 1 {
		code = wire.CodeDLQPathOverflow
	}
	if code == wire.CodeUnknownPartition && o.Cause == op.CauseReject && uint16(o.Partition) < t.n {
		w.Fatal("partition counts differ")
	}
	res := w.apply(o)
	w.want(o, res, code)
	if code != wire.CodeOK && code != wire.CodeDLQPathOverflow {
		return
	}
	delete(gp.msgs, o.Sequence)
	gp.dropped++
	if twin == 1 {
		gp.quarantined++
		if res.Append.Present {
			w.Fatal("a dead letter that dies again is written")
		}
		return
	}
	gp.dlq++
	w.appended(res, t.parts[1][o.Partition], &o, t.id+1, RecordDeadLetter)
}

// appended checks a record that an op appends to p, and appends it.
func (w *world) appended(res Result, p *mPart, o *op.Op, id op.TopicID, kind uint8) {
	p.append(o.Timestamp)
	last := len(p.stamps)
	want := Append{Present: true, Kind: kind, Topic: id, Partition: o.Partition, Sequence: op.Sequence(last),
		Timestamp: p.stamps[last-1], LeaderEpoch: w.h.Epoch, ProducerID: o.ProducerID, ProducerSeq: o.ProducerSeq}
	if res.Append != want || res.Sequence != want.Sequence {
		w.Fatalf("%+v, want %+v", res, want)
	}
}

func (w *world) ResetGroup(*rapid.T) {
	g := w.anyGroup()
	if len(g.members) > 0 && w.pick("sure", 8) != 0 {
		w.Skip("members")
	}
	p := w.pick("part", len(g.parts))
	gp := g.parts[p]
	last := op.Sequence(len(w.md.part(g.topic, op.PartitionID(p)).stamps))
	o := op.Op{Kind: op.KindGroupReset, Group: g.id, Partition: op.PartitionID(p), Sequence: op.Sequence(w.pick("seq", int(last)+3))}
	res := w.apply(o)
	if len(g.members) > 0 {
		w.want(o, res, wire.CodeGroupMemberLimit)
		return
	}
	w.want(o, res, wire.CodeOK)
	clear(gp.msgs)
	gp.next = max(1, min(o.Sequence, last+1))
	gp.start = int64(gp.floor()) - int64(gp.delivered) - int64(gp.dropped)
	if res.Sequence != gp.next {
		w.Fatalf("%+v, want %d", res, gp.next)
	}
}

func (w *world) DeleteGroup(*rapid.T) {
	if w.pick("sure", 12) != 0 {
		w.Skip("not now")
	}
	g := w.anyGroup()
	o := op.Op{Kind: op.KindGroupDelete, Group: g.id}
	res := w.apply(o)
	if len(g.members) > 0 {
		w.want(o, res, wire.CodeGroupMemberLimit)
		return
	}
	w.want(o, res, wire.CodeOK)
	delete(w.md.groups, g.id)
}

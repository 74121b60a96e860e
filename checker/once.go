package checker

import "slices"

// settled collects what clients know of the settlement of a message.
type settled struct {
	acked    bool   // an ACK was answered OK
	maybe    bool   // an ACK's answer is not known
	delivery uint64 // of the first settle that was answered OK and ends it
	at       Time
}

func (x *index) settlements() map[groupSlot]*settled {
	all := map[groupSlot]*settled{}
	for i := range x.h.Settles {
		s := &x.h.Settles[i]
		k := x.key(s.Group, s.Partition, s.Sequence, s.Ownership)
		e := all[k]
		if e == nil {
			e = &settled{}
			all[k] = e
		}
		switch {
		case s.Kind == Ack && s.Outcome == OK:
			e.acked = true
		case s.Kind == Ack && s.Outcome == Unknown:
			e.maybe = true
		}
		if s.Outcome == OK && (s.Kind == Ack || s.Kind == Reject) && e.delivery == 0 {
			e.delivery, e.at = s.DeliveryID, s.Return
		}
	}
	return all
}

// atLeastOnce: in the books of a drained group every message is settled, and
// the counts agree with what clients were told.
func atLeastOnce(x *index) (found []Finding) {
	if !x.h.Drained {
		return nil
	}
	all := x.settlements()
	for _, l := range x.lanes {
		b := &x.h.Books[x.lastBook[l]]
		if b.Unsettled != 0 {
			found = append(found, finding(PropertyAtLeastOnce, b.At, "group %s, %v: %d messages are unsettled in the end", l.group, l.Partition, b.Unsettled))
			continue
		}
		if b.Dropped != b.DLQ+b.Quarantined && !x.twin(l.Partition) {
			found = append(found, finding(PropertyAtLeastOnce, b.At, "group %s, %v: %d were dropped and only %d of them are dead letters", l.group, l.Partition, b.Dropped, b.DLQ))
		}
		if len(x.breaks[l]) > 0 {
			found = append(found, x.delivered(l, b, all)...)
			continue
		}
		var acked, maybe, never uint64
		for s := uint64(max(b.Start, 0)) + 1; s <= b.LastSeq; s++ {
			switch e := all[groupSlot{group: l.group, slot: slot{l.Partition, s}}]; {
			case e != nil && e.acked:
				acked++
			case e != nil && e.maybe:
				maybe++
			default:
				never++
			}
		}
		if b.Delivered < acked || b.Delivered > acked+maybe {
			found = append(found, finding(PropertyAtLeastOnce, b.At, "group %s, %v: %d delivered in the books; clients know of %d ACKs and are not sure of %d more",
				l.group, l.Partition, b.Delivered, acked, maybe))
		}
		if b.Dropped < never || b.Dropped > never+maybe {
			found = append(found, finding(PropertyAtLeastOnce, b.At, "group %s, %v: %d dropped in the books; clients never acknowledged %d and are not sure of %d more",
				l.group, l.Partition, b.Dropped, never, maybe))
		}
	}
	return found
}

// delivered is the count of ACKs of a group that was reset or deleted: what was
// acknowledged before it may be acknowledged again after it.
func (x *index) delivered(l lane, b *Book, all map[groupSlot]*settled) (found []Finding) {
	var acked, maybe uint64
	oldest := 0 // generation that the counters go back to
	for i, k := range x.breaks[l] {
		if k.Fresh {
			oldest = i + 1
		}
	}
	counted := map[groupSlot]bool{}
	for i := range x.h.Settles {
		s := &x.h.Settles[i]
		if s.Group != l.group || s.Partition != l.Partition {
			continue
		}
		k := x.key(s.Group, s.Partition, s.Sequence, s.Ownership)
		if counted[k] || k.generation < oldest {
			continue
		}
		counted[k] = true
		switch e := all[k]; {
		case e.acked:
			acked++
		case e.maybe:
			maybe++
		}
	}
	if b.Delivered < acked || b.Delivered > acked+maybe {
		found = append(found, finding(PropertyAtLeastOnce, b.At, "group %s, %v: %d delivered in the books, over %d breaks; clients know of %d ACKs and are not sure of %d more",
			l.group, l.Partition, b.Delivered, len(x.breaks[l]), acked, maybe))
	}
	return found
}

// twin says whether a partition is a twin's.
func (x *index) twin(p Partition) bool {
	l := x.logs[p]
	return l != nil && l.Twin
}

// settledStays: after a settlement was answered there is no second one, and no
// later delivery. A delivery that its client gave back first and acknowledged
// then is due in between: there the next one may be on its way already.
func settledStays(x *index) (found []Finding) {
	first := map[groupSlot]int{}
	given := map[uint64]bool{}
	for i := range x.h.Settles {
		s := &x.h.Settles[i]
		if (s.Kind == Retry || s.Kind == Release) && s.Outcome != Refused {
			given[s.DeliveryID] = true
		}
		if s.Outcome != OK || s.Kind != Ack && s.Kind != Reject {
			continue
		}
		k := x.key(s.Group, s.Partition, s.Sequence, s.Ownership)
		j, ok := first[k]
		if !ok {
			first[k] = i
			continue
		}
		found = append(found, finding(PropertySettledStays, s.Return, "group %s, %v: sequence %d was settled by delivery %x and again by %x",
			s.Group, s.Partition, s.Sequence, x.h.Settles[j].DeliveryID, s.DeliveryID))
	}
	for i := range x.h.Deliveries {
		d := &x.h.Deliveries[i]
		j, ok := first[x.key(d.Group, d.Partition, d.Sequence, d.Ownership)]
		if ok && d.DeliveryID > x.h.Settles[j].DeliveryID && !given[x.h.Settles[j].DeliveryID] {
			found = append(found, finding(PropertySettledStays, d.At, "group %s, %v: sequence %d was settled by delivery %x and handed out again as %x",
				d.Group, d.Partition, d.Sequence, x.h.Settles[j].DeliveryID, d.DeliveryID))
		}
	}
	return found
}

// deadLetters: a message has at most one dead letter per group - and one more for
// each time that the group was reset or deleted -, and none where an ACK was
// answered OK; the books count them.
func deadLetters(x *index) (found []Finding) {
	all := x.settlements()
	first := map[groupSlot]int{}
	copies := map[groupSlot]int{}
	count := map[lane]uint64{}
	for i := range x.h.Logs {
		l := &x.h.Logs[i]
		for j := range l.Records {
			r := &l.Records[j]
			if !r.DeadLetter {
				continue
			}
			k := groupSlot{group: r.Source.Group, slot: slot{r.Source.Partition, r.Source.Sequence}}
			breaks := len(x.breaks[lane{k.group, k.Partition}])
			count[lane{k.group, k.Partition}]++
			copies[k]++
			if before, ok := first[k]; ok && copies[k] > 1+breaks {
				found = append(found, finding(PropertyDeadLetter, 0, "group %s, %v: sequence %d is in the twin at %d and at %d", k.group, k.Partition, k.sequence, before+1, j+1))
			}
			first[k] = j
			if e := all[k]; e != nil && e.acked && breaks == 0 {
				found = append(found, finding(PropertyDeadLetter, e.at, "group %s, %v: sequence %d was acknowledged and is in the twin at %d", k.group, k.Partition, k.sequence, j+1))
			}
			if src := x.record(k.slot); src == nil || src.Payload != r.Payload {
				found = append(found, finding(PropertyDeadLetter, 0, "group %s, %v: the dead letter at %d is not the message at sequence %d", k.group, k.Partition, j+1, k.sequence))
			}
		}
	}
	if !x.h.Drained {
		return found
	}
	for _, l := range x.lanes {
		if b := &x.h.Books[x.lastBook[l]]; b.DLQ > count[l] || b.DLQ < count[l] && !x.fresh(l) {
			found = append(found, finding(PropertyDeadLetter, b.At, "group %s, %v: %d dead letters in the books, %d in the twin", l.group, l.Partition, b.DLQ, count[l]))
		}
	}
	return found
}

// fresh says whether the group's counters began anew on the way.
func (x *index) fresh(l lane) bool {
	return slices.ContainsFunc(x.breaks[l], func(b *Break) bool { return b.Fresh })
}

// charges: a message whose attempts were used up was delivered at least as often
// as it takes, not counting deliveries that cost nothing: those that were released,
// and what a member held that vanished, but for the lowest.
func charges(x *index) (found []Finding) {
	if x.h.MaxAttempts == 0 {
		return nil
	}
	released := map[groupSlot]uint32{}
	for i := range x.h.Settles {
		if s := &x.h.Settles[i]; s.Kind == Release && s.Outcome == OK {
			released[groupSlot{group: s.Group, slot: slot{s.Partition, s.Sequence}}]++
		}
	}
	for i := range x.h.Deliveries {
		if d := &x.h.Deliveries[i]; d.Spared {
			released[groupSlot{group: d.Group, slot: slot{d.Partition, d.Sequence}}]++
		}
	}
	for i := range x.h.Logs {
		for j := range x.h.Logs[i].Records {
			r := &x.h.Logs[i].Records[j]
			k := groupSlot{group: r.Source.Group, slot: slot{r.Source.Partition, r.Source.Sequence}}
			if len(x.breaks[lane{k.group, k.Partition}]) > 0 {
				continue // which of them were released before is not known
			}
			if r.DeadLetter && !r.Rejected && r.Attempts < x.h.MaxAttempts+released[k] {
				found = append(found, finding(PropertyCharges, 0, "group %s, %v: sequence %d died after %d deliveries, %d of them free of charge; it takes %d that are charged",
					k.group, k.Partition, k.sequence, r.Attempts, released[k], x.h.MaxAttempts))
			}
		}
	}
	return found
}

package checker

import "slices"

// lostWrites: an acknowledged message is not in the log where it was said to be.
func lostWrites(x *index) (found []Finding) {
	for i := range x.h.Publishes {
		p := &x.h.Publishes[i]
		l := x.logs[p.Partition]
		if p.Outcome != OK || l == nil {
			continue
		}
		if r := x.record(slot{p.Partition, p.Sequence}); r == nil {
			found = append(found, finding(PropertyLost, p.Return, "client %d was told that %v holds message %x at sequence %d; the log ends at %d",
				p.Client, p.Partition, p.Payload, p.Sequence, len(l.Records)))
		}
	}
	return found
}

// duplicates: one message twice in a log, but for dead letters that were put
// back: those redrive.go counts.
func duplicates(x *index) (found []Finding) {
	type id struct{ producer, sequence uint64 }
	for i := range x.h.Logs {
		l := &x.h.Logs[i]
		payloads, ids := map[uint64]int{}, map[id]int{}
		for j := range l.Records {
			r := &l.Records[j]
			if r.DeadLetter {
				continue
			}
			if first, ok := payloads[r.Payload]; ok && x.redriven(l.Partition) {
				continue
			} else if ok {
				found = append(found, finding(PropertyDuplicate, x.returned(l.Partition, r.Payload), "%v holds message %x at %d and at %d", l.Partition, r.Payload, first+1, j+1))
			}
			payloads[r.Payload] = j
			if r.ProducerID == 0 {
				continue
			}
			k := id{r.ProducerID, r.ProducerSeq}
			if first, ok := ids[k]; ok {
				found = append(found, finding(PropertyDuplicate, x.returned(l.Partition, r.Payload), "%v holds producer %x's sequence %d at %d and at %d",
					l.Partition, r.ProducerID, r.ProducerSeq, first+1, j+1))
			}
			ids[k] = j
		}
	}
	return found
}

// returned is when the last publish of a message ended, as far as is known.
func (x *index) returned(p Partition, payload uint64) Time {
	var at Time
	for _, i := range x.published[message{p, payload}] {
		if r := x.h.Publishes[i].Return; r != Forever {
			at = max(at, r)
		}
	}
	return at
}

// inconsistentOffsets: two observers saw different messages at one sequence.
func inconsistentOffsets(x *index) (found []Finding) {
	seen := map[slot]uint64{}
	see := func(s slot, payload uint64, at Time, who string, client int) {
		if first, ok := seen[s]; !ok {
			seen[s] = payload
		} else if first != payload {
			found = append(found, finding(PropertyInconsistent, at, "%s to client %d: %v holds %x at sequence %d, which was seen to hold %x",
				who, client, s.Partition, payload, s.sequence, first))
		}
	}
	for i := range x.h.Logs {
		l := &x.h.Logs[i]
		for j := range l.Records {
			see(slot{l.Partition, uint64(j + 1)}, l.Records[j].Payload, 0, "log", 0)
		}
	}
	for i := range x.h.Publishes {
		if p := &x.h.Publishes[i]; p.Outcome == OK {
			see(slot{p.Partition, p.Sequence}, p.Payload, p.Return, "PUB's OK", p.Client)
		}
	}
	for i := range x.h.Deliveries {
		d := &x.h.Deliveries[i]
		see(slot{d.Partition, d.Sequence}, d.Payload, d.At, "MSG", d.Client)
	}
	return found
}

// abortedReads: a message was handed out, or is in the log, that nobody
// published or whose every publish was refused.
func abortedReads(x *index) (found []Finding) {
	judge := func(p Partition, payload uint64, at Time, where string) {
		all := x.published[message{p, payload}]
		for _, i := range all {
			if x.h.Publishes[i].Outcome != Refused {
				return
			}
		}
		if len(all) == 0 {
			found = append(found, finding(PropertyAborted, at, "%s: %v holds %x, which nobody published", where, p, payload))
			return
		}
		f := &x.h.Publishes[all[0]]
		found = append(found, finding(PropertyAborted, max(at, f.Return), "%s: %v holds %x, whose publish was refused with %v", where, p, payload, f.Code))
	}
	for i := range x.h.Logs {
		if l := &x.h.Logs[i]; !l.Twin {
			for j := range l.Records {
				judge(l.Partition, l.Records[j].Payload, 0, "log")
			}
		}
	}
	for i := range x.h.Deliveries {
		d := &x.h.Deliveries[i]
		if l := x.logs[d.Partition]; l == nil || !l.Twin {
			judge(d.Partition, d.Payload, d.At, "MSG")
		}
	}
	return found
}

// polls: the first deliveries of a partition to one owner come in the order of
// the log and leave nothing out.
func polls(x *index) (found []Finding) {
	type reader struct {
		lane
		ownership uint64
		member    uint64
	}
	last := map[reader]uint64{}
	for i := range x.h.Deliveries {
		d := &x.h.Deliveries[i]
		if d.Attempt != 1 {
			continue
		}
		k := reader{lane{d.Group, d.Partition}, d.Ownership, d.Member}
		before, ok := last[k]
		last[k] = max(before, d.Sequence)
		switch {
		case !ok || d.Sequence == before+1:
		case d.Sequence <= before:
			found = append(found, finding(PropertyNonMonotonic, d.At, "group %s, %v: member %x was handed sequence %d for the first time after %d", d.Group, d.Partition, d.Member, d.Sequence, before))
		default:
			found = append(found, finding(PropertySkipping, d.At, "group %s, %v: member %x was handed sequence %d for the first time right after %d", d.Group, d.Partition, d.Member, d.Sequence, before))
		}
	}
	return found
}

// unseen: a message of the log that no member of a drained group was ever
// handed.
func unseen(x *index) (found []Finding) {
	if !x.h.Drained {
		return nil
	}
	seen := map[groupSlot]bool{}
	for i := range x.h.Deliveries {
		d := &x.h.Deliveries[i]
		seen[x.key(d.Group, d.Partition, d.Sequence, d.Ownership)] = true
	}
	// A dead letter may stand for a message whose every MSG was lost on its way.
	for i := range x.h.Logs {
		for j := range x.h.Logs[i].Records {
			if r := &x.h.Logs[i].Records[j]; r.DeadLetter {
				k := groupSlot{group: r.Source.Group, slot: slot{r.Source.Partition, r.Source.Sequence}}
				k.generation = len(x.breaks[lane{k.group, k.Partition}])
				seen[k] = true
			}
		}
	}
	for _, l := range x.lanes {
		b := &x.h.Books[x.lastBook[l]]
		quiet := b.Quarantined // these may have died of MSGs that were lost
		from, known := x.begin(l, b)
		if !known {
			continue
		}
		for s := from; s <= b.LastSeq; s++ {
			if seen[groupSlot{l.group, slot{l.Partition, s}, len(x.breaks[l])}] {
				continue
			}
			if quiet > 0 {
				quiet--
			} else {
				found = append(found, finding(PropertyUnseen, b.At, "group %s, %v: sequence %d was never handed to anybody", l.group, l.Partition, s))
			}
		}
	}
	return slices.Clip(found)
}

// begin gives the first sequence that the group, as it is in the end, had to be
// handed; known is false where a break has hidden it.
func (x *index) begin(l lane, b *Book) (from uint64, known bool) {
	breaks := x.breaks[l]
	if len(breaks) == 0 || breaks[len(breaks)-1].Fresh {
		return uint64(max(b.Start, 0)) + 1, true
	}
	next := breaks[len(breaks)-1].Next
	return next, next > 0
}

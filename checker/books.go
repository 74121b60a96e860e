package checker

// books: committed - start = delivered + dropped + unsettled, and what follows
// from it, in every sample.
func books(x *index) (found []Finding) {
	for i := range x.h.Books {
		b := &x.h.Books[i]
		switch sum := int64(b.Delivered + b.Dropped + b.Unsettled); {
		case int64(b.LastSeq)-b.Start != sum:
			found = append(found, finding(PropertyBooks, b.At, "group %s, %v: committed %d - start %d is not delivered %d + dropped %d + unsettled %d",
				b.Group, b.Partition, b.LastSeq, b.Start, b.Delivered, b.Dropped, b.Unsettled))
		case b.DLQ+b.Quarantined > b.Dropped:
			found = append(found, finding(PropertyBooks, b.At, "group %s, %v: dlq %d + quarantined %d are more than dropped %d", b.Group, b.Partition, b.DLQ, b.Quarantined, b.Dropped))
		case b.Floor >= b.NextFirst || b.NextFirst > b.LastSeq+1:
			found = append(found, finding(PropertyBooks, b.At, "group %s, %v: floor %d, next first %d, last %d are out of order", b.Group, b.Partition, b.Floor, b.NextFirst, b.LastSeq))
		}
	}
	return found
}

// booksFall: what was committed stays committed, over every restart. NextFirst
// and Unsettled are not among it: deliveries are not waited for.
func booksFall(x *index) (found []Finding) {
	last := map[lane]int{}
	for i := range x.h.Books {
		b := &x.h.Books[i]
		l := lane{b.Group, b.Partition}
		j, ok := last[l]
		last[l] = i
		if !ok {
			continue
		}
		a := &x.h.Books[j]
		reset, fresh := x.broken(l, a.At, b.At)
		for _, c := range [...]struct {
			what          string
			before, after uint64
		}{
			{"last sequence", a.LastSeq, b.LastSeq},
			{"ack floor", a.Floor, b.Floor},
			{"delivered", a.Delivered, b.Delivered},
			{"dropped", a.Dropped, b.Dropped},
			{"dlq", a.DLQ, b.DLQ},
			{"ownership epoch", a.Ownership, b.Ownership},
		} {
			if fresh && c.what != "last sequence" && c.what != "ownership epoch" || reset && c.what == "ack floor" {
				continue
			}
			if c.after < c.before {
				found = append(found, finding(PropertyBooksFall, b.At, "group %s, %v: %s fell from %d to %d", b.Group, b.Partition, c.what, c.before, c.after))
			}
		}
	}
	return found
}

// broken says whether the group was reset between two instants, or deleted.
func (x *index) broken(l lane, from, to Time) (reset, fresh bool) {
	for _, b := range x.breaks[l] {
		if b.From <= to && b.To >= from {
			reset, fresh = true, fresh || b.Fresh
		}
	}
	return reset, fresh
}

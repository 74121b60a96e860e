package checker

// resetsToTime: a group that was reset to a time goes on with the first message
// that is not older. What was published while the reset ran may be either.
func resetsToTime(x *index) (found []Finding) {
	for i := range x.h.Breaks {
		b := &x.h.Breaks[i]
		l := x.logs[b.Partition]
		if b.Since == 0 || b.Next == 0 || l == nil {
			continue
		}
		stamp := func(s uint64) uint64 { return l.Records[s-1].Timestamp }
		last := uint64(len(l.Records))
		if before := b.Next - 1; before > 0 && before <= last && stamp(before) >= b.Since {
			found = append(found, finding(PropertyResetToTime, b.To, "group %s, %v: it was reset to time %d and goes on with sequence %d; %d is of %d already",
				b.Group, b.Partition, b.Since, b.Next, before, stamp(before)))
		}
		if b.Next <= min(b.Last, last) && stamp(b.Next) < b.Since {
			found = append(found, finding(PropertyResetToTime, b.To, "group %s, %v: it was reset to time %d and goes on with sequence %d, which is of %d",
				b.Group, b.Partition, b.Since, b.Next, stamp(b.Next)))
		}
	}
	return found
}

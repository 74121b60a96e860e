package checker

// ownership: per (group, partition) a fenced lock. An ownership epoch has one
// holder; once a later epoch was seen, nothing that is asked from then on
// succeeds under an earlier one.
//
// The lock's own history needs no search: an epoch is taken at some point before
// it is first seen, and a settle that succeeds has a point inside its interval
// at which its epoch is the latest taken. Both can be had exactly when the
// settle's call is not after the first sight of a later epoch.
func ownership(x *index) (found []Finding) {
	type epoch struct {
		lane
		ownership uint64
	}
	holder := map[epoch]uint64{}
	type sight struct {
		ownership uint64
		at        Time
	}
	// rises are the first sights of each epoch above all seen before, per lane.
	rises := map[lane][]sight{}
	for i := range x.h.Deliveries {
		d := &x.h.Deliveries[i]
		l := lane{d.Group, d.Partition}
		e := epoch{l, d.Ownership}
		if m, ok := holder[e]; ok && m != d.Member {
			found = append(found, finding(PropertyOwnership, d.At, "group %s, %v: ownership epoch %d is held by members %x and %x", d.Group, d.Partition, d.Ownership, m, d.Member))
		}
		holder[e] = d.Member
		r := rises[l]
		if len(r) == 0 || d.Ownership > r[len(r)-1].ownership {
			rises[l] = append(r, sight{d.Ownership, d.At})
		}
	}
	for i := range x.h.Settles {
		s := &x.h.Settles[i]
		if s.Outcome != OK {
			continue
		}
		for _, r := range rises[lane{s.Group, s.Partition}] {
			if r.ownership > s.Ownership && r.at < s.Call {
				found = append(found, finding(PropertyOwnership, s.Return, "group %s, %v: %s of sequence %d under ownership epoch %d succeeded after epoch %d was seen",
					s.Group, s.Partition, s.Kind, s.Sequence, s.Ownership, r.ownership))
				break
			}
		}
	}
	return found
}

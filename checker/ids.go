package checker

// deliveryIDs: a delivery id is given once, ever.
func deliveryIDs(x *index) (found []Finding) {
	type sight struct {
		groupSlot
		member uint64
	}
	seen := map[uint64]sight{}
	for i := range x.h.Deliveries {
		d := &x.h.Deliveries[i]
		k := groupSlot{group: d.Group, slot: slot{d.Partition, d.Sequence}}
		if s, ok := seen[d.DeliveryID]; ok {
			found = append(found, finding(PropertyDeliveryIDs, d.At, "delivery %x is of group %s, %v, sequence %d for member %x, and was of group %s, %v, sequence %d for member %x",
				d.DeliveryID, d.Group, d.Partition, d.Sequence, d.Member, s.group, s.Partition, s.sequence, s.member))
		}
		seen[d.DeliveryID] = sight{k, d.Member}
	}
	return found
}

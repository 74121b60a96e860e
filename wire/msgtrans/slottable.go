package msgtrans

import "math/bits"

// slotTable finds a pending request's slot by its id: open addressing, linear
// probing. Ids are issued one after the other and would lie side by side, as one
// run that every removal has to walk; so they are scattered.
//
// Invariants: id 0 marks a free cell; at most half of the cells are used, so that a
// search ends; no cell between an id's home and its place is free.
type slotTable struct {
	cells []slotCell // a power of two of them, or none
	used  int
}

type slotCell struct {
	id   MessageID
	slot int32
}

// home is where the search for id begins.
func (t *slotTable) home(id MessageID) uint32 {
	// 2^32 over the golden ratio; the product's high bits are the scattered ones.
	return uint32(id) * 0x9E3779B1 >> bits.LeadingZeros32(uint32(len(t.cells)-1))
}

// find returns the cell of id, or the free one where the search for it ends.
func (t *slotTable) find(id MessageID) uint32 {
	mask := uint32(len(t.cells) - 1)
	i := t.home(id)
	for t.cells[i].id != id && t.cells[i].id != 0 {
		i = (i + 1) & mask
	}
	return i
}

func (t *slotTable) get(id MessageID) (int32, bool) {
	if id == 0 || t.used == 0 {
		return 0, false
	}
	c := t.cells[t.find(id)]
	return c.slot, c.id == id
}

// put adds id, which is not 0 and not in the table.
func (t *slotTable) put(id MessageID, slot int32) {
	if 2*(t.used+1) > len(t.cells) {
		old := t.cells
		t.cells = make([]slotCell, max(16, 2*len(old)))
		for _, c := range old {
			if c.id != 0 {
				t.cells[t.find(c.id)] = c
			}
		}
	}
	t.cells[t.find(id)] = slotCell{id: id, slot: slot}
	t.used++
}

// delete removes id, which is in the table, and moves up those behind it whose
// search would now end too early.
func (t *slotTable) delete(id MessageID) {
	mask := uint32(len(t.cells) - 1)
	hole := t.find(id)
	if t.cells[hole].id != id {
		panic("msgtrans: invariant 6: a pending request is not in the table")
	}
	t.used--
	for i := (hole + 1) & mask; t.cells[i].id != 0; i = (i + 1) & mask {
		home := t.home(t.cells[i].id)
		if (i-home)&mask >= (i-hole)&mask {
			t.cells[hole] = t.cells[i]
			hole = i
		}
	}
	t.cells[hole] = slotCell{}
}

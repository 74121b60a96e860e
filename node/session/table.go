package session

import (
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

const maxUnsettled = wire.MaxUnsettled

// link is a place in a list.
type link struct{ prev, next uint32 }

// list is a doubly linked list of indices whose links lie with what is indexed.
type list struct{ head, tail uint32 }

var emptyList = list{none, none}

func (l *list) pushBack(e uint32, in *slab[entry]) {
	in.at(e).link = link{l.tail, none}
	if l.tail == none {
		l.head = e
	} else {
		in.at(l.tail).link.next = e
	}
	l.tail = e
}

func (l *list) remove(e uint32, in *slab[entry]) {
	k := in.at(e).link
	if k.prev == none {
		l.head = k.next
	} else {
		in.at(k.prev).link.next = k.next
	}
	if k.next == none {
		l.tail = k.prev
	} else {
		in.at(k.next).link.prev = k.prev
	}
}

// table finds entries by lane and sequence: open addressing with linear probing
// and deletion by shifting back, at most three quarters full.
type table struct {
	slots []uint32 // entry plus one
	used  int
}

func hash(l uint32, seq op.Sequence) uint64 {
	h := (uint64(seq) ^ uint64(l)<<40) * 0x9E3779B97F4A7C15
	return h ^ h>>29
}

func (t *table) get(l uint32, seq op.Sequence, in *slab[entry]) (uint32, bool) {
	if t.used == 0 {
		return none, false
	}
	mask := uint64(len(t.slots) - 1)
	for i := hash(l, seq) & mask; t.slots[i] != 0; i = (i + 1) & mask {
		e := t.slots[i] - 1
		if en := in.at(e); en.seq == seq && en.lane == l {
			return e, true
		}
	}
	return none, false
}

func (t *table) put(e uint32, in *slab[entry]) {
	if 4*(t.used+1) > 3*len(t.slots) {
		t.resize(max(64, 2*len(t.slots)), in)
	}
	t.insert(e, in)
	t.used++
}

func (t *table) insert(e uint32, in *slab[entry]) {
	mask := uint64(len(t.slots) - 1)
	en := in.at(e)
	i := hash(en.lane, en.seq) & mask
	for t.slots[i] != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = e + 1
}

func (t *table) resize(n int, in *slab[entry]) {
	old := t.slots
	t.slots = make([]uint32, n)
	for _, v := range old {
		if v != 0 {
			t.insert(v-1, in)
		}
	}
}

func (t *table) remove(e uint32, in *slab[entry]) {
	mask := uint64(len(t.slots) - 1)
	en := in.at(e)
	i := hash(en.lane, en.seq) & mask
	for t.slots[i] != e+1 {
		i = (i + 1) & mask
	}
	t.used--
	for j := i; ; {
		j = (j + 1) & mask
		if t.slots[j] == 0 {
			break
		}
		other := in.at(t.slots[j] - 1)
		home := hash(other.lane, other.seq) & mask
		if (j-home)&mask >= (j-i)&mask { // it may move back to i
			t.slots[i] = t.slots[j]
			i = j
		}
	}
	t.slots[i] = 0
}

// pushDue puts a waiting entry in the lane's heap.
func (ln *lane) pushDue(e uint32, en *entry, in *slab[entry]) {
	en.place = uint32(len(ln.due))
	ln.due = append(ln.due, e)
	ln.dueUp(len(ln.due)-1, in)
}

// removeDue takes a waiting entry out of the lane's heap.
func (ln *lane) removeDue(en *entry, in *slab[entry]) {
	i, last := int(en.place), len(ln.due)-1
	moved := ln.due[last]
	ln.due = ln.due[:last]
	if i == last {
		return
	}
	ln.due[i] = moved
	in.at(moved).place = uint32(i)
	ln.dueUp(i, in)
	ln.dueDown(int(in.at(moved).place), in)
}

func dueBefore(a, b *entry) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

func (ln *lane) dueSwap(i, j int, in *slab[entry]) {
	ln.due[i], ln.due[j] = ln.due[j], ln.due[i]
	in.at(ln.due[i]).place, in.at(ln.due[j]).place = uint32(i), uint32(j)
}

func (ln *lane) dueUp(i int, in *slab[entry]) {
	for i > 0 && dueBefore(in.at(ln.due[i]), in.at(ln.due[(i-1)/2])) {
		ln.dueSwap(i, (i-1)/2, in)
		i = (i - 1) / 2
	}
}

func (ln *lane) dueDown(i int, in *slab[entry]) {
	for {
		c := 2*i + 1
		if c >= len(ln.due) {
			return
		}
		if c+1 < len(ln.due) && dueBefore(in.at(ln.due[c+1]), in.at(ln.due[c])) {
			c++
		}
		if !dueBefore(in.at(ln.due[c]), in.at(ln.due[i])) {
			return
		}
		ln.dueSwap(i, c, in)
		i = c
	}
}

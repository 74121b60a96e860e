package checker

import (
	"cmp"
	"slices"
)

// The model: per (group, partition) a fenced lock. An epoch is taken by one
// member at some point before it is first seen, each above the one before; a
// settle that succeeds has a point inside its interval at which its epoch is the
// latest taken, and a delivery one before it arrives at which its member holds
// its epoch.

// lockOp is one operation of the model.
type lockOp struct {
	take   bool
	epoch  uint64
	member uint64 // of a take, or of a delivery; 0 for a settle
	call   Time
	late   bool // just behind call
	ret    Time
	source int // index of the settle or the delivery
}

// ownership checks the property for every group and partition: directly, by
// intervals, and then, as a second opinion, with porcupine. It gives those for
// which the budget was not enough.
func ownership(x *index, steps int) (found []Finding, unsure []lane) {
	lanes, ops := lockOps(x)
	for _, l := range lanes {
		f := lockDirect(x, l, ops[l])
		if len(f) == 0 {
			ok, conclusive := lockSearch(tightenLock(ops[l]), steps)
			switch {
			case !conclusive:
				unsure = append(unsure, l)
			case !ok:
				f = append(f, finding(PropertyOwnership, 0, "group %s, %v: no order of %d operations explains who owned it when", l.group, l.Partition, len(ops[l])))
			}
		}
		found = append(found, f...)
	}
	return found, unsure
}

// lockOps gives the operations of every lane, and the lanes in the order in which
// they were first seen. Of the deliveries only those tell something that are the
// first of an epoch, or another member's.
func lockOps(x *index) (lanes []lane, ops map[lane][]lockOp) {
	type epoch struct {
		lane
		ownership uint64
	}
	ops = map[lane][]lockOp{}
	holder := map[epoch]uint64{}
	for i := range x.h.Deliveries {
		d := &x.h.Deliveries[i]
		l := lane{d.Group, d.Partition}
		e := epoch{l, d.Ownership}
		m, taken := holder[e]
		if taken && m == d.Member {
			continue
		}
		if _, ok := ops[l]; !ok {
			lanes = append(lanes, l)
		}
		ops[l] = append(ops[l], lockOp{take: !taken, epoch: d.Ownership, member: d.Member, ret: d.At, source: i})
		holder[e] = d.Member
	}
	for i := range x.h.Settles {
		s := &x.h.Settles[i]
		l := lane{s.Group, s.Partition}
		if _, known := holder[epoch{l, s.Ownership}]; s.Outcome == OK && known {
			ops[l] = append(ops[l], lockOp{epoch: s.Ownership, call: s.Call, ret: s.Return, source: i})
		}
	}
	for _, l := range lanes {
		slices.SortStableFunc(ops[l], func(a, b lockOp) int { return cmp.Compare(a.epoch, b.epoch) })
	}
	return lanes, ops
}

// lockDirect decides by intervals: an epoch may have one holder, and all of it can
// be had exactly when nothing that succeeded under an epoch was asked for after
// something of a later one had ended.
func lockDirect(x *index, l lane, ops []lockOp) (found []Finding) {
	var holder *lockOp // of the epoch
	var ended *lockOp  // what ended first of this epoch and the later ones
	first := make([]*lockOp, len(ops))
	for i := len(ops) - 1; i >= 0; i-- {
		if first[i] = ended; i+1 < len(ops) && ops[i+1].epoch == ops[i].epoch {
			first[i] = first[i+1]
		}
		if ended == nil || ops[i].ret < ended.ret {
			ended = &ops[i]
		}
	}
	for i := range ops {
		o := &ops[i]
		switch {
		case o.take:
			holder = o
		case o.member != 0:
			found = append(found, finding(PropertyOwnership, o.ret, "group %s, %v: ownership epoch %d is held by members %x and %x", l.group, l.Partition, o.epoch, holder.member, o.member))
		case first[i] != nil && first[i].ret < o.call:
			s := &x.h.Settles[o.source]
			found = append(found, finding(PropertyOwnership, s.Return, "group %s, %v: %s of sequence %d under ownership epoch %d succeeded after epoch %d was seen",
				l.group, l.Partition, s.Kind, s.Sequence, s.Ownership, first[i].epoch))
		}
	}
	return found
}

// tightenLock makes the search's work smaller and takes no order away. The call
// of a take moves behind the calls of everything that needs an earlier epoch; and
// of the settles of an epoch, which change nothing, those are kept that bound it:
// the one that ended first and the one that began last.
func tightenLock(ops []lockOp) (tight []lockOp) {
	var latest Time
	for i := 0; i < len(ops); {
		before, end := latest, i
		ended, begun := -1, -1
		for ; end < len(ops) && ops[end].epoch == ops[i].epoch; end++ {
			o := ops[end]
			if o.member != 0 {
				o.call, o.late = before, before > 0
				tight = append(tight, o)
				continue
			}
			latest = max(latest, o.call)
			if ended < 0 || o.ret < ops[ended].ret {
				ended = end
			}
			if begun < 0 || o.call > ops[begun].call {
				begun = end
			}
		}
		if ended >= 0 {
			tight = append(tight, ops[ended])
		}
		if begun != ended {
			tight = append(tight, ops[begun])
		}
		i = end
	}
	return tight
}

// lockState is the model's state.
type lockState struct {
	taken         bool
	epoch, member uint64
}

// lockSearch asks porcupine about at most linearOperationsMax operations: those of
// the lowest epochs, which need nothing of what comes after them.
func lockSearch(ops []lockOp, steps int) (ok, conclusive bool) {
	ops = ops[:min(len(ops), linearOperationsMax)]
	return explain(ops, lockState{}, steps, func(s lockState, o *lockOp) (bool, lockState) { return o.step(s) })
}

func (o *lockOp) span() (call, ret int64) { return interval(o.call, o.ret, o.late) }

func (o *lockOp) step(s lockState) (bool, lockState) {
	if o.take {
		return !s.taken || o.epoch > s.epoch, lockState{true, o.epoch, o.member}
	}
	return s.taken && o.epoch == s.epoch && (o.member == 0 || o.member == s.member), s
}

package node

import (
	"math"

	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/session"
	"github.com/mortarmq/mortarmq/wire"
)

// ResetKind says what a ResetTo means.
type ResetKind uint8

// The kinds.
const (
	ResetToEarliest ResetKind = iota
	ResetToLatest             // behind the last message when the reset is applied
	ResetToSequence           // Value, in every partition, cut to what exists
	ResetToTime               // the first message that is not older than Value, Unix ms
)

// ResetTo is where a group is moved to.
type ResetTo struct {
	To    ResetKind
	Value uint64
}

// search looks for the first record of a partition that is not older than a
// time: it lies in [low, high]. Timestamps of a partition never fall (machine,
// M3), so each record read halves the rest: at most 64 reads.
type search struct{ low, high op.Sequence }

func (n *Node) beginSearch(q *waitingQuery, c *change, g machine.GroupView) {
	for p := range g.Partitions {
		v, _ := n.view.Partition(g.Topic, op.PartitionID(p))
		s := search{1, v.LastSeq + 1}
		if v.LastTimestamp < q.Reset.Value {
			s.low = s.high
		}
		c.searches = append(c.searches, s)
	}
}

// find goes on with the searches; true means that all are done.
func (n *Node) find(q *waitingQuery, c *change, g machine.GroupView) bool {
	done := true
	for p := range c.searches {
		s := &c.searches[p]
		for s.low < s.high {
			middle := s.low + (s.high-s.low)/2
			rec, found := n.record(g.Topic, op.PartitionID(p), middle)
			if found == session.LookupPending {
				done = false
				break
			}
			if found != session.LookupHit {
				c.end(wire.CodeInternal, n.unreadable(g.Topic, op.PartitionID(p), middle)+"; reset to a sequence instead")
				return false
			}
			if rec.Timestamp < q.Reset.Value {
				s.low = middle + 1
			} else {
				s.high = middle
			}
		}
	}
	return done
}

// reset proposes one op per partition, all in one turn: nothing of the group can
// come between them, so a member that joins meanwhile refuses all or none.
func (n *Node) reset(q *waitingQuery, c *change) {
	g, ok := n.view.Group(c.group)
	if !ok || g.Name != q.Group {
		c.end(wire.CodeUnknownGroup, textNoGroup)
		return
	}
	if q.Reset.To == ResetToTime && !n.find(q, c, g) {
		return // the end of a read is a turn
	}
	o := op.Op{Kind: op.KindGroupReset, Group: c.group}
	for p := range g.Partitions {
		o.Partition = op.PartitionID(p)
		switch q.Reset.To {
		case ResetToEarliest:
			o.Sequence = 1
		case ResetToLatest:
			o.Sequence = math.MaxUint64
		case ResetToSequence:
			o.Sequence = op.Sequence(q.Reset.Value)
		case ResetToTime:
			o.Sequence = c.searches[p].low
			if fault.On("reset_to_time_one_late") {
				o.Sequence++
			}
		}
		if !n.proposeOrEnd(c, &o) {
			return
		}
	}
	c.ended = true
}

package node

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/session"
	"github.com/mortarmq/mortarmq/wire"
)

// change is a query that puts ops into the log: an operator's.
//
// Its life: it is checked against the applied state, reads what it needs to know
// (reset to a time: records' timestamps; redrive: the dead letters), proposes
// its ops, and is answered when the last of them is applied. Whoever asked may
// have gone away meanwhile; what was begun is carried out all the same.
//
// Invariants:
//
//  1. inFlight is the number of its ops that were proposed and are not applied:
//     refs of the kind refChange with its id.
//  2. It is answered only when inFlight is 0, or when the fate of its ops is
//     unknown: then what may yet be applied is nobody's any more.
type change struct {
	id       uint64
	inFlight int
	ended    bool // nothing more is proposed
	code     wire.Code
	message  string // of the first refusal

	group     op.GroupID // reset, delete
	searches  []search   // reset to a time
	sequences []uint64   // reset: what applying the ops gave

	redrive redriving
	purged  uint64
}

// changePause is how long a change waits whose op was refused for a while.
const changePause = 100 * clock.Millisecond

// refChange is the Kind of a Ref that names a change of the node's own by its
// Arg. Sessions wait for refs of their own kinds alone.
const refChange uint8 = 128

const textStopping = "the broker is stopping"

// carryOut begins a change or goes on with it; false means that it is not done.
func (n *Node) carryOut(q *waitingQuery, a *Answer) bool {
	c := q.change
	if c == nil {
		if n.stopping {
			a.refuse(wire.CodeMetadataReadOnly, textStopping)
			return true
		}
		n.queries.lastChange++
		c = &change{id: n.queries.lastChange}
		q.change = c
		n.beginChange(q, c)
	}
	switch {
	case c.ended:
	case n.stopping: // the drain does not wait for more than is under way
		c.end(wire.CodeMetadataReadOnly, textStopping)
	default:
		n.continueChange(q, c)
	}
	if !c.ended || c.inFlight > 0 {
		return false
	}
	a.refuse(c.code, c.message)
	a.Sequences, a.Purged = c.sequences, c.purged
	c.redrive.report(a)
	return true
}

// end makes the change propose nothing more; a refusal after the first one
// changes nothing.
func (c *change) end(code wire.Code, message string) {
	c.ended = true
	if c.code == wire.CodeOK {
		c.code, c.message = code, message
	}
}

// propose puts one op of a change into the log.
func (n *Node) propose(c *change, o *op.Op) wire.Code {
	code := broker{n}.Propose(o, session.Ref{Kind: refChange, Arg: c.id})
	if code == wire.CodeOK {
		c.inFlight++
	}
	return code
}

// proposeOrEnd is for ops that are refused for good or not at all.
func (n *Node) proposeOrEnd(c *change, o *op.Op) bool {
	if code := n.propose(c, o); code != wire.CodeOK {
		c.end(code, "")
		return false
	}
	return true
}

// beginChange checks what can be checked before anything is read.
func (n *Node) beginChange(q *waitingQuery, c *change) {
	switch q.Kind {
	case QueryRedrive, QueryPurge:
		t, ok := n.twin(q.Topic)
		if !ok {
			c.end(wire.CodeUnknownTopic, textNoTopic)
			return
		}
		if q.Kind == QueryPurge {
			n.purge(c, t)
			return
		}
		n.beginRedrive(q, c, t)
	default:
		g, ok := n.view.GroupByName([]byte(q.Group))
		switch {
		case !ok:
			c.end(wire.CodeUnknownGroup, textNoGroup)
			return
		case len(g.Members) > 0:
			c.end(wire.CodeGroupMemberLimit, "the group has members: stop its consumers first")
			return
		}
		c.group = g.ID
		if q.Kind == QueryGroupDelete {
			n.proposeOrEnd(c, &op.Op{Kind: op.KindGroupDelete, Group: g.ID})
			c.ended = true
			return
		}
		c.sequences = make([]uint64, g.Partitions)
		if q.Reset.To == ResetToTime {
			n.beginSearch(q, c, g)
		}
	}
}

func (n *Node) continueChange(q *waitingQuery, c *change) {
	if q.Kind == QueryRedrive {
		n.redrive(q, c)
		return
	}
	n.reset(q, c)
}

// purge marks every dead letter that a twin has now as purged.
func (n *Node) purge(c *change, t machine.TopicView) {
	for p := range t.Partitions {
		part := op.PartitionID(p)
		last := n.view.LastSeq(t.ID, part)
		if last > 0 && !n.proposeOrEnd(c, &op.Op{Kind: op.KindPurge, Topic: t.ID, Partition: part, Sequence: last}) {
			return
		}
	}
	c.ended = true
}

// changeApplied takes the outcome of an op of a change.
func (n *Node) changeApplied(id uint64, o *op.Op, res *machine.Result) {
	for i := range n.queries.waiting {
		c := n.queries.waiting[i].change
		if c == nil || c.id != id {
			continue
		}
		c.inFlight--
		if res.Code == wire.CodeQuorumLost {
			c.inFlight = 0
		}
		if res.Code != wire.CodeOK {
			c.end(res.Code, res.Message)
			return
		}
		switch o.Kind {
		case op.KindGroupReset:
			c.sequences[o.Partition] = uint64(res.Sequence)
		case op.KindPurge:
			c.purged += res.Count
		case op.KindRedrive:
			if res.Deduplicated {
				c.redrive.skipped++
			} else {
				c.redrive.redriven++
			}
		default:
		}
		return
	}
}

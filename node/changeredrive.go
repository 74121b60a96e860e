package node

import (
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/session"
	"github.com/mortarmq/mortarmq/wire"
)

const (
	// redriveMax bounds the dead letters of one QueryRedrive.
	redriveMax = 1000
	// redriveBytesMax bounds what one of them puts into the log, but for the last
	// dead letter.
	redriveBytesMax = 8 << 20
)

// redriving walks over the dead letters of a twin. Each live one is read and
// proposed as a Redrive, which appends it to its source and marks it: one op,
// so that a redrive that is killed half way has done each dead letter whole or
// not at all, and the next one passes over those that are done.
type redriving struct {
	twin     op.TopicID
	next     []uint64 // per partition
	until    []uint64
	left     int // how many may still be proposed
	bytes    int
	redriven uint64
	skipped  uint64
}

func (n *Node) beginRedrive(q *waitingQuery, c *change, t machine.TopicView) {
	r := &c.redrive
	r.twin, r.left = t.ID, min(max(q.Max, 1), redriveMax)
	for p := range t.Partitions {
		last := uint64(n.view.LastSeq(t.ID, op.PartitionID(p)))
		if int(p) < len(q.Until) {
			last = min(last, q.Until[p])
		}
		r.next = append(r.next, uint64(n.firstDead(q, t.ID, p)))
		r.until = append(r.until, last)
	}
}

// redrive goes on until the limit is reached, every partition is done, or a
// record has to be read first.
func (n *Node) redrive(q *waitingQuery, c *change) {
	r := &c.redrive
	t, ok := n.view.Topic(r.twin)
	if !ok {
		c.end(wire.CodeUnknownTopic, "the topic was deleted")
		return
	}
	steps := 0
	for p := range r.next {
		for ; r.next[p] <= r.until[p]; r.next[p]++ {
			if r.left == 0 || r.bytes >= redriveBytesMax {
				c.ended = true
				return
			}
			if steps++; steps > stepsMax {
				q.by = n.now.Mono // in the next turn
				return
			}
			if !n.redriveOne(q, c, t, uint16(p), op.Sequence(r.next[p])) {
				return
			}
		}
	}
	c.ended = true
}

// redriveOne proposes one dead letter if it is live; false means that it is to
// be tried again, or that the change has ended.
func (n *Node) redriveOne(q *waitingQuery, c *change, t machine.TopicView, p uint16, seq op.Sequence) bool {
	r, part := &c.redrive, op.PartitionID(p)
	switch n.view.DeadLetter(t.ID, part, seq) {
	case machine.DeadLetterRedriven:
		r.skipped++
		return true
	case machine.DeadLetterPurged, machine.DeadLetterNone:
		return true
	case machine.DeadLetterLive:
	}
	rec, found := n.record(t.ID, part, seq)
	switch found {
	case session.LookupHit:
	case session.LookupPending:
		return false
	default:
		c.end(wire.CodeInternal, n.unreadable(t.ID, part, seq))
		return false
	}
	// It comes back as it was published, but for its time: a message is as old as
	// its place in the log, or a reset to a time would not find it.
	o := op.Op{
		Kind: op.KindRedrive, Topic: t.ID, Partition: part, Sequence: seq, Timestamp: uint64(n.now.Wall),
		ProducerID: rec.ProducerID, ProducerSeq: rec.ProducerSeq, Key: rec.Key, Value: rec.Value,
	}
	if rec.Flags&format.RecordFlagKey != 0 {
		o.Flags |= op.FlagKey
	}
	if n.config.Session.Quorum {
		o.Flags |= op.FlagQuorum
	}
	switch code := n.propose(c, &o); code {
	case wire.CodeOK:
		r.left--
		r.bytes += len(rec.Key) + len(rec.Value)
		return true
	case wire.CodeBackpressure:
		q.by = n.now.Mono.Add(changePause)
	case wire.CodeInternal:
		c.end(code, n.unreadable(t.ID-1, part, 0))
	default:
		c.end(code, "")
	}
	return false
}

// report says what was done and where to go on.
func (r *redriving) report(a *Answer) {
	a.Next, a.Until, a.Redriven, a.Skipped = r.next, r.until, r.redriven, r.skipped
	a.Done = true
	for p := range r.next {
		a.Done = a.Done && r.next[p] > r.until[p]
	}
}

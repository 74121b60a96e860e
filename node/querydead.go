package node

import (
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/session"
	"github.com/mortarmq/mortarmq/wire"
)

// DeadLetterStates is a set of states of dead letters; empty means all of them.
type DeadLetterStates uint8

// The states.
const (
	DeadLettersLive DeadLetterStates = 1 << iota
	DeadLettersRedriven
	DeadLettersPurged
)

// DeadLetter is a record of a twin with what became of it. Envelope is zero, and
// Unreadable set, where the record has none that this version can read.
type DeadLetter struct {
	Partition  uint16
	State      string // live, redriven, purged
	Unreadable bool
	Envelope   format.Envelope
	Record     format.Record // Key and Value only if they were asked for
}

// has says whether s is among the states asked for.
func (d DeadLetterStates) has(s machine.DeadLetterState) bool {
	if d == 0 {
		return s != machine.DeadLetterNone
	}
	switch s {
	case machine.DeadLetterLive:
		return d&DeadLettersLive != 0
	case machine.DeadLetterRedriven:
		return d&DeadLettersRedriven != 0
	case machine.DeadLetterPurged:
		return d&DeadLettersPurged != 0
	case machine.DeadLetterNone:
	}
	return false
}

func deadLetterState(s machine.DeadLetterState) string {
	switch s {
	case machine.DeadLetterRedriven:
		return "redriven"
	case machine.DeadLetterPurged:
		return "purged"
	case machine.DeadLetterLive, machine.DeadLetterNone:
	}
	return "live"
}

// stepsMax bounds the dead letters that one query passes over in one turn.
const stepsMax = 1 << 16

// twin finds the dead-letter twin of a topic, by the topic's name or its own.
func (n *Node) twin(name string) (machine.TopicView, bool) {
	t, ok := n.view.TopicByName([]byte(name))
	if ok && !t.IsTwin {
		t, ok = n.view.Topic(t.ID + 1)
	}
	return t, ok
}

// firstDead is where the dead letters of a partition begin: From's sequence, or
// for live ones what follows the last purge.
func (n *Node) firstDead(q *waitingQuery, t op.TopicID, p uint16) op.Sequence {
	if int(p) < len(q.From) && q.From[p] > 0 {
		return op.Sequence(q.From[p])
	}
	if q.Kind == QueryDeadLetters && q.States != DeadLettersLive {
		return 1
	}
	v, _ := n.view.Partition(t, op.PartitionID(p))
	return v.PurgedTo + 1
}

// deadLetters reads the dead letters of all partitions that are in the states
// asked for. Like tail it waits for reads and answers without a gap.
func (n *Node) deadLetters(q *waitingQuery, a *Answer) bool {
	t, ok := n.twin(q.Topic)
	if !ok {
		a.refuse(wire.CodeUnknownTopic, textNoTopic)
		return true
	}
	limit := min(max(q.Max, 1), tailRecordsMax)
	bytes, steps := 0, 0
	waits := false
	for p := range t.Partitions {
		part := op.PartitionID(p)
		last := n.view.LastSeq(t.ID, part)
		next := n.firstDead(q, t.ID, p)
		for ; next <= last && len(a.DeadLetters) < limit && bytes < tailBytesMax && steps < stepsMax; next++ {
			steps++
			state := n.view.DeadLetter(t.ID, part, next)
			if !q.States.has(state) {
				continue
			}
			rec, found := n.record(t.ID, part, next)
			if found == session.LookupPending {
				waits = true
				break
			}
			if found != session.LookupHit {
				a.refuse(wire.CodeInternal, n.unreadable(t.ID, part, next))
				return true
			}
			bytes += len(rec.Value)
			a.DeadLetters = append(a.DeadLetters, makeDeadLetter(p, state, &rec, q.Values))
		}
		a.Next = append(a.Next, uint64(next))
		a.Until = append(a.Until, uint64(last))
	}
	a.Done = true
	for p := range a.Next {
		a.Done = a.Done && a.Next[p] > a.Until[p]
	}
	if waits && len(a.DeadLetters) == 0 && !q.expired(n.now.Mono) {
		q.by = q.since.Add(readWait)
		return false
	}
	return true
}

func makeDeadLetter(p uint16, state machine.DeadLetterState, rec *format.Record, values bool) DeadLetter {
	d := DeadLetter{Partition: p, State: deadLetterState(state), Record: *rec}
	env, err := format.DecodeEnvelope(append([]byte(nil), rec.Envelope...))
	d.Envelope, d.Unreadable = env, err != nil
	d.Record.Envelope, d.Record.Key, d.Record.Value = nil, nil, nil
	if values {
		d.Record.Key = append([]byte(nil), rec.Key...)
		d.Record.Value = append([]byte(nil), rec.Value...)
	}
	return d
}

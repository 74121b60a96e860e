package node

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/session"
)

// ages remembers the timestamp of the oldest unsettled message of each partition
// of a group, as of the last time that somebody asked. The message may have to
// be read from disk first; if the floor moves on meanwhile, the one remembered
// is older than the oldest.
type ages struct {
	known map[groupPartition]oldest
	asked int // reads begun by the query that is looked at
}

const (
	// agesReadsMax bounds the reads that one query begins at once.
	agesReadsMax = 64
	// agesPause is how long a query that waits for reads is left alone: it walks
	// over all groups.
	agesPause = 20 * clock.Millisecond
)

type groupPartition struct {
	group     op.GroupID
	partition op.PartitionID
}

type oldest struct {
	seq       op.Sequence
	timestamp uint64
}

// agesKnown brings the ages of the groups asked for up to date. It says whether
// all that can be read were; the others are being read.
func (n *Node) agesKnown(topic op.TopicID, only op.GroupID) bool {
	before := n.ages.known
	n.ages.asked = 0
	if before == nil || topic == 0 && only == 0 { // what nobody needs any more goes
		n.ages.known = make(map[groupPartition]oldest, len(before))
	}
	done := true
	for g, ok := n.view.NextGroup(0); ok; g, ok = n.view.NextGroup(g.ID) {
		if topic != 0 && g.Topic != topic || only != 0 && g.ID != only {
			continue
		}
		for p := range g.Partitions {
			done = n.age(g, op.PartitionID(p), before) && done
		}
	}
	return done
}

// age brings one age up to date.
func (n *Node) age(g machine.GroupView, p op.PartitionID, before map[groupPartition]oldest) bool {
	c, _ := n.view.Cursor(g.ID, p)
	if c.Unsettled == 0 {
		return true
	}
	key, seq := groupPartition{g.ID, p}, c.Floor+1
	at, ok := before[key]
	if ok {
		n.ages.known[key] = at
	}
	if ok && at.seq == seq || n.ages.asked >= agesReadsMax {
		return true
	}
	rec, found := n.record(g.Topic, p, seq)
	switch found {
	case session.LookupHit:
		n.ages.known[key] = oldest{seq, rec.Timestamp}
	case session.LookupPending:
		n.ages.asked++
		return ok
	default: // it cannot be read: its age is not told
		delete(n.ages.known, key)
	}
	return true
}

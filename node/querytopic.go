package node

import (
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/session"
	"github.com/mortarmq/mortarmq/wire"
)

// TopicInfo is a line of `topics list`; LastSeqs has one element per partition.
type TopicInfo struct {
	ID           uint16
	Name         string
	Partitions   uint16
	CreatedEpoch uint32
	LastSeqs     []uint64
	// Damaged are its partitions that are hit, DeadLettersDamaged those of its twin.
	Damaged, DeadLettersDamaged []DamageInfo
}

const textNoTopic = "no such topic: mortarmq topics list names them"

func (n *Node) answerTopics(q *waitingQuery, a *Answer) {
	if q.Kind == QueryTopic {
		t, ok := n.view.TopicByName([]byte(q.Topic))
		if !ok {
			a.refuse(wire.CodeUnknownTopic, textNoTopic)
			return
		}
		a.Topics = append(a.Topics, n.topicInfo(t))
		return
	}
	for t, ok := n.view.NextTopic(0); ok; t, ok = n.view.NextTopic(t.ID) {
		if !t.IsTwin {
			a.Topics = append(a.Topics, n.topicInfo(t))
		}
	}
}

func (n *Node) topicInfo(t machine.TopicView) TopicInfo {
	info := TopicInfo{ID: uint16(t.ID), Name: t.Name, Partitions: t.Partitions, CreatedEpoch: uint32(t.CreatedEpoch)}
	info.Damaged = n.damageInfos(n.damages.ofTopic(t.ID))
	info.DeadLettersDamaged = n.damageInfos(n.damages.ofTopic(t.ID + 1))
	for p := range t.Partitions {
		info.LastSeqs = append(info.LastSeqs, uint64(n.view.LastSeq(t.ID, op.PartitionID(p))))
	}
	return info
}

// tail reads records of all partitions of a topic. It waits for reads under way
// until the query's time is up, and never answers with a gap.
func (n *Node) tail(q *waitingQuery, a *Answer) bool {
	t, ok := n.view.TopicByName([]byte(q.Topic))
	if !ok {
		a.refuse(wire.CodeUnknownTopic, textNoTopic)
		return true
	}
	limit := min(max(q.Max, 1), tailRecordsMax)
	bytes := 0
	waits := false
	for p := range t.Partitions {
		part := op.PartitionID(p)
		last := n.view.LastSeq(t.ID, part)
		next := op.Sequence(1)
		if int(p) < len(q.From) && q.From[p] > 0 {
			next = op.Sequence(q.From[p])
		} else if uint64(last) > q.Back {
			next = last - op.Sequence(q.Back) + 1
		}
		for next <= last && len(a.Records) < limit && bytes < tailBytesMax {
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
			rec.Key = append([]byte(nil), rec.Key...)
			rec.Value = append([]byte(nil), rec.Value...)
			rec.Envelope = append([]byte(nil), rec.Envelope...)
			a.Records = append(a.Records, rec)
			a.Partitions = append(a.Partitions, p)
			next++
		}
		a.Next = append(a.Next, uint64(next))
	}
	if waits && len(a.Records) == 0 && !q.expired(n.now.Mono) {
		q.by = q.since.Add(readWait)
		return false
	}
	return true
}

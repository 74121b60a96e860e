package node

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/session"
	"github.com/mortarmq/mortarmq/wire"
)

// QueryKind says what the admin port asks for.
type QueryKind uint8

// The kinds of query (operations.md, "Admin HTTP").
const (
	QueryInvalid QueryKind = iota
	QueryTopics            // Topics: all of them
	QueryTopic             // Topics: the one named, with Partitions
	QueryBroker            // Broker
	QueryTail              // Records of Topic from From on, at most Max in all
)

// Limits of a tail query.
const (
	tailRecordsMax = 1000
	tailBytesMax   = 4 << 20
	// tailWait is how long a tail query waits for reads before it answers with
	// what it has.
	tailWait = 2 * clock.Second
)

// Query is one question.
type Query struct {
	ID    uint64
	Kind  QueryKind
	Topic string
	// From gives, per partition, the sequence to read from; a partition that is
	// missing, or 0, starts Back records before its end.
	From []uint64
	Back uint64
	Max  int
}

// Answer is a query's answer. Code is CodeOK or says why there is none. What it
// points to belongs to whoever receives it.
type Answer struct {
	ID      uint64
	Code    wire.Code
	Topics  []TopicInfo
	Broker  BrokerInfo
	Records []format.Record
	// Partitions and Next belong to Records: the partition of each, and per
	// partition the sequence to go on from.
	Partitions []uint16
	Next       []uint64
}

// TopicInfo is a line of `topics list`; LastSeqs has one element per partition.
type TopicInfo struct {
	ID           uint16
	Name         string
	Partitions   uint16
	CreatedEpoch uint32
	LastSeqs     []uint64
}

// BrokerInfo is this node, summed up.
type BrokerInfo struct {
	NodeID       uint16
	Version      string
	Serving      bool
	Stopping     bool
	Uptime       clock.Duration
	Connections  int
	LeaderEpoch  uint32
	LastOp       uint64
	FreeBytes    int64
	TotalBytes   int64
	LowSpace     bool
	JournalStall bool
}

// queries are those not answered yet. A tail query may wait for reads.
type queries struct {
	waiting []waitingQuery
}

type waitingQuery struct {
	Query
	by clock.Instant // 0: not set yet
}

func (q *queries) add(question Query) {
	q.waiting = append(q.waiting, waitingQuery{Query: question})
}

// deadline is when a waiting query is answered with what there is.
func (q *queries) deadline() clock.Instant {
	d := clock.Never
	for i := range q.waiting {
		d = min(d, q.waiting[i].by)
	}
	return d
}

// answerQueries answers what can be answered in this turn.
func (n *Node) answerQueries() {
	kept := n.queries.waiting[:0]
	for _, q := range n.queries.waiting {
		a := Answer{ID: q.ID}
		if q.by == 0 {
			q.by = n.now.Mono.Add(tailWait)
		}
		if !n.answer(&q, &a) {
			kept = append(kept, q)
			continue
		}
		n.out.Answers = append(n.out.Answers, a)
	}
	clear(n.queries.waiting[len(kept):])
	n.queries.waiting = kept
}

// answer fills a in; false means that q has to wait.
func (n *Node) answer(q *waitingQuery, a *Answer) bool {
	if q.Kind == QueryBroker {
		a.Broker = n.brokerInfo()
		return true
	}
	if n.phase != phaseServing {
		a.Code = wire.CodeMetadataReadOnly
		return true
	}
	switch q.Kind {
	case QueryTopics:
		for t, ok := n.view.NextTopic(0); ok; t, ok = n.view.NextTopic(t.ID) {
			if !t.IsTwin {
				a.Topics = append(a.Topics, n.topicInfo(t))
			}
		}
	case QueryTopic, QueryTail:
		t, ok := n.view.TopicByName([]byte(q.Topic))
		if !ok {
			a.Code = wire.CodeUnknownTopic
			return true
		}
		if q.Kind == QueryTail {
			return n.tail(q, t, a)
		}
		a.Topics = append(a.Topics, n.topicInfo(t))
	case QueryInvalid, QueryBroker:
		a.Code = wire.CodeInternal
	}
	return true
}

func (n *Node) brokerInfo() BrokerInfo {
	return BrokerInfo{
		NodeID:       n.config.Store.NodeID,
		Version:      n.config.Version,
		Serving:      n.phase == phaseServing,
		Stopping:     n.stopping,
		Uptime:       n.now.Mono.Sub(n.started),
		Connections:  n.sessions.Stats().Connections,
		LeaderEpoch:  uint32(n.replica.Epoch()),
		LastOp:       uint64(n.appliedHeader.Number),
		FreeBytes:    n.space.free,
		TotalBytes:   n.space.total,
		LowSpace:     n.space.low,
		JournalStall: n.stalled,
	}
}

func (n *Node) topicInfo(t machine.TopicView) TopicInfo {
	info := TopicInfo{ID: uint16(t.ID), Name: t.Name, Partitions: t.Partitions, CreatedEpoch: uint32(t.CreatedEpoch)}
	for p := range t.Partitions {
		info.LastSeqs = append(info.LastSeqs, uint64(n.view.LastSeq(t.ID, op.PartitionID(p))))
	}
	return info
}

// tail reads records of all partitions of t. It waits for reads under way until
// the query's time is up, and never answers with a gap.
func (n *Node) tail(q *waitingQuery, t machine.TopicView, a *Answer) bool {
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
				a.Code = wire.CodeInternal
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
	return !waits || len(a.Records) > 0 || n.now.Mono >= q.by
}

package node

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/wire"
)

// QueryKind says what the admin port asks for.
type QueryKind uint8

// The kinds of query (operations.md, "Admin HTTP"). Those from QueryGroupReset
// on are changes: they put ops into the log and are answered when these are
// applied.
const (
	QueryInvalid     QueryKind = iota
	QueryTopics                // Topics: all of them
	QueryTopic                 // Topics: the one named, with Partitions
	QueryBroker                // Broker
	QueryTail                  // Records of Topic from From on, at most Max in all
	QueryGroups                // Groups: all, or those of Topic
	QueryGroup                 // Groups: the one named, with Partitions
	QueryExplain               // Explained: Partition of Topic, for Group or all of its groups
	QueryDeadLetters           // DeadLetters of Topic's twin from From on, at most Max in all
	QueryStats                 // Stats: all, or those of Topic, or of Group
	QueryGroupReset            // moves Group to Reset; Sequences
	QueryGroupDelete           // removes Group
	QueryRedrive               // redrives Topic's dead letters from From up to Until, at most Max
	QueryPurge                 // purges Topic's dead letters; Purged
)

// Limits of queries.
const (
	// queriesMax bounds the queries that wait for an answer; one more is refused.
	queriesMax = 256
	// Of the queries that read records, in all partitions together.
	tailRecordsMax = 1000
	tailBytesMax   = 4 << 20
	// readWait is how long such a query waits for reads before it answers with what
	// it has.
	readWait = 2 * clock.Second
)

// Query is one question, or one change that an operator asks for.
type Query struct {
	ID        uint64
	Kind      QueryKind
	Topic     string
	Group     string
	Partition uint16
	// From gives, per partition, the sequence to read from; a partition that is
	// missing, or 0, starts Back records before its end (QueryTail), or with the
	// first dead letter that was not purged.
	From []uint64
	Back uint64
	// Until gives, per partition, the last sequence that QueryRedrive looks at. A
	// partition that is missing goes to its present end.
	Until []uint64
	Max   int
	// States are those of the dead letters asked for, none meaning all; Values asks
	// for key and value too.
	States DeadLetterStates
	Values bool
	// NoTopics asks QueryStats for what is about the node alone.
	NoTopics bool
	Reset    ResetTo
}

// Answer is a query's answer. Code is CodeOK or says why there is none, and
// Message what goes with it; an empty one stands for the registry's text. What
// it points to belongs to whoever receives it.
type Answer struct {
	ID      uint64
	Code    wire.Code
	Message string

	Topics    []TopicInfo
	Broker    BrokerInfo
	Groups    []GroupInfo
	Explained []Explanation
	Stats     *Stats

	Records     []format.Record
	DeadLetters []DeadLetter
	// Partitions belongs to Records: the partition of each. Next gives, per
	// partition, the sequence to go on from, and Until what the next QueryRedrive
	// is asked with.
	Partitions []uint16
	Next       []uint64
	Until      []uint64

	Sequences []uint64 // QueryGroupReset: per partition what is delivered next
	Redriven  uint64
	Skipped   uint64 // dead letters met that are back in their topic already
	Purged    uint64
	// Done says that QueryRedrive came to the end of every partition.
	Done bool
}

// BrokerInfo is this node, summed up.
type BrokerInfo struct {
	NodeID       uint16
	Version      string
	Serving      bool
	Stopping     bool
	Uptime       clock.Duration
	Connections  int
	LeaderID     uint16 // 0: nobody known
	LeaderEpoch  uint32
	Quorum       QuorumState
	LastOp       uint64
	FreeBytes    int64
	TotalBytes   int64
	LowSpace     bool
	JournalStall bool
	// Damaged are the partitions that are hit, by topic and number.
	Damaged []DamageInfo
}

// QuorumState says what changes the node can take.
type QuorumState uint8

// The states, numbered as mortarmq_quorum_state. A single node is its own
// majority: it is never soft.
const (
	QuorumHealthy QuorumState = iota
	QuorumSoft
	QuorumReadOnly
)

func (q QuorumState) String() string { return [...]string{"healthy", "soft", "read_only"}[q] }

// queries are those not answered yet.
type queries struct {
	waiting    []waitingQuery
	lastChange uint64
}

// waitingQuery is a query without an answer. One that cannot be answered at once
// is looked at again in every turn, at the latest at by.
type waitingQuery struct {
	Query
	since  clock.Instant
	begun  bool
	by     clock.Instant
	again  clock.Instant // not to be looked at before
	change *change
}

// expired says that the query has waited for reads for long enough.
func (q *waitingQuery) expired(now clock.Instant) bool { return now.Sub(q.since) >= readWait }

// addQuery takes a query in.
func (n *Node) addQuery(question Query) {
	if len(n.queries.waiting) >= queriesMax {
		n.out.Answers = append(n.out.Answers, Answer{ID: question.ID, Code: wire.CodeBackpressure, Message: "too many requests of the admin port wait for an answer: try again"})
		return
	}
	n.queries.waiting = append(n.queries.waiting, waitingQuery{Query: question, by: clock.Never})
}

// deadline is when a waiting query wants to be looked at though nothing happened.
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
	for i := range n.queries.waiting {
		q := &n.queries.waiting[i]
		a := Answer{ID: q.ID}
		if !q.begun {
			q.begun, q.since = true, n.now.Mono
		}
		q.by = clock.Never
		if !n.answer(q, &a) {
			kept = append(kept, *q)
			continue
		}
		n.out.Answers = append(n.out.Answers, a)
	}
	clear(n.queries.waiting[len(kept):])
	n.queries.waiting = kept
}

// answer fills a in; false means that q has to wait.
func (n *Node) answer(q *waitingQuery, a *Answer) bool {
	switch q.Kind {
	case QueryBroker:
		a.Broker = n.brokerInfo()
		return true
	case QueryStats:
		return n.answerStats(q, a)
	default:
	}
	if q.change == nil && n.phase != phaseServing {
		a.Code = wire.CodeMetadataReadOnly
		return true
	}
	switch q.Kind {
	case QueryTopics, QueryTopic:
		n.answerTopics(q, a)
	case QueryTail:
		return n.tail(q, a)
	case QueryGroups, QueryGroup:
		n.answerGroups(q, a)
	case QueryExplain:
		n.explain(q, a)
	case QueryDeadLetters:
		return n.deadLetters(q, a)
	case QueryGroupReset, QueryGroupDelete, QueryRedrive, QueryPurge:
		return n.carryOut(q, a)
	default:
		a.refuse(wire.CodeInternal, "")
	}
	return true
}

func (a *Answer) refuse(code wire.Code, message string) { a.Code, a.Message = code, message }

func (n *Node) brokerInfo() BrokerInfo {
	info := BrokerInfo{
		NodeID:       n.config.Store.NodeID,
		Version:      n.config.Version,
		Serving:      n.phase == phaseServing,
		Stopping:     n.stopping,
		Uptime:       n.now.Mono.Sub(n.started),
		Connections:  n.sessions.Stats().Connections,
		LeaderEpoch:  uint32(n.replica.Epoch()),
		Quorum:       QuorumReadOnly,
		LastOp:       uint64(n.appliedHeader.Number),
		FreeBytes:    n.space.free,
		TotalBytes:   n.space.total,
		LowSpace:     n.space.low,
		JournalStall: n.stalled,
		Damaged:      n.damageInfos(n.damages.list),
	}
	if info.Serving {
		info.LeaderID, info.Quorum = info.NodeID, QuorumHealthy
	}
	return info
}

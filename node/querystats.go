package node

import (
	"cmp"
	"math"
	"slices"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/session"
	"github.com/mortarmq/mortarmq/wire"
)

// Stats is everything that /metrics and /stats tell, of one instant: that of one
// applied op. For each group
//
//	Produced of its topic - Start = Delivered + Dropped + Lag, DLQ <= Dropped
//
// (broker.md, "Accounting"). While the node does not serve it knows neither
// topics nor groups.
type Stats struct {
	Broker   BrokerInfo
	Topics   []TopicStats
	Groups   []GroupStats
	Sessions session.Stats // without Rejected
	Rejected []CodeCount   // in rising order of code
	Journal  JournalStats

	// Latency gives the 50th, 90th and 99th percentile of publish to first delivery
	// in the last minute, in ms, over LatencyCount messages.
	Latency      [3]uint64
	LatencyCount uint64

	FlushMicros Histogram
	BatchBytes  Histogram
	EntryOps    Histogram
}

// CodeCount says how many ERR frames carried a code since the start.
type CodeCount struct {
	Code  wire.Code
	Count uint64
}

// JournalStats is the state of journal and checkpoint.
type JournalStats struct {
	LastOp         uint64
	FlushedOp      uint64
	PendingBytes   int // proposed and not flushed
	Full           bool
	Stalled        bool
	CheckpointOp   uint64         // of the last checkpoint since the start, 0: none
	CheckpointAge  clock.Duration // since it was done
	Checkpointing  bool
	Producers      int // deduplication windows
	WindowBytes    uint64
	WaitingQueries int
}

// TopicStats is a topic, or a twin that has a record or a group.
type TopicStats struct {
	ID         uint16
	Name       string
	Twin       bool
	Produced   uint64 // records committed
	Bytes      uint64 // of their keys and values
	Plain      uint64 // publishes without a producer id
	Groups     int
	Partitions []PartitionStats
}

// PartitionStats is one partition. Depth is LastSeq without the lowest floor of
// its groups; Purged and Redriven are a twin's.
type PartitionStats struct {
	LastSeq  uint64
	Depth    uint64
	Purged   uint64
	Redriven uint64
	Damaged  bool
}

// GroupStats sums a group up over its partitions.
type GroupStats struct {
	Name        string
	Topic       string
	State       string
	Members     int
	Start       int64
	Lag         uint64 // unsettled
	InFlight    uint64 // with a consumer, under a lease
	Dead        uint64 // waiting for their dead letter
	Delivered   uint64
	Dropped     uint64
	DLQ         uint64
	Quarantined uint64
	Retries     uint64
	// OldestMillis is the age of the oldest unsettled message; HasOldest says that
	// there is one and that it could be read.
	OldestMillis uint64
	HasOldest    bool
}

// answerStats waits for the records that it needs to know the age of, then
// takes everything in one go.
func (n *Node) answerStats(q *waitingQuery, a *Answer) bool {
	s := &Stats{Broker: n.brokerInfo()}
	topic, group, ok := n.statsFilter(q, a)
	if !ok {
		return true
	}
	if s.Broker.Serving && !q.NoTopics {
		if n.now.Mono < q.again {
			q.by = q.again
			return false
		}
		if !n.agesKnown(topic, group) && !q.expired(n.now.Mono) {
			q.again = n.now.Mono.Add(agesPause)
			q.by = q.again
			return false
		}
		n.topicStats(s, topic)
		n.groupStats(s, topic, group)
	}
	n.nodeStats(s)
	a.Stats = s
	return true
}

// statsFilter finds the topic and the group that the query names; 0 means all.
func (n *Node) statsFilter(q *waitingQuery, a *Answer) (op.TopicID, op.GroupID, bool) {
	if q.Topic == "" && q.Group == "" {
		return 0, 0, true
	}
	if n.phase != phaseServing {
		a.refuse(wire.CodeMetadataReadOnly, "")
		return 0, 0, false
	}
	if q.Group != "" {
		g, ok := n.view.GroupByName([]byte(q.Group))
		if !ok {
			a.refuse(wire.CodeUnknownGroup, textNoGroup)
		}
		return g.Topic, g.ID, ok
	}
	t, ok := n.view.TopicByName([]byte(q.Topic))
	if !ok {
		a.refuse(wire.CodeUnknownTopic, textNoTopic)
	}
	return t.ID, 0, ok
}

// nodeStats fills in what is about the node and not its topics.
func (n *Node) nodeStats(s *Stats) {
	s.Sessions = n.sessions.Stats()
	for code, count := range s.Sessions.Rejected { // order-free: sorted below
		s.Rejected = append(s.Rejected, CodeCount{code, count})
	}
	s.Sessions.Rejected = nil
	slices.SortFunc(s.Rejected, func(a, b CodeCount) int { return cmp.Compare(a.Code, b.Code) })
	m := &n.meters
	s.FlushMicros, s.BatchBytes, s.EntryOps = m.flush, m.batchBytes, m.entryOps
	s.Latency, s.LatencyCount = m.latency.quantiles(n.now.Mono, [3]uint64{500, 900, 990})
	s.Journal = JournalStats{
		LastOp:         uint64(n.appliedHeader.Number),
		PendingBytes:   n.replica.Pending(),
		Stalled:        n.stalled,
		CheckpointOp:   uint64(m.checkpoint),
		Checkpointing:  n.checkpoint.phase != checkpointNone,
		Producers:      n.view.Producers(),
		WindowBytes:    n.view.WindowBytes(),
		WaitingQueries: len(n.queries.waiting),
	}
	if n.phase == phaseServing {
		s.Journal.FlushedOp, s.Journal.Full = uint64(n.store.Flushed()), n.store.JournalFull()
	}
	if m.checkpoint > 0 {
		s.Journal.CheckpointAge = n.now.Mono.Sub(m.checkpointAt)
	}
}

func (n *Node) topicStats(s *Stats, only op.TopicID) {
	for t, ok := n.view.NextTopic(0); ok; t, ok = n.view.NextTopic(t.ID) {
		if only != 0 && t.ID != only {
			continue
		}
		ts := TopicStats{ID: uint16(t.ID), Name: t.Name, Twin: t.IsTwin, Partitions: make([]PartitionStats, t.Partitions)}
		for p := range t.Partitions {
			v, _ := n.view.Partition(t.ID, op.PartitionID(p))
			ts.Produced += uint64(v.LastSeq)
			ts.Bytes += v.Bytes
			ts.Plain += v.Plain
			ts.Partitions[p] = PartitionStats{LastSeq: uint64(v.LastSeq), Depth: uint64(v.LastSeq), Purged: v.Purged, Redriven: v.Redriven, Damaged: n.damages.of(t.ID, op.PartitionID(p)) != nil}
		}
		s.Topics = append(s.Topics, ts)
	}
	n.depths(s, only)
	s.Topics = slices.DeleteFunc(s.Topics, func(t TopicStats) bool {
		return t.Twin && t.Produced == 0 && t.Groups == 0 && uint16(only) != t.ID
	})
}

// depths takes the lowest floor of all groups off each partition's depth.
func (n *Node) depths(s *Stats, only op.TopicID) {
	floors := make([][]uint64, len(s.Topics))
	for g, ok := n.view.NextGroup(0); ok; g, ok = n.view.NextGroup(g.ID) {
		if only != 0 && g.Topic != only {
			continue
		}
		i, ok := slices.BinarySearchFunc(s.Topics, uint16(g.Topic), func(t TopicStats, id uint16) int { return cmp.Compare(t.ID, id) })
		if !ok {
			panic("node: a group reads a topic that is not there")
		}
		s.Topics[i].Groups++
		if floors[i] == nil {
			floors[i] = slices.Repeat([]uint64{math.MaxUint64}, int(g.Partitions))
		}
		for p := range g.Partitions {
			c, _ := n.view.Cursor(g.ID, op.PartitionID(p))
			floors[i][p] = min(floors[i][p], uint64(c.Floor))
		}
	}
	for i := range floors {
		for p, floor := range floors[i] {
			s.Topics[i].Partitions[p].Depth -= floor
		}
	}
}

func (n *Node) groupStats(s *Stats, topic op.TopicID, only op.GroupID) {
	for g, ok := n.view.NextGroup(0); ok; g, ok = n.view.NextGroup(g.ID) {
		if topic != 0 && g.Topic != topic || only != 0 && g.ID != only {
			continue
		}
		gs := GroupStats{Name: g.Name, State: stateName(n.groupState(g)), Members: len(g.Members)}
		if t, ok := n.view.Topic(g.Topic); ok {
			gs.Topic = t.Name
		}
		for p := range g.Partitions {
			n.addPartition(&gs, g, op.PartitionID(p))
		}
		s.Groups = append(s.Groups, gs)
	}
}

func (n *Node) addPartition(gs *GroupStats, g machine.GroupView, p op.PartitionID) {
	c, _ := n.view.Cursor(g.ID, p)
	gs.Start += c.Start
	gs.Lag += c.Unsettled
	gs.Dead += uint64(c.Dead)
	gs.Delivered += c.Delivered
	gs.Dropped += c.Dropped
	gs.DLQ += c.DLQ
	gs.Quarantined += c.Quarantined
	gs.Retries += c.Retries
	gs.InFlight += uint64(n.sessions.Explain(g.ID, p).Out)
	if c.Unsettled == 0 {
		return
	}
	if at, ok := n.ages.known[groupPartition{g.ID, p}]; ok {
		age := uint64(0)
		if now := uint64(n.now.Wall); now > at.timestamp {
			age = now - at.timestamp
		}
		gs.OldestMillis, gs.HasOldest = max(gs.OldestMillis, age), true
	}
}

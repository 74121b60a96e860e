package admin

import (
	"net/http"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node"
)

// Stats is the body of /stats: what the filter asked for.
type Stats struct {
	Topics      []TopicStats      `json:"topics,omitempty"`
	Groups      []GroupStats      `json:"groups,omitempty"`
	Broker      *Broker           `json:"broker,omitempty"`
	Connections *ConnectionStats  `json:"connections,omitempty"`
	Delivery    *DeliveryStats    `json:"delivery,omitempty"`
	Journal     *JournalStats     `json:"journal,omitempty"`
	Rejected    map[string]uint64 `json:"rejected,omitempty"`
}

// TopicStats is a topic in /stats, with an item per partition.
type TopicStats struct {
	Topic    string           `json:"topic"`
	Produced uint64           `json:"produced"`
	Bytes    uint64           `json:"bytes"`
	Plain    uint64           `json:"plain"` // publishes without a producer_id
	Groups   int              `json:"groups"`
	Items    []PartitionStats `json:"items"`
}

// PartitionStats is a partition in /stats; Purged and Redriven are those of a
// dead-letter topic.
type PartitionStats struct {
	Partition int    `json:"partition"`
	LastSeq   uint64 `json:"last_seq"`
	Depth     uint64 `json:"depth"`
	Purged    uint64 `json:"purged"`
	Redriven  uint64 `json:"redriven"`
	Damaged   bool   `json:"damaged"`
}

// GroupStats is a group in /stats.
type GroupStats struct {
	Group       string  `json:"group"`
	Topic       string  `json:"topic"`
	State       string  `json:"state"`
	Members     int     `json:"members"`
	Start       int64   `json:"start"`
	Lag         uint64  `json:"lag"`
	InFlight    uint64  `json:"in_flight"`
	Dead        uint64  `json:"dead"`
	Delivered   uint64  `json:"delivered"`
	Dropped     uint64  `json:"dropped"`
	DLQ         uint64  `json:"dlq"`
	Quarantined uint64  `json:"quarantined"`
	Retries     uint64  `json:"retries"`
	OldestMs    *uint64 `json:"oldest_unsettled_ms,omitempty"`
}

// ConnectionStats is the section connections.
type ConnectionStats struct {
	Connections   int    `json:"connections"`
	Refused       uint64 `json:"refused"`
	Unanswered    int    `json:"unanswered"`
	Subscriptions int    `json:"subscriptions"`
	WaitingPulls  int    `json:"waiting_pulls"`
}

// DeliveryStats is the section delivery. Latencies are null while nothing was
// delivered in the last minute.
type DeliveryStats struct {
	Unsettled    int     `json:"handed_out"`
	Sent         uint64  `json:"sent"`
	Expired      uint64  `json:"leases_expired"`
	Silenced     uint64  `json:"members_silenced"`
	Unreadable   uint64  `json:"unreadable"`
	LatencyP50Ms *uint64 `json:"e2e_latency_p50_ms"`
	LatencyP90Ms *uint64 `json:"e2e_latency_p90_ms"`
	LatencyP99Ms *uint64 `json:"e2e_latency_p99_ms"`
}

// JournalStats is the section journal.
type JournalStats struct {
	LastOp          uint64 `json:"last_op"`
	FlushedOp       uint64 `json:"flushed_op"`
	PendingBytes    int    `json:"pending_bytes"`
	Full            bool   `json:"full"`
	Stalled         bool   `json:"stalled"`
	CheckpointOp    uint64 `json:"checkpoint_op"`
	CheckpointAgeMs int64  `json:"checkpoint_age_ms"`
	Checkpointing   bool   `json:"checkpointing"`
	Producers       int    `json:"producers"`
	WindowBytes     uint64 `json:"producer_window_bytes"`
}

// stats takes exactly one of topic, group and section: nobody gets everything.
func (s *handler) stats(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	topic, group, section := v.Get("topic"), v.Get("group"), v.Get("section")
	filters := 0
	for _, f := range []string{topic, group, section} {
		if f != "" {
			filters++
		}
	}
	if filters != 1 {
		bad("one filter is needed: topic=NAME, group=NAME, or section=broker, connections, delivery, journal or rejected").reply(w)
		return
	}
	a, ok := s.ask(w, r, node.Query{Kind: node.QueryStats, Topic: topic, Group: group, NoTopics: section != ""})
	if !ok {
		return
	}
	var body Stats
	if section == "" {
		for i := range a.Stats.Topics {
			body.Topics = append(body.Topics, topicStatsBody(&a.Stats.Topics[i]))
		}
		for i := range a.Stats.Groups {
			body.Groups = append(body.Groups, groupStatsBody(&a.Stats.Groups[i]))
		}
	} else if !body.section(section, a.Stats) {
		bad("section is broker, connections, delivery, journal or rejected, not %q", section).reply(w)
		return
	}
	reply(w, http.StatusOK, body)
}

func (b *Stats) section(name string, st *node.Stats) bool {
	s, j := &st.Sessions, &st.Journal
	switch name {
	case "broker":
		broker := brokerBody(&st.Broker)
		b.Broker = &broker
	case "connections":
		b.Connections = &ConnectionStats{s.Connections, s.Refused, s.Unanswered, s.Subscriptions, s.WaitingPulls}
	case "delivery":
		b.Delivery = &DeliveryStats{Unsettled: s.Deliveries, Sent: s.Messages, Expired: s.Expired, Silenced: s.Silenced, Unreadable: s.Unreadable}
		if st.LatencyCount > 0 {
			b.Delivery.LatencyP50Ms, b.Delivery.LatencyP90Ms, b.Delivery.LatencyP99Ms = &st.Latency[0], &st.Latency[1], &st.Latency[2]
		}
	case "journal":
		b.Journal = &JournalStats{
			LastOp: j.LastOp, FlushedOp: j.FlushedOp, PendingBytes: j.PendingBytes, Full: j.Full, Stalled: j.Stalled,
			CheckpointOp: j.CheckpointOp, CheckpointAgeMs: int64(j.CheckpointAge / clock.Millisecond), Checkpointing: j.Checkpointing,
			Producers: j.Producers, WindowBytes: j.WindowBytes,
		}
	case "rejected":
		b.Rejected = map[string]uint64{}
		for _, r := range st.Rejected {
			b.Rejected[r.Code.String()] = r.Count
		}
	default:
		return false
	}
	return true
}

func topicStatsBody(t *node.TopicStats) TopicStats {
	b := TopicStats{Topic: t.Name, Produced: t.Produced, Bytes: t.Bytes, Plain: t.Plain, Groups: t.Groups, Items: []PartitionStats{}}
	for p, v := range t.Partitions {
		b.Items = append(b.Items, PartitionStats{p, v.LastSeq, v.Depth, v.Purged, v.Redriven, v.Damaged})
	}
	return b
}

func groupStatsBody(g *node.GroupStats) GroupStats {
	b := GroupStats{
		Group: g.Name, Topic: g.Topic, State: g.State, Members: g.Members, Start: g.Start, Lag: g.Lag, InFlight: g.InFlight, Dead: g.Dead,
		Delivered: g.Delivered, Dropped: g.Dropped, DLQ: g.DLQ, Quarantined: g.Quarantined, Retries: g.Retries,
	}
	if g.HasOldest {
		b.OldestMs = &g.OldestMillis
	}
	return b
}

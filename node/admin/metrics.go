package admin

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node"
)

// family is a metric with its description.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func gauge(name, help string, labels ...string) family {
	return family{prometheus.NewDesc("mortarmq_"+name, help, labels, nil), prometheus.GaugeValue}
}

func counter(name, help string, labels ...string) family {
	return family{prometheus.NewDesc("mortarmq_"+name, help, labels, nil), prometheus.CounterValue}
}

// The metrics of operations.md. Totals of topics and groups are durable: they
// are part of the replicated state. The others count since the start.
var (
	uptime      = gauge("broker_uptime_seconds", "Seconds since the broker started.")
	connections = gauge("connections", "Open client connections.")
	leaderEpoch = gauge("leader_epoch", "The leader epoch installed here.")
	quorumState = gauge("quorum_state", "0 healthy, 1 soft, 2 read only.")

	produced  = counter("topic_messages_produced_total", "Records committed to a topic, redriven ones included.", "topic")
	delivered = counter("topic_messages_delivered_total", "Messages that a group acknowledged.", "topic", "group")
	dropped   = counter("topic_messages_dropped_total", "Messages settled for a group without an acknowledgement.", "topic", "group")
	dead      = counter("topic_messages_dlq_total", "Dropped messages that became dead letters.", "topic", "group")
	bytes     = counter("topic_bytes_total", "Bytes of keys and values of the records committed to a topic.", "topic")
	depth     = gauge("partition_depth", "Messages above the lowest floor of the groups that read the partition.", "topic", "partition")
	lastSeq   = gauge("partition_last_seq", "Sequence of the partition's last record.", "topic", "partition")
	lag       = gauge("group_lag", "Messages that a group has not settled.", "topic", "group")
	inFlight  = gauge("group_in_flight", "Unsettled messages that are with a consumer under a lease.", "topic", "group")
	start     = gauge("group_start", "Where a group began: produced - start = delivered + dropped + lag.", "topic", "group")
	retries   = counter("group_retries_total", "Deliveries beyond a message's first.", "topic", "group")
	latency   = gauge("e2e_latency_ms", "Publish to first delivery over the last minute, in milliseconds; absent while nothing was delivered.", "quantile")

	oldest      = gauge("group_oldest_unsettled_seconds", "Age of the oldest message that a group has not settled; absent while there is none.", "topic", "group")
	members     = gauge("group_members", "Members of a group.", "topic", "group")
	waitingDead = gauge("group_dead", "Messages whose attempts are used up and that wait for their dead letter.", "topic", "group")
	quarantined = counter("group_quarantined_total", "Dead letters that died again and were settled in quarantine.", "topic", "group")

	lastOp          = gauge("journal_last_op", "Number of the entry applied last.")
	flushedOp       = gauge("journal_flushed_op", "Number of the entry known to be synced last.")
	pendingBytes    = gauge("journal_pending_bytes", "Bytes proposed and not yet synced.")
	journalFull     = gauge("journal_full", "1 while publishes wait for a checkpoint to free the journal.")
	journalStalled  = gauge("journal_stalled", "1 while the disk is full and nothing is acknowledged.")
	checkpointOp    = gauge("checkpoint_op", "Entry of the last checkpoint since the start, 0 for none.")
	checkpointAge   = gauge("checkpoint_age_seconds", "Seconds since the last checkpoint was done; absent before the first.")
	diskFree        = gauge("disk_free_bytes", "Free bytes of the file system that holds data_dir.")
	diskLow         = gauge("disk_low", "1 while free space is below storage_reserve and publishes are refused.")
	damaged         = gauge("partitions_damaged", "Partitions that are hit by damage and take nothing new.")
	producers       = gauge("producers", "Producers whose publishes are deduplicated.")
	producerBytes   = gauge("producer_window_bytes", "Memory of their windows in bytes.")
	subscriptions   = gauge("subscriptions", "Members of groups that are connected here.")
	waitingPulls    = gauge("waiting_pulls", "PULLs that wait for messages.")
	unanswered      = gauge("unanswered_requests", "Requests of clients without an answer.")
	rejected        = counter("requests_rejected_total", "Refusals by error code.", "code")
	refused         = counter("connections_refused_total", "Connections closed because of max_connections.")
	sent            = counter("messages_sent_total", "MSG frames sent.")
	expired         = counter("leases_expired_total", "Deliveries whose lease ran out.")
	silenced        = counter("members_silenced_total", "Members given up because they were silent.")
	unreadable      = counter("records_unreadable_total", "Records that could not be read when they were due.")
	flushSeconds    = prometheus.NewDesc("mortarmq_journal_flush_seconds", "Writing and syncing one batch of the journal.", nil, nil)
	batchBytes      = prometheus.NewDesc("mortarmq_journal_batch_bytes", "Bytes of one batch of the journal.", nil, nil)
	entryOps        = prometheus.NewDesc("mortarmq_journal_entry_ops", "Ops of one journal entry.", nil, nil)
	latencyQuantile = [3]string{"p50", "p90", "p99"}
)

// processMetrics are those of any Go program.
func processMetrics() prometheus.Gatherer {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// metrics asks the node once: a scrape is one consistent state.
func (s *handler) metrics(w http.ResponseWriter, r *http.Request) {
	a, ok := s.ask(w, r, node.Query{Kind: node.QueryStats})
	if !ok {
		return
	}
	one := prometheus.NewRegistry()
	one.MustRegister(scrape{a.Stats})
	o := promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}
	promhttp.HandlerFor(prometheus.Gatherers{one, s.process}, o).ServeHTTP(w, r)
}

// scrape is a Collector over one answer of the node.
type scrape struct{ s *node.Stats }

// Describe says nothing: which series there are is known when they are there.
func (scrape) Describe(chan<- *prometheus.Desc) {}

// Collect gives everything.
func (c scrape) Collect(ch chan<- prometheus.Metric) {
	e := emitter(ch)
	c.node(e)
	c.journal(e)
	for _, t := range boundTopics(c.s.Topics) {
		topicMetrics(e, &t)
	}
	for _, g := range boundGroups(c.s.Groups) {
		groupMetrics(e, &g)
	}
}

type emitter chan<- prometheus.Metric

func (e emitter) put(f family, v float64, labels ...string) {
	e <- prometheus.MustNewConstMetric(f.desc, f.kind, v, labels...)
}

func (e emitter) flag(f family, on bool) {
	v := 0.0
	if on {
		v = 1
	}
	e.put(f, v)
}

// histogram gives h with its bounds divided by unit.
func (e emitter) histogram(d *prometheus.Desc, h *node.Histogram, unit float64) {
	buckets := make(map[float64]uint64, len(h.Counts))
	total := uint64(0)
	for i, n := range h.Counts {
		total += n
		if i < len(h.Counts)-1 {
			buckets[float64(h.Bound(i))/unit] = total
		}
	}
	e <- prometheus.MustNewConstHistogram(d, total, float64(h.Sum)/unit, buckets)
}

func seconds(d clock.Duration) float64 { return float64(d) / float64(clock.Second) }

func (c scrape) node(e emitter) {
	b, s := &c.s.Broker, &c.s.Sessions
	e.put(uptime, seconds(b.Uptime))
	e.put(connections, float64(b.Connections))
	e.put(leaderEpoch, float64(b.LeaderEpoch))
	e.put(quorumState, float64(b.Quorum))
	e.put(diskFree, float64(b.FreeBytes))
	e.flag(diskLow, b.LowSpace)
	e.put(subscriptions, float64(s.Subscriptions))
	e.put(waitingPulls, float64(s.WaitingPulls))
	e.put(unanswered, float64(s.Unanswered))
	e.put(refused, float64(s.Refused))
	e.put(sent, float64(s.Messages))
	e.put(expired, float64(s.Expired))
	e.put(silenced, float64(s.Silenced))
	e.put(unreadable, float64(s.Unreadable))
	e.put(damaged, float64(len(b.Damaged)))
	for _, r := range c.s.Rejected {
		e.put(rejected, float64(r.Count), r.Code.String())
	}
	if c.s.LatencyCount > 0 {
		for i, name := range latencyQuantile {
			e.put(latency, float64(c.s.Latency[i]), name)
		}
	}
}

func (c scrape) journal(e emitter) {
	j := &c.s.Journal
	e.put(lastOp, float64(j.LastOp))
	e.put(flushedOp, float64(j.FlushedOp))
	e.put(pendingBytes, float64(j.PendingBytes))
	e.flag(journalFull, j.Full)
	e.flag(journalStalled, j.Stalled)
	e.put(checkpointOp, float64(j.CheckpointOp))
	if j.CheckpointOp > 0 {
		e.put(checkpointAge, seconds(j.CheckpointAge))
	}
	e.put(producers, float64(j.Producers))
	e.put(producerBytes, float64(j.WindowBytes))
	e.histogram(flushSeconds, &c.s.FlushMicros, 1e6)
	e.histogram(batchBytes, &c.s.BatchBytes, 1)
	e.histogram(entryOps, &c.s.EntryOps, 1)
}

func topicMetrics(e emitter, t *topicSeries) {
	e.put(produced, float64(t.Produced), t.Name)
	e.put(bytes, float64(t.Bytes), t.Name)
	for p := range t.Partitions {
		part := strconv.Itoa(p)
		if t.summed {
			part = otherLabel
		}
		e.put(depth, float64(t.Partitions[p].Depth), t.Name, part)
		e.put(lastSeq, float64(t.Partitions[p].LastSeq), t.Name, part)
	}
}

func groupMetrics(e emitter, g *node.GroupStats) {
	put := func(f family, v float64) { e.put(f, v, g.Topic, g.Name) }
	put(delivered, float64(g.Delivered))
	put(dropped, float64(g.Dropped))
	put(dead, float64(g.DLQ))
	put(lag, float64(g.Lag))
	put(inFlight, float64(g.InFlight))
	put(start, float64(g.Start))
	put(retries, float64(g.Retries))
	put(members, float64(g.Members))
	put(waitingDead, float64(g.Dead))
	put(quarantined, float64(g.Quarantined))
	if g.HasOldest {
		put(oldest, float64(g.OldestMillis)/1000)
	}
}

package node

import (
	"math/bits"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/session"
)

// meters are what the node counts of itself, since it started. What must survive
// is counted by the machine; these are for people.
type meters struct {
	flush      Histogram // microseconds from a batch's submission to its sync's completion
	batchBytes Histogram
	entryOps   Histogram // ops of one entry
	submitted  clock.Instant
	pending    int // bytes of the batch in flight

	latency latencies

	checkpoint   op.Number
	checkpointAt clock.Instant
}

// histogramBounds is how many buckets a Histogram has, but for the last one.
const histogramBounds = 16

// Histogram counts observations. Bucket i counts those up to Bound(i), the last
// one those beyond.
type Histogram struct {
	Counts [histogramBounds + 1]uint64
	Sum    uint64
	first  uint64
	factor uint64
}

// Bound gives the upper bound of bucket i: the first one times factor to the i.
func (h *Histogram) Bound(i int) uint64 {
	b := h.first
	for range i {
		b *= h.factor
	}
	return b
}

func (h *Histogram) observe(v uint64) {
	h.Sum += v
	b := h.first
	for i := range histogramBounds {
		if v <= b {
			h.Counts[i]++
			return
		}
		b *= h.factor
	}
	h.Counts[histogramBounds]++
}

func (m *meters) init() {
	m.flush.first, m.flush.factor = 50, 2            // 50 us to 1.6 s
	m.batchBytes.first, m.batchBytes.factor = 256, 2 // to 8 MiB
	m.entryOps.first, m.entryOps.factor = 1, 2       // to 32768
}

// submit notes that a batch goes to the journal.
func (m *meters) submit(now clock.Instant, bytes int) { m.submitted, m.pending = now, bytes }

// flushed notes that the batch under way is synced.
func (m *meters) flushed(now clock.Instant) {
	if m.pending == 0 {
		return
	}
	m.flush.observe(uint64(now.Sub(m.submitted) / clock.Microsecond))
	m.batchBytes.observe(uint64(m.pending))
	m.pending = 0
}

// Latency windows: latencySlices spans of latencySpan each, one of them filling,
// so that a quantile covers the last 55 to 60 s.
const (
	latencySlices = 12
	latencySpan   = 5 * clock.Second
	// A bucket is at most a sixteenth of its values wide.
	latencySteps   = 16
	latencyBuckets = latencySteps * 24 // up to 2^27 ms, a day and a half
)

// latencies holds how long messages took from their publish (the record's
// timestamp) to their first MSG, in milliseconds, over the last minute. It is
// bounded and knows integers alone: counts in buckets of growing width.
//
// Each run of messages that leaves in one PULL counts by its first and its last
// message, half of the run each: those between lie between the two.
type latencies struct {
	slices [latencySlices][latencyBuckets]uint32
	at     int
	until  clock.Instant // of the slice that fills
}

// rotate empties the slices whose time is over.
func (l *latencies) rotate(now clock.Instant) {
	for k := 0; now >= l.until; k++ {
		if k == latencySlices {
			l.until = now.Add(latencySpan)
			return
		}
		l.at = (l.at + 1) % latencySlices
		clear(l.slices[l.at][:])
		l.until = l.until.Add(latencySpan)
	}
}

// latencyBucket gives a value's bucket: exact below 16, then sixteen for each
// doubling.
func latencyBucket(ms uint64) int {
	if ms < latencySteps {
		return int(ms)
	}
	shift := bits.Len64(ms) - 5
	return min(latencySteps*(shift+1)+int(ms>>shift)-latencySteps, latencyBuckets-1)
}

// latencyBound gives the largest value of a bucket.
func latencyBound(b int) uint64 {
	if b < latencySteps {
		return uint64(b)
	}
	shift := b/latencySteps - 1
	return uint64(b%latencySteps+latencySteps+1)<<shift - 1
}

func (l *latencies) observe(now clock.Instant, ms uint64, weight uint32) {
	if weight == 0 {
		return
	}
	l.rotate(now)
	l.slices[l.at][latencyBucket(ms)] += weight
}

// quantiles gives the values that permille of the observations do not exceed,
// and how many observations there are.
func (l *latencies) quantiles(now clock.Instant, permille [3]uint64) (values [3]uint64, count uint64) {
	l.rotate(now)
	var sums [latencyBuckets]uint64
	for s := range l.slices {
		for b, v := range l.slices[s] {
			sums[b] += uint64(v)
			count += uint64(v)
		}
	}
	for i, q := range permille {
		rank, seen := (count*q+999)/1000, uint64(0)
		for b := range sums {
			if seen += sums[b]; seen >= max(rank, 1) {
				values[i] = latencyBound(b)
				break
			}
		}
	}
	return values, count
}

// measure takes the latency of a run of deliveries that is proposed in the turn
// in which its messages are sent. A message that the applied state knows as
// delivered is delivered again and does not count; nor do dead letters, which
// are as old as their first publish.
func (n *Node) measure(o *op.Op) {
	g, ok := n.view.Group(o.Group)
	if !ok || g.Topic%2 == 0 {
		return
	}
	c, ok := n.view.Cursor(o.Group, o.Partition)
	end := o.Sequence + op.Sequence(o.Count)
	first := max(o.Sequence, c.NextFirst)
	if !ok || first >= end {
		return
	}
	count := uint32(end - first)
	n.measureOne(g.Topic, o.Partition, first, (count+1)/2)
	n.measureOne(g.Topic, o.Partition, end-1, count/2)
}

func (n *Node) measureOne(t op.TopicID, p op.PartitionID, seq op.Sequence, weight uint32) {
	rec, found := n.record(t, p, seq)
	if found != session.LookupHit {
		return
	}
	ms := uint64(0)
	if w := uint64(n.now.Wall); w > rec.Timestamp {
		ms = w - rec.Timestamp
	}
	n.meters.latency.observe(n.now.Mono, ms, weight)
}

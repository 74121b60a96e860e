package admin

import "github.com/mortarmq/mortarmq/node"

// Limits of a scrape: topics, groups and partitions that have series of their own.
// What is beyond them is summed up in the series of otherLabel, which is no name
// that a topic may have: a scrape costs a bounded amount of memory and the sums
// over all series stay right.
const (
	topicSeriesMax     = 5000
	groupSeriesMax     = 5000
	partitionSeriesMax = 50000
	otherLabel         = "$other"
)

// topicSeries is what a topic's series tell. summed says that Partitions is one
// item that stands for all of them.
type topicSeries struct {
	node.TopicStats
	summed bool
}

// boundTopics gives the topics that have series of their own, in order of age, and
// last what stands for the rest.
func boundTopics(all []node.TopicStats) []topicSeries {
	listed := min(len(all), topicSeriesMax)
	series := make([]topicSeries, 0, listed+1)
	left := partitionSeriesMax
	for _, t := range all[:listed] {
		s := topicSeries{TopicStats: t}
		if len(t.Partitions) > left {
			s.summed, s.Partitions = true, []node.PartitionStats{sumPartitions(t.Partitions)}
		} else {
			left -= len(t.Partitions)
		}
		series = append(series, s)
	}
	if listed == len(all) {
		return series
	}
	other := topicSeries{TopicStats: node.TopicStats{Name: otherLabel, Partitions: make([]node.PartitionStats, 1)}, summed: true}
	for _, t := range all[listed:] {
		other.Produced += t.Produced
		other.Bytes += t.Bytes
		p := sumPartitions(t.Partitions)
		other.Partitions[0].Depth += p.Depth
		other.Partitions[0].LastSeq += p.LastSeq
	}
	return append(series, other)
}

func sumPartitions(all []node.PartitionStats) (sum node.PartitionStats) {
	for i := range all {
		sum.Depth += all[i].Depth
		sum.LastSeq += all[i].LastSeq
	}
	return sum
}

// boundGroups is boundTopics for groups; the age of the oldest message is the
// highest of the rest.
func boundGroups(all []node.GroupStats) []node.GroupStats {
	if len(all) <= groupSeriesMax {
		return all
	}
	series := append([]node.GroupStats(nil), all[:groupSeriesMax]...)
	other := node.GroupStats{Name: otherLabel, Topic: otherLabel}
	for _, g := range all[groupSeriesMax:] {
		other.Members += g.Members
		other.Start += g.Start
		other.Lag += g.Lag
		other.InFlight += g.InFlight
		other.Dead += g.Dead
		other.Delivered += g.Delivered
		other.Dropped += g.Dropped
		other.DLQ += g.DLQ
		other.Quarantined += g.Quarantined
		other.Retries += g.Retries
		other.OldestMillis = max(other.OldestMillis, g.OldestMillis)
		other.HasOldest = other.HasOldest || g.HasOldest
	}
	return append(series, other)
}

package node

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store"
	"github.com/mortarmq/mortarmq/wire"
)

// partitionRef names a partition of a topic or twin.
type partitionRef struct {
	topic     op.TopicID
	partition op.PartitionID
}

func (r partitionRef) compare(other partitionRef) int {
	return int(r.topic)<<16 + int(r.partition) - int(other.topic)<<16 - int(other.partition)
}

// Damage is what is known of a partition that is hit: it takes nothing new, and
// what can be read of it goes on being read. ID is the diagnostic id: it stands in
// the log line that names the place, and in every INTERNAL that comes of it.
type Damage struct {
	partitionRef
	ID string
	// Path, Offset and Sequence are the first place that was found.
	Path     string
	Offset   int64
	Sequence uint64
	What     string
}

// damages are the partitions that are hit, in order.
type damages struct {
	list  []Damage
	count uint64 // diagnostic ids given in this life
}

// of gives what is known of a partition, nil for nothing.
func (d *damages) of(t op.TopicID, p op.PartitionID) *Damage {
	if len(d.list) == 0 { // the path of every publish
		return nil
	}
	if i, ok := d.find(partitionRef{t, p}); ok {
		return &d.list[i]
	}
	return nil
}

func (d *damages) find(ref partitionRef) (int, bool) {
	return slices.BinarySearchFunc(d.list, ref, func(x Damage, ref partitionRef) int { return x.compare(ref) })
}

// ofTopic gives what is known of the partitions of a topic. It is borrowed.
func (d *damages) ofTopic(t op.TopicID) []Damage {
	low, _ := d.find(partitionRef{t, 0})
	high, _ := d.find(partitionRef{t + 1, 0})
	return d.list[low:high]
}

// forget drops a topic that was deleted, and with it what was damaged of it.
func (d *damages) forget(t op.TopicID) {
	d.list = slices.DeleteFunc(d.list, func(x Damage) bool { return x.topic == t })
}

// markDamaged notes that a partition is hit, and logs the place.
func (n *Node) markDamaged(place Damage) {
	i, known := n.damages.find(place.partitionRef)
	if known && n.damages.list[i].Path == place.Path && n.damages.list[i].Offset == place.Offset {
		return // told already
	}
	if known {
		place.ID = n.damages.list[i].ID
	} else {
		// Unique over restarts, too: no two begin in the same millisecond.
		n.damages.count++
		place.ID = strconv.FormatUint(uint64(n.startedWall), 36) + "-" + utoa(n.damages.count)
		n.damages.list = slices.Insert(n.damages.list, i, place)
	}
	n.logf(LevelError, "damage: %s offset %d sequence %d: %s; partition %d of topic %s takes no publishes; diagnostic id %s",
		place.Path, place.Offset, place.Sequence, place.What, place.partition, n.topicName(place.topic), place.ID)
}

// DamageInfo is a partition that is hit, as operators are told of it.
type DamageInfo struct {
	Topic        string
	Partition    uint16
	DiagnosticID string // see Damage.ID
	Path         string
	Offset       int64
	Sequence     uint64
	What         string
}

func (n *Node) damageInfos(list []Damage) []DamageInfo {
	var infos []DamageInfo
	for i := range list {
		infos = append(infos, n.damageInfo(&list[i]))
	}
	return infos
}

func (n *Node) damageInfo(d *Damage) DamageInfo {
	return DamageInfo{
		Topic: n.topicName(d.topic), Partition: uint16(d.partition), DiagnosticID: d.ID,
		Path: d.Path, Offset: d.Offset, Sequence: d.Sequence, What: d.What,
	}
}

// damageOf gives what is known of a partition, nil for nothing.
func (n *Node) damageOf(t op.TopicID, p op.PartitionID) *DamageInfo {
	d := n.damages.of(t, p)
	if d == nil {
		return nil
	}
	info := n.damageInfo(d)
	return &info
}

// topicName gives a topic's name, or its id in the time before metadata is known.
func (n *Node) topicName(t op.TopicID) string {
	if v, ok := n.view.Topic(t); ok {
		return v.Name
	}
	return utoa(uint64(t))
}

// endDamaged ends the node over damage to what it cannot do without.
func (n *Node) endDamaged(ev *store.Event) {
	where := ev.Path + " offset " + strconv.FormatInt(ev.Offset, 10) + " sequence " + utoa(ev.Sequence) + ": "
	n.logf(LevelError, "damage: %s%s", where, ev.What)
	quarantine := wire.CodeMetadataQuarantined.String() + ": "
	what, quarantined := strings.CutPrefix(ev.What, quarantine)
	switch {
	case !quarantined:
		n.exit(true, "damage in "+where+what+"; nothing was changed; restore it from a copy, see mortarmq verify")
	case strings.Contains(what, format.QuarantineDir):
		n.exit(true, quarantine+where+what+", nothing else was changed; see mortarmq verify and runbook RB-2")
	default:
		n.exit(true, quarantine+where+what+"; nothing was changed; see mortarmq verify and runbook RB-2")
	}
}

// Damaged says whether a partition is hit.
func (b broker) Damaged(t op.TopicID, p op.PartitionID) bool { return b.n.damages.of(t, p) != nil }

// Unreadable is what a request is told that a damaged partition has stopped: with
// the sequence that cannot be read, or 0 for one that would have been written.
func (b broker) Unreadable(t op.TopicID, p op.PartitionID, seq op.Sequence) string {
	return b.n.unreadable(t, p, seq)
}

func (n *Node) unreadable(t op.TopicID, p op.PartitionID, seq op.Sequence) string {
	if n.damages.of(t, p) == nil { // its event is under way: the log comes first
		ref := partitionRef{t, p}
		for _, d := range n.store.DamageOf(t, p) {
			n.markDamaged(Damage{partitionRef: ref, Path: d.Path, Offset: d.Offset, Sequence: uint64(d.Sequence), What: d.What})
		}
		if n.damages.of(t, p) == nil {
			n.markDamaged(Damage{partitionRef: ref, Path: format.PartitionDir(t, p), Sequence: uint64(seq), What: "the record is not there"})
		}
	}
	d := n.damages.of(t, p)
	what := "takes nothing new"
	if seq > 0 {
		what = "cannot be read at sequence " + utoa(uint64(seq))
	}
	return "partition " + utoa(uint64(p)) + " of " + n.topicName(t) + " is damaged and " + what +
		": run mortarmq verify on the stopped broker; diagnostic id " + d.ID
}

package segment

import (
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/op"
)

// EventKind says what an event reports.
type EventKind uint8

// The kinds of event, each with the fields that it uses.
const (
	EventInvalid EventKind = iota
	// EventFlushed: everything appended before Flush(Token) is durable.
	EventFlushed
	// EventReadReady: what a Read of Topic, Partition, Sequence waited for has
	// come, or turned out damaged. Read again in this turn: from Take on it may
	// have to make room for others.
	EventReadReady
	// EventRecovered: every partition is cut back to its position, or damaged
	// (events before this one); appends may begin.
	EventRecovered
	// EventStalled: a write of Path failed with Err (the disk is full, or no file
	// descriptor is left). It is repeated. Once per stall of a partition.
	EventStalled
	// EventResumed: the partition's writes succeed again.
	EventResumed
	// EventDamage: Damage was found. Once per damaged place.
	EventDamage
	// EventFailed: a write or sync of Path failed with Err, and what is on disk is
	// unknown since: the node has to stop. The journal has it all.
	EventFailed
	// EventUnlinked: the files of all topics dropped before Unlink are gone.
	EventUnlinked
	// EventIndexRebuilt: the index at Path was missing or wrong and was rebuilt.
	EventIndexRebuilt
	// EventCut: recovery cut Path back to Offset, or removed it (Offset 0).
	EventCut
	// EventScrubbed: every sealed segment has been verified once more.
	EventScrubbed
)

// Event is something that happened to the set.
type Event struct {
	Kind      EventKind
	Err       disk.Errno
	Topic     op.TopicID
	Partition op.PartitionID
	Sequence  op.Sequence
	Token     uint64
	Offset    int64
	Path      string
	Damage    Damage
}

// Damage is one place where a partition's files are not what they were.
// Sequence is the first record that is hit, as far as that is known.
type Damage struct {
	Topic     op.TopicID
	Partition op.PartitionID
	Path      string
	Offset    int64
	Sequence  op.Sequence
	What      string
	// TooNew says that it is no damage: a newer binary wrote the file.
	TooNew bool
}

// Error tells the damage in a line.
func (d *Damage) Error() string {
	return d.Path + ": " + d.What + " at offset " + itoa(uint64(d.Offset)) + ", sequence " + itoa(uint64(d.Sequence))
}

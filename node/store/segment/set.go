package segment

import (
	"strconv"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

// Status is the answer of Read.
type Status uint8

// The answers.
const (
	// Missing: the partition has no such sequence, or there is no such partition.
	Missing Status = iota
	// Hit: the record is borrowed until Take.
	Hit
	// Pending: EventReadReady will say when to read again.
	Pending
	// Damaged: it was there and cannot be read; see Damage.
	Damaged
)

// Position is where a partition ends: its last sequence, the base sequence of
// its active segment, and the byte offset in it where the next record goes. All
// are zero as long as it has no record.
type Position struct {
	Topic     op.TopicID
	Partition op.PartitionID
	Last      op.Sequence
	Base      op.Sequence
	Offset    int64
}

// Set is the segments of all partitions.
type Set struct {
	o Options
}

func itoa(v uint64) string { return strconv.FormatUint(v, 10) }

// New gives an empty set. It panics on options that Validate refuses.
func New(o Options) *Set {
	if err := o.Validate(); err != nil {
		panic(err)
	}
	return &Set{o: o.withDefaults()}
}

// CreatePartition makes a partition known. Its files come with its first write.
func (s *Set) CreatePartition(topic op.TopicID, part op.PartitionID) { panic("not yet") }

// DropTopic stops serving all partitions of topic. Their files stay until Unlink.
func (s *Set) DropTopic(topic op.TopicID) { panic("not yet") }

// Unlink removes the files of every topic dropped so far; EventUnlinked follows.
func (s *Set) Unlink() { panic("not yet") }

// Append copies rec to the end of its partition. rec.Sequence must be the one
// after the last.
func (s *Set) Append(topic op.TopicID, part op.PartitionID, rec *format.Record) op.Sequence {
	panic("not yet")
}

// Read gives the record seq of a partition.
func (s *Set) Read(topic op.TopicID, part op.PartitionID, seq op.Sequence) (format.Record, Status) {
	panic("not yet")
}

// Flush makes everything appended so far durable; EventFlushed with token
// follows. Appends go on meanwhile. Flushes are answered in order.
func (s *Set) Flush(token uint64) { panic("not yet") }

// Positions yields where each partition ends, in the order of topic and
// partition, as of everything appended so far.
func (s *Set) Positions(yield func(Position) bool) { panic("not yet") }

// Recover cuts every partition back to its position and makes the partitions of
// positions, which are in order, known. With removeUnknown, directories of other
// partitions are removed: say so only if the metadata is intact. EventRecovered
// follows; nothing else may be called before it but Take, Complete, Next and
// Tick.
func (s *Set) Recover(positions []Position, removeUnknown bool) { panic("not yet") }

// Complete takes the completion of a request with this set's owner tag.
func (s *Set) Complete(c *disk.Completion) { panic("not yet") }

// Take appends the requests queued since the last call to out. It ends the
// turn: what Read gave is no longer borrowed.
func (s *Set) Take(out []disk.Request) []disk.Request { panic("not yet") }

// Next moves the oldest event into ev.
func (s *Set) Next(ev *Event) bool { panic("not yet") }

// Tick tells the time, at the start of each turn.
func (s *Set) Tick(now clock.Instant) { panic("not yet") }

// NextDeadline is when Tick is next needed though nothing happened.
func (s *Set) NextDeadline() clock.Instant { panic("not yet") }

// Last gives the last sequence of a partition, 0 for none.
func (s *Set) Last(topic op.TopicID, part op.PartitionID) op.Sequence { panic("not yet") }

// Damage gives the first damage found in a partition, nil for none.
func (s *Set) Damage(topic op.TopicID, part op.PartitionID) *Damage { panic("not yet") }

// DirtyBytes gives what is appended and not yet known to be written, in bytes.
func (s *Set) DirtyBytes() int64 { panic("not yet") }

// Busy says whether requests are under way.
func (s *Set) Busy() bool { panic("not yet") }

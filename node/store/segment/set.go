package segment

import (
	"strconv"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
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
	o   Options
	now clock.Instant

	index map[uint32]*partition // by key; never ranged over
	order []*partition          // the same, in order

	slots     []slot
	freeSlots []uint32
	out       []disk.Request
	inFlight  int

	files                  map[fileKey]*file // never ranged over
	idleOldest, idleNewest *file
	handles                uint32
	freeHandles            []disk.Handle

	pool       pool
	clean      chunkList // tail chunks that are written
	cache      chunkList // chunks read from disk
	dirtyCap   int64     // capacity of tail chunks that are not in clean
	dirtyBytes int64

	lingering    fifo[*partition] // with records not written, in order of dirtySince
	writeQueue   fifo[*partition]
	writers      int
	idleWriters  []*writer
	stalled      []*partition
	retryAt      clock.Instant
	touched      []*partition
	flushTokens  fifo[uint64]
	flushActive  bool
	flushPending int
	failed       bool

	readQueue   fifo[readWanted]
	readers     int
	idleReaders []*reader
	readsAt     clock.Instant // no read starts before: descriptors ran out
	rebuilds    []*rebuild

	graves   []*grave
	recovery *recovery
	scrub    scrubber

	events fifo[Event]
}

// New gives an empty set. It panics on options that Validate refuses.
func New(o Options) *Set {
	if err := o.Validate(); err != nil {
		panic(err)
	}
	o = o.withDefaults()
	s := &Set{o: o, index: make(map[uint32]*partition), files: make(map[fileKey]*file)}
	s.pool.max = o.TailBytesMax / 4
	s.retryAt = clock.Never
	s.scrub.init(s)
	return s
}

// CreatePartition makes a partition known. Its files come with its first write.
func (s *Set) CreatePartition(topic op.TopicID, part op.PartitionID) {
	assert(s.recovery == nil, "CreatePartition during recovery")
	s.add(&partition{topic: topic, part: part})
}

// Positions yields where each partition ends, in the order of topic and
// partition, as of everything appended so far that is not held (Held).
func (s *Set) Positions(yield func(Position) bool) {
	for _, p := range s.order {
		at := Position{p.topic, p.part, p.last, p.base, p.offset}
		if p.held {
			at = p.heldAt
		}
		if !yield(at) {
			return
		}
	}
}

// Held yields the records behind the positions of damaged partitions, encoded, in
// the order of partitions and sequences, any number of them at a time. They are for
// the checkpoint that has the positions, and appended again after its Recover
// (invariant 9). They are borrowed until the next call.
func (s *Set) Held(yield func(topic op.TopicID, part op.PartitionID, records []byte) bool) {
	for _, p := range s.order {
		for c := p.tailFirst; c != nil && p.held; c = c.next {
			if !yield(p.topic, p.part, c.buf[c.head:]) {
				return
			}
		}
	}
}

// Last gives the last sequence of a partition, 0 for none.
func (s *Set) Last(topic op.TopicID, part op.PartitionID) op.Sequence {
	if p := s.find(topic, part); p != nil {
		return p.last
	}
	return 0
}

// Damage gives what damage was found in a partition so far, at most 16 places.
// It is borrowed until the next call.
func (s *Set) Damage(topic op.TopicID, part op.PartitionID) []Damage {
	if p := s.find(topic, part); p != nil {
		return p.damage
	}
	return nil
}

// DirtyBytes gives what is appended and not yet known to be written, in bytes:
// the space that it will take.
func (s *Set) DirtyBytes() int64 { return s.dirtyBytes }

// Busy says whether requests are under way.
func (s *Set) Busy() bool { return s.inFlight > 0 }

// Next moves the oldest event into ev.
func (s *Set) Next(ev *Event) bool {
	if s.events.empty() {
		return false
	}
	*ev = s.events.pop()
	return true
}

func (s *Set) emit(ev Event) { s.events.push(ev) }

// Take appends the requests queued since the last call to out. It ends the
// turn: what Read gave is no longer borrowed.
func (s *Set) Take(out []disk.Request) []disk.Request {
	s.pressWriters()
	s.startWriters()
	s.startReaders()
	s.evict()
	s.pool.settle()
	out = append(out, s.out...)
	clear(s.out)
	s.out = s.out[:0]
	return out
}

// Tick tells the time, at the start of each turn.
func (s *Set) Tick(now clock.Instant) {
	assert(now >= s.now, "time goes back")
	s.now = now
	s.tickWriters()
	s.scrub.tick(s)
}

// NextDeadline is when Tick is next needed though nothing happened.
func (s *Set) NextDeadline() clock.Instant {
	at := min(s.retryAt, s.lingerDeadline())
	if s.recovery == nil { // nothing is verified before
		at = min(at, s.scrub.at)
	}
	if s.readsAt > s.now && !s.readQueue.empty() {
		at = min(at, s.readsAt)
	}
	return at
}

func itoa(v uint64) string { return strconv.FormatUint(v, 10) }

// fifo is a queue in a slice that is reused.
type fifo[T any] struct {
	items []T
	first int
}

func (q *fifo[T]) empty() bool { return q.first == len(q.items) }

func (q *fifo[T]) peek() T { return q.items[q.first] }

func (q *fifo[T]) push(v T) {
	if q.first > 32 && q.first*2 > len(q.items) {
		n := copy(q.items, q.items[q.first:])
		clear(q.items[n:])
		q.items, q.first = q.items[:n], 0
	}
	q.items = append(q.items, v)
}

func (q *fifo[T]) pop() T {
	var zero T
	v := q.items[q.first]
	q.items[q.first] = zero
	q.first++
	if q.empty() {
		q.items, q.first = q.items[:0], 0
	}
	return v
}

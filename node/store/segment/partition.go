package segment

import (
	"sort"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

// segment is what is known of one segment: how much of it and of its index is
// written. Beyond size its file may hold anything.
type segment struct {
	base    op.Sequence
	size    int64
	entries uint32 // of the index; 0: it has to be rebuilt before use
}

// span is a range of sequences, both ends included.
type span struct{ from, to op.Sequence }

// partition is the state of one partition. Without records in memory it holds
// nothing beyond this struct.
//
// Invariants:
//
//  1. segments are in order; the last is the active one, with base; base is 0
//     as long as there is none.
//  2. The chunks from tailFirst on are contiguous and end with last. dirty is
//     the first of them that is not written to its end.
//  3. written is the last sequence that is on disk; all above are in memory.
//  4. unsynced segments: at most one, unsyncedBase, the newest written to.
type partition struct {
	topic op.TopicID
	part  op.PartitionID

	last     op.Sequence
	base     op.Sequence
	offset   int64  // in the active segment, of the next record
	indexed  uint32 // offset of its last record that has an index entry
	entries  uint32 // of its index, written or not
	segments []segment

	tailFirst, tailLast, dirty *chunk
	class                      uint8 // of the next tail chunk

	written      op.Sequence
	made         op.Sequence // segments up to this base have files
	dirMade      bool
	newNames     bool // files whose names may not be durable
	newDir       bool // the directory's own name, too
	unsynced     bool
	unsyncedBase op.Sequence

	queued, stalled bool
	stalledOnce     bool // a stall was reported, its end was not
	lingering       bool
	writer          *writer
	dirtySince      clock.Instant
	flushing        bool        // Flush waits for it
	flushTo         op.Sequence // up to here
	touched         bool

	cached  *chunk        // chunks read from disk, the one used last in front
	reading []op.Sequence // reads under way or waiting

	damage  []Damage
	bad     []span
	held    bool     // invariant 9 of the package
	heldAt  Position // its position when it was found damaged
	dropped bool
	tasks   int // workers on its files
}

// badMax bounds the spans and the damages kept of a partition: with more, the
// last span grows over what lies between.
const badMax = 16

// isBad says whether seq is known to be unreadable.
func (p *partition) isBad(seq op.Sequence) bool {
	for _, b := range p.bad {
		if seq >= b.from && seq <= b.to {
			return true
		}
	}
	return false
}

func (p *partition) addBad(from, to op.Sequence) {
	for i := range p.bad {
		b := &p.bad[i]
		if len(p.bad) == badMax && i == badMax-1 || from >= b.from && from <= b.to+1 && b.to+1 != 0 {
			b.from, b.to = min(b.from, from), max(b.to, to)
			return
		}
	}
	p.bad = append(p.bad, span{from, to})
}

// segmentOf gives the index of the segment that seq lies in, -1 for none.
func (p *partition) segmentOf(seq op.Sequence) int {
	return sort.Search(len(p.segments), func(i int) bool { return p.segments[i].base > seq }) - 1
}

// segmentEnd gives the last sequence of the segment i.
func (p *partition) segmentEnd(i int) op.Sequence {
	if i+1 < len(p.segments) {
		return p.segments[i+1].base - 1
	}
	return p.last
}

// inMemory finds the tail chunk that holds seq.
func (p *partition) inMemory(seq op.Sequence) *chunk {
	if p.tailFirst == nil || seq < p.tailFirst.first {
		return nil
	}
	if p.tailLast.has(seq) {
		return p.tailLast
	}
	for c := p.tailFirst; c != nil; c = c.next {
		if c.has(seq) {
			return c
		}
	}
	panic("segment: invariant 3: a gap in a partition's tail")
}

// finished says whether nothing more is written to the segment base.
func (p *partition) finished(base op.Sequence) bool {
	return p.held || base < p.base && (p.dirty == nil || p.dirty.base > base) && (!p.unsynced || p.unsyncedBase != base)
}

func (p *partition) path(base op.Sequence, suffix string) string {
	return format.PartitionDir(p.topic, p.part) + "/" + format.SegmentName(base, suffix)
}

func (p *partition) dir() string { return format.PartitionDir(p.topic, p.part) }

// key orders partitions by topic and number.
func key(topic op.TopicID, part op.PartitionID) uint32 { return uint32(topic)<<16 | uint32(part) }

func (p *partition) key() uint32 { return key(p.topic, p.part) }

// find gives a partition that is served.
func (s *Set) find(topic op.TopicID, part op.PartitionID) *partition {
	return s.index[key(topic, part)]
}

// add makes p known.
func (s *Set) add(p *partition) {
	k := p.key()
	assert(s.index[k] == nil, "a partition is created twice")
	s.index[k] = p
	i := sort.Search(len(s.order), func(i int) bool { return s.order[i].key() > k })
	s.order = append(s.order, nil)
	copy(s.order[i+1:], s.order[i:])
	s.order[i] = p
}

// noteDamage records damage that makes the sequences from to to unreadable.
func (s *Set) noteDamage(p *partition, d Damage, from, to op.Sequence) {
	d.Topic, d.Partition = p.topic, p.part
	if from <= to {
		p.addBad(from, to)
	}
	for i := range p.damage {
		if p.damage[i].Path == d.Path && p.damage[i].Offset == d.Offset {
			return
		}
	}
	if len(p.damage) < badMax {
		p.damage = append(p.damage, d)
		s.emit(Event{Kind: EventDamage, Topic: p.topic, Partition: p.part, Sequence: d.Sequence, Offset: d.Offset, Path: d.Path, Damage: d})
	}
}

package segment

import (
	"sort"

	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

// chunk is a piece of a segment in memory: of a partition's tail, or read from
// its file.
//
// Invariants:
//
//  1. buf never moves; it holds whole records from head on, of the sequences
//     first to last, all of one segment.
//  2. buf[:written] is on disk as it is here.
//  3. entries are in order and lie in buf; entry 0 has the number entryFirst in
//     the index (tail chunks).
type chunk struct {
	buf         []byte // cap is the size of its class
	class       uint8
	p           *partition
	base        op.Sequence // its segment
	offset      int64       // of buf[0] in the segment
	head        int         // where records begin: behind the header, if it is here
	first, last op.Sequence
	written     int
	entries     []format.IndexEntry
	entryFirst  uint32
	entriesDone int // entries that are in the index file

	// Where the last found record lies: consumers read on from there.
	hintSequence op.Sequence
	hintAt       int

	next           *chunk // in the partition's tail or list of cached chunks
	younger, older *chunk // in the list of those that may be evicted
	evictable      bool
}

// end gives the offset in the segment behind the chunk.
func (c *chunk) end() int64 { return c.offset + int64(len(c.buf)) }

// has says whether the record seq is in the chunk.
func (c *chunk) has(seq op.Sequence) bool { return seq >= c.first && seq <= c.last }

// record gives the record seq, which the chunk has.
func (c *chunk) record(seq op.Sequence) format.Record {
	assert(c.has(seq), "chunk: a record that is not here")
	at, s := c.head, c.first
	i := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Sequence > seq })
	if i > 0 {
		at, s = int(int64(c.entries[i-1].Offset)-c.offset), c.entries[i-1].Sequence
	}
	if c.hintSequence > s && c.hintSequence <= seq {
		at, s = c.hintAt, c.hintSequence
	}
	for {
		rec, n := format.ViewRecord(c.buf[at:])
		assert(rec.Sequence == s, "invariant 1: a gap in a chunk")
		if s == seq {
			c.hintSequence, c.hintAt = s, at
			return rec
		}
		at, s = at+n, s+1
	}
}

// chunkList orders chunks from the one to be evicted first.
type chunkList struct {
	oldest, youngest *chunk
	bytes            int64
}

func (l *chunkList) push(c *chunk) {
	assert(!c.evictable, "chunk: in the list already")
	c.evictable = true
	c.older, c.younger = l.youngest, nil
	if l.youngest != nil {
		l.youngest.younger = c
	} else {
		l.oldest = c
	}
	l.youngest = c
	l.bytes += int64(cap(c.buf))
}

func (l *chunkList) remove(c *chunk) {
	assert(c.evictable, "chunk: not in the list")
	c.evictable = false
	if c.older != nil {
		c.older.younger = c.younger
	} else {
		l.oldest = c.younger
	}
	if c.younger != nil {
		c.younger.older = c.older
	} else {
		l.youngest = c.older
	}
	c.older, c.younger = nil, nil
	l.bytes -= int64(cap(c.buf))
}

// classes are the sizes of chunks in bytes. An idle partition's few records
// take the smallest, a busy one's the size class 4; those above are for records
// that fit no other.
var classes = [...]int{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20, 32 << 20}

// classTop is the largest class that a tail grows to by itself.
const classTop = 4

// classFor gives the smallest class of at least n bytes.
func classFor(n int) uint8 {
	for i, size := range classes {
		if n <= size {
			return uint8(i)
		}
	}
	panic("segment: a chunk beyond the largest record")
}

// pool keeps chunks for reuse. A chunk that is given back stays untouched until
// settle: somebody may have borrowed from it in this turn.
type pool struct {
	free   [len(classes)][]*chunk
	bytes  int64
	max    int64
	back   []*chunk
	poison bool
}

func (p *pool) get(class uint8) *chunk {
	free := p.free[class]
	if n := len(free); n > 0 {
		c := free[n-1]
		free[n-1] = nil
		p.free[class] = free[:n-1]
		p.bytes -= int64(cap(c.buf))
		return c
	}
	return &chunk{buf: make([]byte, 0, classes[class]), class: class}
}

func (p *pool) put(c *chunk) {
	assert(!c.evictable && c.p != nil, "pool: a chunk given back twice, or in use")
	*c = chunk{buf: c.buf[:0], class: c.class, entries: c.entries[:0]}
	p.back = append(p.back, c)
}

func (p *pool) settle() {
	for i, c := range p.back {
		p.back[i] = nil
		if p.poison {
			b := c.buf[:cap(c.buf)]
			for j := range b {
				b[j] = 0xDB
			}
		}
		if p.bytes+int64(cap(c.buf)) <= p.max {
			p.bytes += int64(cap(c.buf))
			p.free[c.class] = append(p.free[c.class], c)
		}
	}
	p.back = p.back[:0]
}

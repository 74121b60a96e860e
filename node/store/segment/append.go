package segment

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

// Append copies rec to the end of its partition, which is known. rec.Sequence
// must be the one after the last. It returns it.
func (s *Set) Append(topic op.TopicID, part op.PartitionID, rec *format.Record) op.Sequence {
	p := s.find(topic, part)
	assert(p != nil && s.recovery == nil, "Append to an unknown partition, or during recovery")
	assert(rec.Sequence == p.last+1, "invariant 1: a sequence that does not follow")
	n := rec.Size()
	if p.base == 0 || p.held && p.tailFirst == nil || p.offset+int64(n) > s.o.SegmentMaxBytes && p.offset > format.SegmentHeaderSize {
		s.roll(p, rec.Sequence)
	}
	c := s.room(p, n, rec)
	at := uint32(p.offset)
	if format.IndexDue(p.indexed, at) {
		if len(c.entries) == 0 {
			c.entryFirst = p.entries
		}
		c.entries = append(c.entries, format.IndexEntry{Sequence: rec.Sequence, Timestamp: rec.Timestamp, Offset: at, Length: uint32(n)})
		p.indexed = at
		p.entries++
	}
	before := len(c.buf)
	c.buf = rec.Append(c.buf)
	assert(len(c.buf)-before == n && cap(c.buf) == classes[c.class], "chunk invariant 1: a record outgrew its chunk")
	if c.first == 0 {
		c.first = rec.Sequence
	}
	c.last, p.last = rec.Sequence, rec.Sequence
	p.offset += int64(n)
	s.dirtied(p, c, n)
	return p.last
}

// roll begins the segment whose first record is base. Its files come with the
// first write.
func (s *Set) roll(p *partition, base op.Sequence) {
	p.base, p.offset, p.indexed, p.entries = base, format.SegmentHeaderSize, 0, 0
	p.segments = append(p.segments, segment{base: base})
}

// room gives the tail chunk of p with room for n bytes: the last one, or a new
// one behind it. The first chunk of a segment begins with its header.
func (s *Set) room(p *partition, n int, rec *format.Record) *chunk {
	c := p.tailLast
	if c != nil && c.base == p.base && cap(c.buf)-len(c.buf) >= n {
		return c
	}
	if c != nil {
		if c.base == p.base && p.class < classTop {
			p.class++ // it filled up before it was written or evicted
		}
		s.enqueueWrite(p)
	}
	fresh := p.offset == format.SegmentHeaderSize
	if fresh {
		n += format.SegmentHeaderSize
	}
	d := s.pool.get(max(p.class, classFor(n)))
	if !p.held {
		s.dirtyCap += int64(cap(d.buf))
	}
	d.p, d.base, d.offset = p, p.base, p.offset
	if fresh {
		d.offset, d.head = 0, format.SegmentHeaderSize
		h := format.SegmentHeader{Topic: p.topic, Partition: p.part, Base: p.base, ClusterID: s.o.ClusterID, Created: rec.Timestamp}
		d.buf = d.buf[:format.SegmentHeaderSize]
		h.PutSegment(d.buf)
		if !p.held {
			s.dirtyBytes += format.SegmentHeaderSize
		}
	}
	if c == nil {
		p.tailFirst = d
	} else {
		assert(c.base != d.base || c.end() == d.offset, "chunk: not contiguous")
		c.next = d
	}
	p.tailLast = d
	return d
}

// dirtied notes that n bytes were appended to c, the last chunk of p.
func (s *Set) dirtied(p *partition, c *chunk, n int) {
	if p.held {
		return // it is not written
	}
	s.dirtyBytes += int64(n)
	if c.evictable {
		s.clean.remove(c)
		s.dirtyCap += int64(cap(c.buf))
	}
	if p.dirty == nil {
		p.dirty = c
		s.linger(p)
	}
	if !p.touched {
		p.touched = true
		s.touched = append(s.touched, p)
	}
}

// linger gives p its time until it is written though no chunk is full.
func (s *Set) linger(p *partition) {
	if !p.lingering && !p.queued && p.writer == nil && !p.stalled {
		p.lingering = true
		p.dirtySince = s.now
		s.lingering.push(p)
	}
}

// trimLingering drops from the head of the queue who has nothing to wait for.
func (s *Set) trimLingering() {
	for !s.lingering.empty() {
		p := s.lingering.peek()
		if p.dirty != nil && !p.queued && p.writer == nil && !p.stalled && !p.dropped {
			return
		}
		s.lingering.pop().lingering = false
	}
}

func (s *Set) lingerDeadline() clock.Instant {
	if s.trimLingering(); s.lingering.empty() {
		return clock.Never
	}
	return s.lingering.peek().dirtySince.Add(s.o.Linger)
}

// evict keeps the caches within their budgets, oldest first.
func (s *Set) evict() {
	for s.clean.oldest != nil && s.clean.bytes+s.dirtyCap > s.o.TailBytesMax {
		c := s.clean.oldest
		p := c.p
		assert(p.tailFirst == c && p.dirty != c, "partition invariant 2: eviction out of order")
		p.tailFirst = c.next
		if p.tailFirst == nil {
			p.tailLast = nil
			if len(c.buf) < cap(c.buf)/4 && p.class > 0 {
				p.class--
			}
		}
		s.clean.remove(c)
		s.pool.put(c)
	}
	for s.cache.oldest != nil && s.cache.bytes > s.o.ReadCacheBytes {
		s.uncache(s.cache.oldest)
	}
}

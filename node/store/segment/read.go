package segment

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

const (
	// readersMax bounds the reads under way; more wait in order.
	readersMax = 32
	// descriptorsAfter is the pause of reads when the process had no descriptor.
	descriptorsAfter = 100 * clock.Millisecond
)

// readWanted is a read that waits for its turn.
type readWanted struct {
	p   *partition
	seq op.Sequence
}

// Read gives the record seq of a partition: from its tail in memory, from what
// was read before, or Pending. A hit is borrowed until Take.
func (s *Set) Read(topic op.TopicID, part op.PartitionID, seq op.Sequence) (format.Record, Status) {
	p := s.find(topic, part)
	if p == nil || seq == 0 || seq > p.last {
		return format.Record{}, Missing
	}
	if c := p.inMemory(seq); c != nil {
		return c.record(seq), Hit
	}
	if c := s.cachedWith(p, seq); c != nil {
		return c.record(seq), Hit
	}
	if p.isBad(seq) {
		return format.Record{}, Damaged
	}
	for _, r := range p.reading {
		if r == seq {
			return format.Record{}, Pending
		}
	}
	assert(p.segmentOf(seq) >= 0, "a record that is in no segment")
	p.reading = append(p.reading, seq)
	s.readQueue.push(readWanted{p, seq})
	return format.Record{}, Pending
}

// cachedWith finds the chunk that holds seq among those read from disk, and
// makes it the one used last.
func (s *Set) cachedWith(p *partition, seq op.Sequence) *chunk {
	var before *chunk
	for c := p.cached; c != nil; before, c = c, c.next {
		if !c.has(seq) {
			continue
		}
		if before != nil {
			before.next = c.next
			c.next = p.cached
			p.cached = c
		}
		if s.cache.youngest != c {
			s.cache.remove(c)
			s.cache.push(c)
		}
		return c
	}
	return nil
}

// cachedBefore finds a cached chunk of the segment base that ends right before
// seq: it says where seq lies.
func (p *partition) cachedBefore(base, seq op.Sequence) *chunk {
	for c := p.cached; c != nil; c = c.next {
		if c.base == base && c.last+1 == seq {
			return c
		}
	}
	return nil
}

// cacheChunk adds c, read from disk and checked.
func (s *Set) cacheChunk(c *chunk) {
	c.next = c.p.cached
	c.p.cached = c
	s.cache.push(c)
}

// uncache frees a chunk that was read from disk.
func (s *Set) uncache(c *chunk) {
	at := &c.p.cached
	for *at != c {
		assert(*at != nil, "a cached chunk is not in its partition's list")
		at = &(*at).next
	}
	*at = c.next
	s.cache.remove(c)
	s.pool.put(c)
}

func (s *Set) startReaders() {
	for s.readers < readersMax && !s.readQueue.empty() && s.now >= s.readsAt {
		want := s.readQueue.pop()
		if want.p.dropped {
			s.readDone(want.p, want.seq)
			continue
		}
		var r *reader
		if n := len(s.idleReaders); n > 0 {
			r = s.idleReaders[n-1]
			s.idleReaders = s.idleReaders[:n-1]
		} else {
			r = new(reader)
		}
		entries := r.run.entries[:0]
		probe := r.probe
		*r = reader{p: want.p, seq: want.seq, probe: probe}
		r.run.entries = entries
		r.p.tasks++
		s.readers++
		s.begin(r)
		r.advance(s)
	}
}

// readDone tells whoever waits that a read has ended, however.
func (s *Set) readDone(p *partition, seq op.Sequence) {
	for i, r := range p.reading {
		if r == seq {
			last := len(p.reading) - 1
			p.reading[i] = p.reading[last]
			p.reading = p.reading[:last]
			break
		}
	}
	s.emit(Event{Kind: EventReadReady, Topic: p.topic, Partition: p.part, Sequence: seq})
}

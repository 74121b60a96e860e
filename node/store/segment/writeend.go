package segment

import (
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
)

// again ends the writer and puts its partition at the end of the queue, so that
// a busy one does not hold up the others.
func (w *writer) again(s *Set) {
	p := w.p
	w.leave(s)
	s.enqueueWrite(p)
}

// finish ends the writer; what is left waits for company.
func (w *writer) finish(s *Set) {
	p := w.p
	w.leave(s)
	if p.dirty != nil {
		s.linger(p)
	}
}

// leave gives back what the writer holds.
func (w *writer) leave(s *Set) {
	p := w.p
	s.release(w.data)
	s.release(w.index)
	w.data, w.index, w.p = nil, nil, nil
	clear(w.pieces)
	p.writer = nil
	s.writers--
	s.end(w)
	s.idleWriters = append(s.idleWriters, w)
	s.leave(p)
}

// broke ends the writer after a failure, or because its partition or the whole
// set is no more.
func (w *writer) broke(s *Set, err disk.Errno) {
	p, step, path := w.p, w.step, w.p.path(w.segment, format.SegmentSuffix)
	made := w.segment <= p.made
	w.leave(s)
	switch {
	case p.dropped || s.failed:
	case step == writeSynced:
		s.fail(path, err)
	case err == disk.ErrNoSpace, err == disk.ErrTooManyFiles:
		s.stall(p, path, err)
	case step == writeOpened && err == disk.ErrNotExist && made:
		// It waits for the next start (invariant 9).
		p.stalled = true
		s.noteDamage(p, Damage{Path: path, Sequence: w.segment, What: "the segment is missing"}, w.segment, p.written)
	default:
		s.fail(path, err)
	}
}

// stall puts p aside until the next try.
func (s *Set) stall(p *partition, path string, err disk.Errno) {
	p.stalled = true
	s.stalled = append(s.stalled, p)
	s.retryAt = min(s.retryAt, s.now.Add(retryAfter))
	if !p.stalledOnce {
		p.stalledOnce = true
		s.emit(Event{Kind: EventStalled, Err: err, Topic: p.topic, Partition: p.part, Path: path})
	}
}

// fail ends the set (invariant 10).
func (s *Set) fail(path string, err disk.Errno) {
	if !s.failed {
		s.failed = true
		s.emit(Event{Kind: EventFailed, Err: err, Path: path})
	}
}

// dropTail frees the chunks of p. No writer may be at work on them.
func (s *Set) dropTail(p *partition) {
	assert(p.writer == nil, "a tail is dropped under its writer")
	for c := p.tailFirst; c != nil; {
		next := c.next
		switch {
		case p.held:
		case c.evictable:
			s.clean.remove(c)
		default:
			s.dirtyBytes -= int64(len(c.buf) - c.written)
			s.dirtyCap -= int64(cap(c.buf))
		}
		s.pool.put(c)
		c = next
	}
	p.tailFirst, p.tailLast, p.dirty = nil, nil, nil
}

// Flush makes everything appended so far durable; EventFlushed with token
// follows. Appends go on meanwhile. Flushes are answered in order.
func (s *Set) Flush(token uint64) {
	s.flushTokens.push(token)
	if !s.flushActive {
		s.startFlush()
	}
}

// startFlush marks every partition that has something to be written or synced.
func (s *Set) startFlush() {
	s.flushActive = true
	kept := s.touched[:0]
	for _, p := range s.touched {
		if p.dropped || p.dirty == nil && !p.unsynced {
			p.touched = false
			continue
		}
		kept = append(kept, p)
		p.flushing, p.flushTo = true, p.last
		s.flushPending++
		s.enqueueWrite(p)
	}
	clear(s.touched[len(kept):])
	s.touched = kept
	s.endFlush()
}

// flushedOne notes that p needs no more for the flush under way.
func (s *Set) flushedOne(p *partition) {
	p.flushing = false
	s.flushPending--
	s.endFlush()
}

// endFlush answers the flush under way if nothing is pending, and starts the
// next.
func (s *Set) endFlush() {
	if s.flushPending > 0 || !s.flushActive || s.failed {
		return
	}
	s.flushActive = false
	s.emit(Event{Kind: EventFlushed, Token: s.flushTokens.pop()})
	if !s.flushTokens.empty() {
		s.startFlush()
	}
}

package segment

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

const (
	// writersMax bounds the partitions that are written at a time.
	writersMax = 16
	// A round of a writer is at most so many chunks and bytes.
	roundChunksMax = 8
	roundBytesMax  = 4 << 20
	// retryAfter is the pause before a stalled write is tried again.
	retryAfter = clock.Second
)

type writeStep uint8

const (
	writeBegin writeStep = iota
	writeOpen
	writeOpened
	writeRound
	writeWritten
	writeSynced
)

// piece is a part of a chunk that a round writes: up to to.
type piece struct {
	c       *chunk
	to      int
	entries int // of the chunk, that will be in the index
}

// writer brings what is not written of one partition to its files, segment by
// segment, in rounds of a few chunks. A full segment is synced before the next
// one is begun, so at most one of a partition is unsynced.
type writer struct {
	task
	p           *partition
	step        writeStep
	segment     op.Sequence // its base
	data, index *file
	fresh       bool // this round makes the files' headers
	pieces      []piece
	buf         []byte // index entries of the round
	syncOnly    bool
}

func (s *Set) enqueueWrite(p *partition) {
	if !p.queued && p.writer == nil && !p.stalled && !p.held {
		p.queued = true
		s.writeQueue.push(p)
	}
}

// pressWriters starts the partitions that have waited longest when memory is
// full of what is not written.
func (s *Set) pressWriters() {
	for s.dirtyCap > s.o.TailBytesMax/2 {
		if s.trimLingering(); s.lingering.empty() {
			return
		}
		p := s.lingering.pop()
		p.lingering = false
		s.enqueueWrite(p)
		if s.writers+len(s.writeQueue.items)-s.writeQueue.first > 2*writersMax {
			return
		}
	}
}

func (s *Set) startWriters() {
	for s.writers < writersMax && !s.writeQueue.empty() && !s.failed {
		p := s.writeQueue.pop()
		p.queued = false
		if p.dropped {
			continue
		}
		var w *writer
		if n := len(s.idleWriters); n > 0 {
			w = s.idleWriters[n-1]
			s.idleWriters = s.idleWriters[:n-1]
		} else {
			w = new(writer)
		}
		w.p, w.step = p, writeBegin
		p.writer = w
		p.tasks++
		s.writers++
		s.begin(w)
		w.advance(s)
	}
}

func (s *Set) tickWriters() {
	if s.now >= s.retryAt {
		s.retryAt = clock.Never
		for i, p := range s.stalled {
			s.stalled[i] = nil
			p.stalled = false
			s.enqueueWrite(p)
		}
		s.stalled = s.stalled[:0]
	}
	for s.lingerDeadline() <= s.now {
		p := s.lingering.pop()
		p.lingering = false
		s.enqueueWrite(p)
	}
}

func (w *writer) completed(*Set, *disk.Completion) {}

func (w *writer) advance(s *Set) {
	for w.waiting == 0 && w.p != nil {
		err := w.takeErr()
		if err != disk.OK || w.p.dropped || s.failed {
			w.broke(s, err)
			return
		}
		switch w.step {
		case writeBegin:
			w.begin(s)
		case writeOpen:
			create := w.segment > w.p.made
			w.data = s.acquire(w, w.p, w.segment, false, create)
			w.index = s.acquire(w, w.p, w.segment, true, true) // one that vanished is rebuilt when it is needed
			w.step = writeOpened
		case writeOpened:
			w.opened(s)
		case writeRound:
			w.round(s)
		case writeWritten:
			w.written(s)
		case writeSynced:
			w.synced(s)
		}
	}
}

// begin chooses the segment to work on: one that is written but not synced goes
// first when the partition has moved on.
func (w *writer) begin(s *Set) {
	p := w.p
	switch {
	case p.unsynced && (p.dirty == nil || p.dirty.base != p.unsyncedBase):
		w.segment, w.syncOnly = p.unsyncedBase, true
	case p.dirty != nil:
		w.segment, w.syncOnly = p.dirty.base, false
	default:
		w.finish(s)
		return
	}
	w.step = writeOpen
	if w.segment > p.made && !p.dirMade {
		s.submit(w, disk.Request{Kind: disk.KindMkdir, Lane: disk.LaneBackground, Path: p.dir()})
	}
}

// opened empties files of a new segment that an earlier life left behind.
func (w *writer) opened(s *Set) {
	w.step = writeRound
	if w.segment <= w.p.made {
		return
	}
	if !w.p.dirMade {
		w.p.dirMade, w.p.newDir = true, true
	}
	w.p.newNames = true
	for _, f := range [...]*file{w.data, w.index} {
		if f.size > 0 {
			f.size = 0
			s.submit(w, disk.Request{Kind: disk.KindTruncate, Lane: disk.LaneBackground, Handle: f.handle})
		}
	}
}

// round submits the next writes of the segment, or its sync.
func (w *writer) round(s *Set) {
	if w.syncOnly {
		w.sync(s)
		return
	}
	p := w.p
	w.fresh = w.segment > p.made
	w.pieces, w.buf = w.pieces[:0], w.buf[:0]
	number, bytes := uint32(0), 0
	if w.fresh {
		h, err := format.DecodeSegmentHeader(p.dirty.buf)
		assert(err == nil && p.dirty.offset == 0, "a new segment does not begin with its header")
		var header [format.SegmentHeaderSize]byte
		w.buf = append(w.buf, header[:]...)
		h.PutIndex(w.buf)
	}
	counted := false
	for c := p.dirty; c != nil && c.base == w.segment && len(w.pieces) < roundChunksMax && bytes < roundBytesMax; c = c.next {
		buf := c.buf[c.written:]
		bytes += len(buf)
		s.submit(w, disk.Request{Kind: disk.KindWrite, Lane: disk.LaneBackground, Handle: w.data.handle, Offset: c.offset + int64(c.written), Buf: buf})
		for i := c.entriesDone; i < len(c.entries); i++ {
			if !counted {
				number, counted = c.entryFirst+uint32(i), true
			}
			w.buf = c.entries[i].Append(w.buf)
		}
		w.pieces = append(w.pieces, piece{c, len(c.buf), len(c.entries)})
	}
	if at := int64(format.SegmentHeaderSize) + int64(number)*format.IndexEntrySize; len(w.buf) > 0 {
		if w.fresh {
			at = 0
		}
		s.submit(w, disk.Request{Kind: disk.KindWrite, Lane: disk.LaneBackground, Handle: w.index.handle, Offset: at, Buf: w.buf})
	}
	w.step = writeWritten
}

// written takes the round's chunks as written.
func (w *writer) written(s *Set) {
	p := w.p
	seg := &p.segments[p.segmentOf(w.segment)]
	assert(seg.base == w.segment, "partition invariant 1: a writer without its segment")
	for _, pc := range w.pieces {
		c := pc.c
		s.dirtyBytes -= int64(pc.to - c.written)
		seg.size = c.offset + int64(pc.to)
		seg.entries += uint32(pc.entries - c.entriesDone)
		c.written, c.entriesDone = pc.to, pc.entries
		p.written = w.lastWritten(c)
		if c.written < len(c.buf) {
			break // appended to meanwhile; it is the last
		}
		s.dirtyCap -= int64(cap(c.buf))
		s.clean.push(c)
		p.dirty = c.next
	}
	if w.fresh {
		p.made = w.segment
	}
	p.unsynced, p.unsyncedBase = true, w.segment
	if p.stalledOnce {
		p.stalledOnce = false
		s.emit(Event{Kind: EventResumed, Topic: p.topic, Partition: p.part})
	}
	sealed := p.base > w.segment && (p.dirty == nil || p.dirty.base > w.segment)
	switch {
	case sealed, p.flushing && p.written >= p.flushTo:
		w.sync(s)
	case w.more(s):
		w.again(s)
	default:
		w.finish(s)
	}
}

// lastWritten gives the last sequence in c.buf[:c.written]: the records behind
// came while the round was under way.
func (w *writer) lastWritten(c *chunk) op.Sequence {
	if c.written == len(c.buf) {
		return c.last
	}
	rec, _ := format.ViewRecord(c.buf[c.written:])
	return rec.Sequence - 1
}

// more says whether something is to be written without further delay.
func (w *writer) more(s *Set) bool {
	p := w.p
	return p.dirty != nil && (p.dirty != p.tailLast || p.flushing && p.written < p.flushTo || s.dirtyCap > s.o.TailBytesMax/2)
}

// sync makes durable what is written of the segment, and the names that are
// new, from the file up.
func (w *writer) sync(s *Set) {
	p := w.p
	w.step = writeSynced
	if fault.On("segment_flush_without_sync") {
		return
	}
	s.submit(w, disk.Request{Kind: disk.KindSync, Lane: disk.LaneBackground, Handle: w.data.handle})
	s.submit(w, disk.Request{Kind: disk.KindSync, Lane: disk.LaneBackground, Handle: w.index.handle})
	if p.newNames {
		s.submit(w, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneBackground, Path: p.dir()})
	}
	if p.newDir {
		for dir := disk.Parent(p.dir()); ; dir = disk.Parent(dir) {
			s.submit(w, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneBackground, Path: dir})
			if dir == "" {
				break
			}
		}
	}
}

func (w *writer) synced(s *Set) {
	p := w.p
	assert(p.unsynced && p.unsyncedBase == w.segment, "partition invariant 4: synced what was not written")
	p.unsynced, p.newNames, p.newDir = false, false, false
	if p.flushing && p.written >= p.flushTo {
		s.flushedOne(p)
	}
	if w.more(s) || p.flushing {
		w.again(s)
		return
	}
	w.finish(s)
}

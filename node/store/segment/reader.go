package segment

import (
	"errors"

	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

type readStep uint8

const (
	readLocate readStep = iota
	readProbe
	readProbed
	readRebuilt
	readOpen
	readChunk
	readCheck
)

// reader brings the record seq of a partition into the cache, with what follows
// it: it finds where to begin - behind a cached chunk, or at an index entry -
// reads a chunk, and checks it up to seq and beyond.
type reader struct {
	task
	p    *partition
	seq  op.Sequence
	step readStep

	at          segment // as it was when the reader began
	segEnd      op.Sequence
	data, index *file

	// The search in the index, by entry number: the entry sought is in [low, high).
	low, high       uint32
	lowSeq, highSeq op.Sequence
	probeAt         uint32
	probeN          int
	probes          int
	probe           []byte
	fromIndex       bool // run began at entry, which nothing has confirmed yet
	entry           format.IndexEntry
	rebuild         *rebuild

	run     run
	c       *chunk
	want, n int
	retried bool
}

func (r *reader) completed(_ *Set, c *disk.Completion) {
	if c.Kind == disk.KindRead {
		r.n = int(c.N)
	}
}

func (r *reader) advance(s *Set) {
	for r.waiting == 0 && r.p != nil {
		err := r.takeErr()
		if r.p.dropped {
			r.finish(s)
			return
		}
		if err == disk.ErrTooManyFiles {
			s.readsAt = s.now.Add(descriptorsAfter)
			s.readQueue.push(readWanted{r.p, r.seq})
			r.leave(s)
			return
		}
		switch r.step {
		case readLocate:
			r.locate(s)
		case readProbe:
			r.startProbe(s, err)
		case readProbed:
			r.probed(s, err)
		case readRebuilt:
			r.rebuilt(s)
		case readOpen:
			r.openData(s)
		case readChunk:
			r.readChunk(s, err)
		case readCheck:
			r.check(s, err)
		}
	}
}

// locate says where to begin reading if that is known, or begins the search.
func (r *reader) locate(s *Set) {
	i := r.p.segmentOf(r.seq)
	r.at, r.segEnd = r.p.segments[i], r.p.segmentEnd(i)
	base := r.at.base
	if c := r.p.cachedBefore(base, r.seq); c != nil {
		r.startAt(c.end(), r.seq)
		return
	}
	if r.seq == base {
		r.startAt(format.SegmentHeaderSize, base)
		return
	}
	if r.at.entries == 0 {
		r.startRebuild(s)
		return
	}
	r.low, r.high, r.lowSeq, r.highSeq = 0, r.at.entries, base, r.segEnd+1
	r.index = s.acquire(r, r.p, base, true, false)
	r.step = readProbe
}

// startAt begins reading at the record next, which lies at offset.
func (r *reader) startAt(offset int64, next op.Sequence) {
	r.run.offset, r.run.next = offset, next
	r.step = readOpen
}

func (r *reader) openData(s *Set) {
	r.data = s.acquire(r, r.p, r.at.base, false, false)
	r.step = readChunk
}

// damaged ends the read: the record run.next, at run.offset, is unreadable, and
// so is what lies between it and seq.
func (r *reader) damaged(s *Set, offset int64, what string) {
	d := Damage{Path: r.p.path(r.at.base, format.SegmentSuffix), Offset: offset, Sequence: r.run.next, What: what}
	s.noteDamage(r.p, d, r.run.next, r.seq)
	r.finish(s)
}

// finish ends the read and tells who waits.
func (r *reader) finish(s *Set) {
	p, seq := r.p, r.seq
	r.leave(s)
	s.readDone(p, seq)
}

// leave gives back what the reader holds.
func (r *reader) leave(s *Set) {
	s.release(r.data)
	s.release(r.index)
	if r.c != nil {
		s.pool.put(r.c)
	}
	p := r.p
	r.data, r.index, r.c, r.p = nil, nil, nil, nil
	s.readers--
	s.end(r)
	s.idleReaders = append(s.idleReaders, r)
	s.leave(p)
}

// readChunk reads from run.offset on: a chunk, or the one record that is larger.
func (r *reader) readChunk(s *Set, err disk.Errno) {
	if err != disk.OK {
		what := "cannot be opened: " + err.String()
		if err == disk.ErrNotExist {
			what = "the segment is missing"
		}
		d := Damage{Path: r.p.path(r.at.base, format.SegmentSuffix), Sequence: r.at.base, What: what}
		s.noteDamage(r.p, d, r.at.base, r.segEnd)
		r.finish(s)
		return
	}
	left := r.at.size - r.run.offset
	if left <= 0 {
		d := Damage{Path: r.p.path(r.run.next, format.SegmentSuffix), Sequence: r.run.next, What: "the segment is missing"}
		s.noteDamage(r.p, d, r.run.next, r.segEnd)
		r.finish(s)
		return
	}
	size := int(min(left, int64(max(s.o.ReadChunk, r.want))))
	if r.c != nil && cap(r.c.buf) < size {
		s.pool.put(r.c)
		r.c = nil
	}
	if r.c == nil {
		r.c = s.pool.get(classFor(size))
		r.c.p = r.p
	}
	r.c.buf = r.c.buf[:size]
	s.submit(r, disk.Request{Kind: disk.KindRead, Lane: disk.LaneRead, Handle: r.data.handle, Offset: r.run.offset, Buf: r.c.buf})
	r.step = readCheck
}

// check looks at what was read, and goes on as long as seq is beyond it.
func (r *reader) check(s *Set, err disk.Errno) {
	if err != disk.OK {
		if !r.retried {
			r.retried = true
			r.step = readChunk
			return
		}
		r.damaged(s, r.run.offset, "cannot be read: "+err.String())
		return
	}
	start, first := r.run.offset, r.run.next
	b := r.c.buf[:r.n]
	short := r.n < len(r.c.buf)
	used, bad := r.run.check(b)
	if r.run.next > r.seq {
		c := r.c
		r.c = nil
		c.buf = c.buf[:used]
		c.base, c.offset, c.first, c.last, c.written = r.at.base, start, first, r.run.next-1, used
		c.entries = append(c.entries, r.run.entries...)
		s.cacheChunk(c)
		r.finish(s)
		return
	}
	partial := errors.Is(bad, format.ErrRecordShort)
	switch {
	case r.fromIndex && used == 0 && !partial, r.fromIndex && r.run.offset >= int64(r.entry.Offset)+format.IndexInterval:
		r.startRebuild(s) // the index is wrong there, or the record: a walk tells
	case short && (bad == nil || partial):
		r.damaged(s, start+int64(r.n), "the segment ends early")
	case bad != nil && !partial:
		r.damaged(s, r.run.offset, bad.Error())
	default:
		r.goOn(s, b[used:])
	}
}

// goOn reads on behind what was checked, rest being the beginning of a record
// that was cut.
func (r *reader) goOn(s *Set, rest []byte) {
	r.want = 0
	if len(rest) > 0 {
		if n, err := format.RecordSize(rest); err == nil {
			r.want = n
		}
		if int64(r.want) > r.at.size-r.run.offset || len(r.c.buf) == int(r.at.size-r.run.offset) && r.want == 0 {
			if r.fromIndex && r.run.next == r.entry.Sequence {
				r.startRebuild(s)
				return
			}
			r.damaged(s, r.run.offset, format.ErrRecordLength.Error())
			return
		}
	}
	r.run.entries = r.run.entries[:0]
	r.step = readChunk
}

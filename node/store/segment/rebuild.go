package segment

import (
	"sort"

	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

type rebuildStep uint8

const (
	rebuildOpen rebuildStep = iota
	rebuildRead
	rebuildTake
	rebuildHint
	rebuildWrite
	rebuildClose
	rebuildEnd
)

// rebuild walks through a segment to make its index anew, for those who found
// it missing or wrong. They wait until the walk is done; writing the index file
// is for the next who needs it, and its failures are nobody's: it is a hint.
type rebuild struct {
	task
	p       *partition
	at      segment
	step    rebuildStep
	data    *file
	scan    scan
	n       int
	bridge  bridge
	bad     string // what ended the walk early
	busy    bool   // it could not begin: no descriptor was left
	walked  bool
	persist bool
	late    bool // who waits does so until the index is written
	retried bool
	waiters []worker
	handle  disk.Handle
	image   []byte // the index file
	written bool
}

// joinRebuild has the segment at walked through, or joins a walk under way; w
// waits until it is done. An active segment's index file is left to its writer.
func (s *Set) joinRebuild(w worker, p *partition, at segment) *rebuild {
	return s.rebuildUpTo(w, p, at, at.size, false)
}

func (s *Set) rebuildUpTo(w worker, p *partition, at segment, limit int64, late bool) *rebuild {
	for _, b := range s.rebuilds {
		if b.p == p && b.at.base == at.base {
			if !b.walked || b.late {
				b.waiters = append(b.waiters, w)
				w.base().waiting++
			}
			return b
		}
	}
	b := &rebuild{p: p, at: at, persist: (late || p.finished(at.base)) && !p.held, late: late, waiters: []worker{w}}
	b.scan.start(p, at, limit)
	w.base().waiting++
	s.rebuilds = append(s.rebuilds, b)
	p.tasks++
	s.begin(b)
	b.advance(s)
	return b
}

// find gives the entry at or before seq, which lies in what was walked.
func (b *rebuild) find(seq op.Sequence) format.IndexEntry {
	entries := b.scan.run.entries
	i := sort.Search(len(entries), func(i int) bool { return entries[i].Sequence > seq })
	assert(i > 0 && seq < b.scan.run.next, "rebuild: a sequence that was not walked over")
	return entries[i-1]
}

// damage tells what ended the walk; where nothing did, that records are missing
// behind it.
func (b *rebuild) damage() Damage {
	r := &b.scan.run
	if b.bad == "" {
		return Damage{Path: b.p.path(r.next, format.SegmentSuffix), Sequence: r.next, What: "the segment is missing"}
	}
	return Damage{Path: b.p.path(b.at.base, format.SegmentSuffix), Offset: r.offset, Sequence: r.next, What: b.bad}
}

func (b *rebuild) completed(_ *Set, c *disk.Completion) {
	switch {
	case c.Kind != disk.KindRead:
	case b.step == rebuildHint:
		b.bridge.n = int(c.N)
	default:
		b.n = int(c.N)
	}
}

func (b *rebuild) advance(s *Set) {
	for b.waiting == 0 {
		err := b.takeErr()
		switch b.step {
		case rebuildOpen:
			b.data = s.acquire(b, b.p, b.at.base, false, false)
			b.step = rebuildRead
		case rebuildRead:
			switch {
			case err == disk.ErrTooManyFiles:
				b.busy = true
				b.done(s)
			case err == disk.ErrNotExist:
				b.bad = "the segment is missing"
				b.done(s)
			case err != disk.OK:
				b.bad = "cannot be opened: " + err.String()
				b.done(s)
			case b.p.dropped || !b.scan.next(s, b, b.data.handle):
				b.done(s)
			default:
				b.step = rebuildTake
			}
		case rebuildTake:
			b.step = rebuildRead
			if err != disk.OK && !b.retried {
				b.retried = true
				continue
			}
			if what := b.scan.take(s.o.ClusterID, b.n, err); what != "" {
				b.stopped(s, what)
			}
		case rebuildHint:
			b.hint(s, err)
		case rebuildWrite:
			b.write(s, err)
		case rebuildClose:
			b.written = err == disk.OK
			s.submit(b, disk.Request{Kind: disk.KindClose, Lane: disk.LaneBackground, Handle: b.handle})
			b.step = rebuildEnd
		case rebuildEnd:
			b.end(s)
			return
		}
	}
}

// done ends the walk, and begins writing the index: unless damage ended the walk
// before the end of what the file says, which may be right.
func (b *rebuild) done(s *Set) {
	b.walked = true
	s.release(b.data)
	s.release(b.bridge.index)
	b.data, b.bridge.index = nil, nil
	entries := b.scan.run.entries
	b.persist = b.persist && !b.busy && !b.p.dropped && len(entries) > 0 && (b.bad == "" || !b.late && len(entries) >= int(b.at.entries))
	b.step = rebuildEnd
	if b.persist {
		b.step = rebuildWrite
		b.handle = s.newHandle()
		s.submit(b, disk.Request{Kind: disk.KindOpen, Lane: disk.LaneBackground, Flags: disk.FlagCreate, Handle: b.handle, Path: b.p.path(b.at.base, format.IndexSuffix)})
	}
	if !b.late {
		b.wakeAll(s)
	}
}

func (b *rebuild) wakeAll(s *Set) {
	waiters := b.waiters
	b.waiters = nil
	for _, w := range waiters {
		s.wake(w, disk.OK)
	}
}

func (b *rebuild) write(s *Set, err disk.Errno) {
	if err != disk.OK {
		s.freeHandle(b.handle)
		b.step = rebuildEnd
		return
	}
	var header [format.SegmentHeaderSize]byte
	h := format.SegmentHeader{Topic: b.p.topic, Partition: b.p.part, Base: b.at.base, ClusterID: s.o.ClusterID, Created: b.scan.run.entries[0].Timestamp}
	h.PutIndex(header[:])
	b.image = append(b.image, header[:]...)
	for i := range b.scan.run.entries {
		b.image = b.scan.run.entries[i].Append(b.image)
	}
	for _, r := range [...]disk.Request{
		{Kind: disk.KindWrite, Buf: b.image},
		{Kind: disk.KindTruncate, Offset: int64(len(b.image))},
		{Kind: disk.KindSync},
	} {
		r.Lane, r.Handle = disk.LaneBackground, b.handle
		s.submit(b, r)
	}
	b.step = rebuildClose
}

func (b *rebuild) end(s *Set) {
	if b.image != nil {
		s.freeHandle(b.handle)
	}
	if b.written {
		if i := b.p.segmentOf(b.at.base); i >= 0 && b.p.segments[i].base == b.at.base {
			b.p.segments[i].entries = uint32(len(b.scan.run.entries))
		}
		s.emit(Event{Kind: EventIndexRebuilt, Topic: b.p.topic, Partition: b.p.part, Path: b.p.path(b.at.base, format.IndexSuffix)})
	}
	for i := range s.rebuilds {
		if s.rebuilds[i] == b {
			s.rebuilds = append(s.rebuilds[:i], s.rebuilds[i+1:]...)
			break
		}
	}
	b.wakeAll(s)
	s.end(b)
	s.leave(b.p)
}

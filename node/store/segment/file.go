package segment

import (
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

type fileKey struct {
	part  uint32
	base  op.Sequence
	index bool
}

// file is an open segment or index. Handles carry the owner in their high byte,
// so that several users of one disk do not meet.
//
// Invariants:
//
//  1. A file with users is not closed; one without is in the idle list, or is
//     closing, or is gone.
//  2. A handle number is free again only when its Close has completed.
type file struct {
	task
	key     fileKey
	p       *partition
	handle  disk.Handle
	size    int64 // when it was opened
	users   int
	open    bool
	dead    bool // could not be opened
	closing bool
	waiters []worker

	newer, older *file // idle list
	idle         bool
}

// acquire gives the file, open or opening; w waits for it. Whoever acquires
// releases, also when w.err says that it could not be opened.
func (s *Set) acquire(w worker, p *partition, base op.Sequence, index, create bool) *file {
	k := fileKey{p.key(), base, index}
	f := s.files[k]
	if f == nil {
		f = &file{key: k, p: p, handle: s.newHandle()}
		s.files[k] = f
		s.begin(f)
		suffix := format.SegmentSuffix
		if index {
			suffix = format.IndexSuffix
		}
		r := disk.Request{Kind: disk.KindOpen, Lane: disk.LaneRead, Handle: f.handle, Path: p.path(base, suffix)}
		if create {
			r.Lane, r.Flags = disk.LaneBackground, disk.FlagCreate
		} else if p.finished(base) {
			r.Flags = disk.FlagReadOnly
		}
		s.submit(f, r)
	}
	if f.idle {
		s.unidle(f)
	}
	f.users++
	if !f.open {
		f.waiters = append(f.waiters, w)
		w.base().waiting++
	}
	return f
}

// release gives up one use of f; nil is nothing.
func (s *Set) release(f *file) {
	if f == nil {
		return
	}
	f.users--
	assert(f.users >= 0, "a file released twice")
	switch {
	case f.users > 0:
	case f.dead:
		s.end(f)
		s.freeHandle(f.handle)
	case f.p.dropped:
		s.closeFile(f)
	default:
		s.idleFile(f)
		for len(s.files) > s.o.HandlesMax && s.idleOldest != nil {
			oldest := s.idleOldest
			s.unidle(oldest)
			s.closeFile(oldest)
		}
	}
}

func (s *Set) closeFile(f *file) {
	assert(f.users == 0 && f.open && !f.closing, "file invariant 1")
	f.closing = true
	delete(s.files, f.key)
	s.submit(f, disk.Request{Kind: disk.KindClose, Lane: disk.LaneRead, Handle: f.handle})
}

func (f *file) completed(s *Set, c *disk.Completion) {
	if f.closing {
		return
	}
	if c.Err != disk.OK {
		f.dead = true
		delete(s.files, f.key)
		return
	}
	f.open, f.size = true, c.N
}

func (f *file) advance(s *Set) {
	if f.closing {
		s.end(f)
		s.freeHandle(f.handle)
		return
	}
	err := f.takeErr()
	waiters := f.waiters
	f.waiters = nil
	for _, w := range waiters {
		s.wake(w, err)
	}
}

func (s *Set) idleFile(f *file) {
	f.idle = true
	f.older, f.newer = s.idleNewest, nil
	if s.idleNewest != nil {
		s.idleNewest.newer = f
	} else {
		s.idleOldest = f
	}
	s.idleNewest = f
}

func (s *Set) unidle(f *file) {
	assert(f.idle, "file: not idle")
	f.idle = false
	if f.older != nil {
		f.older.newer = f.newer
	} else {
		s.idleOldest = f.newer
	}
	if f.newer != nil {
		f.newer.older = f.older
	} else {
		s.idleNewest = f.older
	}
	f.older, f.newer = nil, nil
}

// closeIdle closes the idle files of p.
func (s *Set) closeIdle(p *partition) {
	for _, seg := range p.segments {
		for _, index := range [...]bool{false, true} {
			if f := s.files[fileKey{p.key(), seg.base, index}]; f != nil && f.idle {
				s.unidle(f)
				s.closeFile(f)
			}
		}
	}
}

func (s *Set) newHandle() disk.Handle {
	if n := len(s.freeHandles); n > 0 {
		h := s.freeHandles[n-1]
		s.freeHandles = s.freeHandles[:n-1]
		return h
	}
	s.handles++
	assert(s.handles < 1<<24, "out of handles")
	return disk.Handle(s.o.Owner)<<24 | disk.Handle(s.handles)
}

func (s *Set) freeHandle(h disk.Handle) { s.freeHandles = append(s.freeHandles, h) }

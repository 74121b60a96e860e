package segment

import (
	"errors"
	"slices"
	"sort"

	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/node/format"
)

// listed takes the partition's state from its position and the names of its
// files.
func (r *restorer) listed(s *Set, err disk.Errno) {
	p, pos := r.p, r.pos
	switch {
	case notDamage(err):
		s.fail(p.dir(), err)
		r.finish(s)
		return
	case err == disk.ErrIO, err == disk.ErrInvalid, err == disk.ErrNotExist && pos.Base > 0:
		r.unlisted(s, err)
		return
	}
	r.sortNames(s)
	if pos.Base == 0 {
		r.step = restoreCut
		return
	}
	p.segments = append(p.segments, segment{base: pos.Base, size: pos.Offset})
	if first := p.segments[0].base; first > 1 {
		s.noteDamage(p, Damage{Path: p.path(1, format.SegmentSuffix), Sequence: 1, What: "the segment is missing"}, 1, first-1)
	}
	switch {
	case slices.Contains(r.irregular, pos.Base):
		r.damaged(s, Damage{Path: r.path(), Sequence: pos.Base, What: disk.ErrNotRegular.String()})
	case r.dataSize < 0:
		r.damaged(s, Damage{Path: r.path(), Sequence: pos.Base, What: "the segment is missing"})
	case r.dataSize < pos.Offset:
		r.damaged(s, Damage{Path: r.path(), Offset: r.dataSize, Sequence: pos.Last, What: "the segment ends early"})
	default:
		r.high = entriesIn(r.indexSize)
		r.data = s.acquire(r, p, pos.Base, false, false)
		if r.high > 0 {
			r.index = s.acquire(r, p, pos.Base, true, false)
		}
		r.step = restoreProbe
	}
}

// unlisted ends the recovery of a partition of which no segment is known to be
// there.
func (r *restorer) unlisted(s *Set, err disk.Errno) {
	d := Damage{Path: r.p.dir(), Sequence: 1, What: "cannot be listed: " + err.String()}
	switch err {
	case disk.ErrNotExist:
		d.Path, d.What = r.p.path(1, format.SegmentSuffix), "the partition's directory is missing"
	case disk.ErrInvalid:
		d.What = "is not a directory"
	}
	if r.pos.Base > 0 {
		r.p.segments = append(r.p.segments, segment{base: r.pos.Base})
	}
	s.noteDamage(r.p, d, 1, r.pos.Last)
	r.hold()
}

// notDamage says that a file or directory could not be looked at for a reason
// that says nothing of what is in it: no descriptor was left, or the user has no
// right to it. The start ends there.
func notDamage(err disk.Errno) bool {
	return err != disk.OK && err != disk.ErrIO && err != disk.ErrNotExist && err != disk.ErrInvalid && err != disk.ErrNotRegular
}

// entriesIn gives how many whole entries an index file of size bytes may hold.
func entriesIn(size int64) uint32 {
	return uint32(max(0, size-format.SegmentHeaderSize) / format.IndexEntrySize)
}

// sortNames sorts the names in the directory into sealed segments, the active
// one, and what is later than the checkpoint. Other names are left alone.
func (r *restorer) sortNames(s *Set) {
	p := r.p
	var indexes []segment
	for _, e := range r.names {
		base, index, ok := format.ParseSegmentName(e.Name)
		switch {
		case !ok || e.Dir:
		case base > r.pos.Base:
			r.later = append(r.later, p.dir()+"/"+e.Name)
		case e.Irregular && index:
			r.later = append(r.later, p.dir()+"/"+e.Name) // it is made anew
		case e.Irregular && base == r.pos.Base:
			r.irregular = append(r.irregular, base)
		case base == r.pos.Base && index:
			r.indexSize = e.Size
		case base == r.pos.Base:
			r.dataSize = e.Size
		case index:
			indexes = append(indexes, segment{base: base, size: e.Size})
		default:
			if e.Irregular {
				e.Size = 0
				r.irregular = append(r.irregular, base)
			}
			p.segments = append(p.segments, segment{base: base, size: e.Size})
		}
	}
	sort.Slice(p.segments, func(i, j int) bool { return p.segments[i].base < p.segments[j].base })
	for i, seg := range p.segments {
		if seg.size < format.SegmentHeaderSize+format.RecordHeaderSize {
			end := r.pos.Base - 1
			if i+1 < len(p.segments) {
				end = p.segments[i+1].base - 1
			}
			what := "the segment ends early"
			if slices.Contains(r.irregular, seg.base) {
				what = disk.ErrNotRegular.String()
			}
			s.noteDamage(p, Damage{Path: p.path(seg.base, format.SegmentSuffix), Offset: seg.size, Sequence: seg.base, What: what}, seg.base, end)
		}
	}
	for _, x := range indexes {
		i := sort.Search(len(p.segments), func(i int) bool { return p.segments[i].base >= x.base })
		if i < len(p.segments) && p.segments[i].base == x.base {
			p.segments[i].entries = entriesIn(x.size)
			continue
		}
		end := r.pos.Base - 1
		if i < len(p.segments) {
			end = p.segments[i].base - 1
		}
		s.noteDamage(p, Damage{Path: p.path(x.base, format.SegmentSuffix), Sequence: x.base, What: "the segment is missing"}, x.base, end)
	}
}

// startProbe reads the header of the active segment and the last piece of its
// index that was not seen yet.
func (r *restorer) startProbe(s *Set, err disk.Errno) {
	switch {
	case err == disk.ErrTooManyFiles, !r.data.open && notDamage(err):
		s.fail(r.path(), err)
		r.finish(s)
		return
	case err != disk.OK && !r.data.open:
		r.damaged(s, Damage{Path: r.path(), Sequence: r.pos.Base, What: "cannot be opened: " + err.String()})
		return
	case err != disk.OK:
		r.high = 0
	}
	s.submit(r, disk.Request{Kind: disk.KindRead, Lane: disk.LaneRead, Handle: r.data.handle, Buf: r.header[:]})
	r.reads = [3]int{}
	r.entries = r.entries[:0]
	if r.high > 0 {
		n := min(r.high, probeEntries)
		r.low = r.high - n
		r.entries = make([]byte, n*format.IndexEntrySize)
		at := format.SegmentHeaderSize + int64(r.low)*format.IndexEntrySize
		s.submit(r, disk.Request{Kind: disk.KindRead, Lane: disk.LaneRead, Handle: r.index.handle, Offset: at, Buf: r.entries})
	}
	r.step = restoreProbed
}

// probed checks the header, finds the last index entry before the position, and
// reads the segment from there to the position.
func (r *restorer) probed(s *Set, err disk.Errno) {
	p := r.p
	what := checkHeader(r.header[:r.reads[0]], p, segment{base: r.pos.Base}, s.o.ClusterID)
	if what != "" {
		if err != disk.OK {
			what = "cannot be read: " + err.String()
		}
		_, version := format.DecodeSegmentHeader(r.header[:])
		var tooNew *format.VersionError
		r.damaged(s, Damage{Path: r.path(), Sequence: r.pos.Base, What: what, TooNew: errors.As(version, &tooNew)})
		return
	}
	n := r.reads[1] / format.IndexEntrySize
	if r.high == 0 || err != disk.OK || n*format.IndexEntrySize < len(r.entries) {
		r.startRebuild(s)
		return
	}
	for i := n - 1; i >= 0; i-- {
		e, err := format.DecodeIndexEntry(r.entries[i*format.IndexEntrySize:])
		if err != nil || int64(e.Offset) >= r.pos.Offset {
			continue
		}
		size := r.pos.Offset - int64(e.Offset)
		if size >= format.IndexInterval+format.RecordBytesMax || e.Sequence > r.pos.Last {
			break
		}
		p.entries, p.indexed = r.low+uint32(i)+1, e.Offset
		r.run = run{offset: int64(e.Offset), next: e.Sequence}
		r.chunk = s.pool.get(classFor(int(size)))
		r.chunk.p = p
		r.chunk.buf = r.chunk.buf[:size]
		s.submit(r, disk.Request{Kind: disk.KindRead, Lane: disk.LaneRead, Handle: r.data.handle, Offset: int64(e.Offset), Buf: r.chunk.buf})
		r.step = restoreTail
		return
	}
	if r.low == 0 {
		r.startRebuild(s)
		return
	}
	r.high = r.low
	r.step = restoreProbe
}

// tail checks that the records from the last index entry on end exactly at the
// position, and that no entry is missing.
func (r *restorer) tail(s *Set, err disk.Errno) {
	if err == disk.OK && r.reads[2] == len(r.chunk.buf) {
		_, bad := r.run.check(r.chunk.buf)
		if bad == nil && r.run.next == r.pos.Last+1 && len(r.run.entries) == 1 {
			r.step = restoreCut
			return
		}
	}
	r.startRebuild(s)
}

// startRebuild has the active segment walked through up to the position: the
// walk tells whether the index or the segment is wrong.
func (r *restorer) startRebuild(s *Set) {
	r.rebuild = s.rebuildUpTo(r, r.p, segment{base: r.pos.Base, size: r.pos.Offset}, r.pos.Offset, true)
	r.step = restoreRebuild
}

func (r *restorer) rebuilt(s *Set) {
	b := r.rebuild
	run := &b.scan.run
	switch {
	case b.busy:
		s.fail(r.path(), disk.ErrTooManyFiles)
		r.finish(s)
		return
	case b.bad != "":
		r.damaged(s, b.damage())
		return
	case run.next != r.pos.Last+1 || run.offset != r.pos.Offset:
		r.damaged(s, Damage{Path: r.path(), Offset: run.offset, Sequence: min(run.next, r.pos.Last), What: "the segment does not end where the checkpoint says"})
		return
	}
	r.p.entries, r.p.indexed = uint32(len(run.entries)), run.indexed
	r.indexSize = -1 // as it has to be
	r.step = restoreCut
}

// cut removes what is later than the position, and syncs what it changed.
func (r *restorer) cut(s *Set) {
	p := r.p
	r.step = restoreDone
	if p.base > 0 {
		p.segments[len(p.segments)-1].entries = p.entries
		r.truncate(s, r.data, r.dataSize, r.pos.Offset, format.SegmentSuffix)
		if r.index != nil && r.indexSize >= 0 {
			r.truncate(s, r.index, r.indexSize, format.SegmentHeaderSize+int64(p.entries)*format.IndexEntrySize, format.IndexSuffix)
		}
	}
	r.removeLater(s)
}

// removeLater removes the files that are later than the position.
func (r *restorer) removeLater(s *Set) {
	p := r.p
	for _, path := range r.later {
		s.emit(Event{Kind: EventCut, Topic: p.topic, Partition: p.part, Path: path})
		s.submit(r, disk.Request{Kind: disk.KindRemove, Lane: disk.LaneBackground, Path: path})
	}
	if len(r.later) > 0 {
		s.submit(r, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneBackground, Path: p.dir()})
	}
}

func (r *restorer) truncate(s *Set, f *file, size, to int64, suffix string) {
	if size <= to || fault.On("segment_not_cut") {
		return
	}
	s.emit(Event{Kind: EventCut, Topic: r.p.topic, Partition: r.p.part, Path: r.p.path(r.pos.Base, suffix), Offset: to})
	s.submit(r, disk.Request{Kind: disk.KindTruncate, Lane: disk.LaneBackground, Handle: f.handle, Offset: to})
	s.submit(r, disk.Request{Kind: disk.KindSync, Lane: disk.LaneBackground, Handle: f.handle})
}

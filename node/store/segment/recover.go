package segment

import (
	"sort"

	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

// restorersMax bounds the partitions that are recovered at a time.
const restorersMax = 32

// recovery cuts all partitions back to their positions, and then removes the
// directories of topics that are not known, or what is in their place. It can be cut off anywhere and
// started again: everything it does leads to the same end.
type recovery struct {
	task
	positions     []Position
	next, active  int
	removeUnknown bool
	orphans       []string
	listed        bool
}

// Recover cuts every partition back to its position and makes the partitions of
// positions, which are in order, known. With removeUnknown, directories of other
// topics are removed: say so only if the metadata is intact. EventRecovered
// follows; nothing else may be called before it but Take, Complete, Next and
// Tick. What it costs does not depend on what is stored.
func (s *Set) Recover(positions []Position, removeUnknown bool) {
	assert(len(s.order) == 0 && s.recovery == nil, "Recover is the first call")
	r := &recovery{positions: positions, removeUnknown: removeUnknown}
	for i, pos := range positions {
		assert(i == 0 || key(positions[i-1].Topic, positions[i-1].Partition) < key(pos.Topic, pos.Partition), "positions out of order")
		s.add(&partition{
			topic: pos.Topic, part: pos.Partition, last: pos.Last, base: pos.Base, offset: pos.Offset,
			written: pos.Last, made: pos.Base, dirMade: pos.Base > 0,
		})
	}
	s.recovery = r
	s.begin(r)
	r.advance(s)
}

func (r *recovery) completed(s *Set, c *disk.Completion) {
	for _, e := range c.Entries {
		topic, ok := format.ParseNumber(e.Name)
		if !ok || topic > 1<<16-1 {
			continue
		}
		i := sort.Search(len(r.positions), func(i int) bool { return uint64(r.positions[i].Topic) >= topic })
		if i == len(r.positions) || uint64(r.positions[i].Topic) != topic {
			r.orphans = append(r.orphans, format.TopicsDir+"/"+e.Name)
		}
	}
}

func (r *recovery) advance(s *Set) {
	for r.waiting == 0 {
		r.takeErr()
		switch {
		case r.next < len(r.positions) && r.active < restorersMax:
			pos := r.positions[r.next]
			r.next++
			r.active++
			s.restore(r, pos)
		case r.active > 0:
			return
		case r.removeUnknown && !r.listed:
			r.listed = true
			s.submit(r, disk.Request{Kind: disk.KindList, Lane: disk.LaneRead, Path: format.TopicsDir})
		case len(r.orphans) > 0:
			dir := r.orphans[len(r.orphans)-1]
			r.orphans = r.orphans[:len(r.orphans)-1]
			s.emit(Event{Kind: EventCut, Path: dir})
			s.remove(dir, nil, r)
		default:
			s.end(r)
			s.recovery = nil
			s.scrub.init(s) // there is something to verify now
			s.emit(Event{Kind: EventRecovered})
			return
		}
	}
}

type restoreStep uint8

const (
	restoreList restoreStep = iota
	restoreListed
	restoreProbe
	restoreProbed
	restoreTail
	restoreRebuild
	restoreCut
	restoreDone
)

// restorer recovers one partition: it looks at the names, checks the header of
// the active segment and its end as far back as the index says, and cuts it.
// Nothing is cut before all that was found good.
type restorer struct {
	task
	recovery *recovery
	p        *partition
	pos      Position
	step     restoreStep

	names               []disk.Entry
	later               []string
	dataSize, indexSize int64 // of the active segment, -1: missing
	data, index         *file
	irregular           []op.Sequence // segments that are no files

	header  [format.SegmentHeaderSize]byte
	entries []byte // a piece of the index
	low     uint32 // its first entry
	high    uint32 // entries of the index that may still be the last one
	reads   [3]int
	chunk   *chunk
	run     run
	rebuild *rebuild
}

func (s *Set) restore(r *recovery, pos Position) {
	w := &restorer{recovery: r, p: s.find(pos.Topic, pos.Partition), pos: pos, dataSize: -1, indexSize: -1}
	w.p.tasks++
	s.begin(w)
	w.advance(s)
}

func (r *restorer) completed(_ *Set, c *disk.Completion) {
	switch c.Kind {
	case disk.KindList:
		r.names = c.Entries
	case disk.KindRead:
		switch {
		case len(c.Buf) == format.SegmentHeaderSize && &c.Buf[0] == &r.header[0]:
			r.reads[0] = int(c.N)
		case len(r.entries) > 0 && &c.Buf[0] == &r.entries[0]:
			r.reads[1] = int(c.N)
		default:
			r.reads[2] = int(c.N)
		}
	}
}

func (r *restorer) advance(s *Set) {
	for r.waiting == 0 && r.p != nil {
		err := r.takeErr()
		switch r.step {
		case restoreList:
			s.submit(r, disk.Request{Kind: disk.KindList, Lane: disk.LaneRead, Path: r.p.dir()})
			r.step = restoreListed
		case restoreListed:
			r.listed(s, err)
		case restoreProbe:
			r.startProbe(s, err)
		case restoreProbed:
			r.probed(s, err)
		case restoreTail:
			r.tail(s, err)
		case restoreRebuild:
			r.rebuilt(s)
		case restoreCut:
			r.cut(s)
		case restoreDone:
			if err != disk.OK {
				s.fail(r.p.dir(), err)
			}
			r.finish(s)
		}
	}
}

// damaged ends the recovery of a partition that does not end as its position says.
func (r *restorer) damaged(s *Set, d Damage) {
	s.noteDamage(r.p, d, r.pos.Base, r.pos.Last)
	r.hold()
}

// hold ends it with all of the partition as it is: what comes behind the position is
// held.
func (r *restorer) hold() {
	r.p.held, r.p.heldAt = true, r.pos
	r.step = restoreDone
}

func (r *restorer) finish(s *Set) {
	s.release(r.data)
	s.release(r.index)
	if r.chunk != nil {
		s.pool.put(r.chunk)
	}
	p := r.p
	r.p = nil
	s.end(r)
	s.leave(p)
	r.recovery.active--
	if r.recovery.waiting == 0 {
		r.recovery.advance(s)
	}
}

func (r *restorer) path() string { return r.p.path(r.pos.Base, format.SegmentSuffix) }

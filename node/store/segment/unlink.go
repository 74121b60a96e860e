package segment

import (
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store/flight"
)

// removeBatch bounds the requests of a removal that are under way.
const removeBatch = 64

// grave is a topic that was dropped and whose files are still there.
type grave struct {
	topic      op.TopicID
	partitions []*partition
	wanted     bool // Unlink was called
	removing   bool
}

// DropTopic stops serving all partitions of topic. Their files stay until Unlink.
func (s *Set) DropTopic(topic op.TopicID) {
	g := &grave{topic: topic}
	kept := s.order[:0]
	for _, p := range s.order {
		if p.topic != topic {
			kept = append(kept, p)
			continue
		}
		delete(s.index, p.key())
		p.dropped = true
		g.partitions = append(g.partitions, p)
	}
	clear(s.order[len(kept):])
	s.order = kept
	for _, p := range g.partitions {
		s.dropPartition(p)
	}
	s.graves = append(s.graves, g)
}

// dropPartition frees what memory holds of p, but for what a writer has lent to
// the disk: that is freed when it leaves.
func (s *Set) dropPartition(p *partition) {
	for p.cached != nil {
		s.uncache(p.cached)
	}
	if p.writer == nil {
		s.dropTail(p)
	}
	s.closeIdle(p)
	if p.flushing {
		s.flushedOne(p)
	}
}

// leave notes that a worker on p's files has ended.
func (s *Set) leave(p *partition) {
	p.tasks--
	assert(p.tasks >= 0, "more workers left a partition than came")
	if p.dropped && p.tasks == 0 {
		s.dropPartition(p)
		s.unlinkReady()
	}
}

// Unlink removes the files of every topic dropped so far; EventUnlinked follows.
func (s *Set) Unlink() {
	for _, g := range s.graves {
		g.wanted = true
	}
	if len(s.graves) == 0 {
		s.emit(Event{Kind: EventUnlinked})
		return
	}
	s.unlinkReady()
}

// unlinkReady starts the removal of what nobody works on any more.
func (s *Set) unlinkReady() {
	for _, g := range s.graves {
		if !g.wanted || g.removing {
			continue
		}
		busy := false
		for _, p := range g.partitions {
			busy = busy || p.tasks > 0
		}
		if !busy {
			g.removing = true
			s.remove(format.TopicsDir+"/"+itoa(uint64(g.topic)), g, nil)
		}
	}
}

// buried forgets a topic whose files are gone.
func (s *Set) buried(g *grave) {
	wanted := false
	kept := s.graves[:0]
	for _, other := range s.graves {
		if other != g {
			kept = append(kept, other)
			wanted = wanted || other.wanted
		}
	}
	clear(s.graves[len(kept):])
	s.graves = kept
	if !wanted {
		s.emit(Event{Kind: EventUnlinked})
	}
}

// remover removes a directory with all that is in it, and syncs its parent.
type remover struct {
	task
	stack    []removal // what is on top is removed first
	list     string    // the directory being listed
	parent   string
	failed   bool
	synced   bool
	unsynced disk.Errno // what became of the parent's sync
	grave    *grave
	waiter   worker
}

type removal struct {
	path string
	dir  bool // to be listed first
}

// remove starts the removal of dir, for a grave or for a worker that waits.
func (s *Set) remove(dir string, g *grave, waiter worker) {
	r := &remover{stack: []removal{{dir, true}}, parent: disk.Parent(dir), grave: g, waiter: waiter}
	if waiter != nil {
		waiter.base().waiting++
	}
	s.begin(r)
	r.advance(s)
}

func (r *remover) completed(_ *Set, c *disk.Completion) {
	switch c.Kind {
	case disk.KindList:
		r.stack = append(r.stack, removal{path: r.list})
		for _, e := range c.Entries {
			r.stack = append(r.stack, removal{r.list + "/" + e.Name, e.Dir})
		}
	case disk.KindRemove:
		r.failed = r.failed || c.Err != disk.OK && c.Err != disk.ErrNotExist
	case disk.KindSyncDir:
		r.unsynced = c.Err
	}
}

// advance goes on. A failure ends it: what is left is removed after the next
// start, as a directory of an unknown topic. A sync that failed ends the set: the
// parent holds names of other topics (invariant 10).
func (r *remover) advance(s *Set) {
	for r.waiting == 0 {
		r.takeErr()
		switch {
		case r.synced:
			s.end(r)
			if flight.FailedSync(disk.KindSyncDir, r.unsynced) {
				s.fail(r.parent, r.unsynced)
			}
			if r.grave != nil {
				s.buried(r.grave)
			}
			if r.waiter != nil {
				s.wake(r.waiter, disk.OK)
			}
			return
		case r.failed, len(r.stack) == 0:
			r.synced = true
			s.submit(r, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneBackground, Path: r.parent})
		default:
			r.more(s)
		}
	}
}

// more takes from the stack: a directory to be listed, or a batch to be removed
// in order.
func (r *remover) more(s *Set) {
	for range removeBatch {
		n := len(r.stack) - 1
		if n < 0 || r.stack[n].dir && r.waiting > 0 {
			return
		}
		top := r.stack[n]
		r.stack = r.stack[:n]
		if top.dir {
			r.list = top.path
			s.submit(r, disk.Request{Kind: disk.KindList, Lane: disk.LaneRead, Path: top.path})
			return
		}
		s.submit(r, disk.Request{Kind: disk.KindRemove, Lane: disk.LaneBackground, Path: top.path})
	}
}

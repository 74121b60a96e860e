package segment

import (
	"sort"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

// scrubber verifies the sealed segments one after another, in the order of
// partitions, at a bounded rate, and then again after a pause: rot is found
// before the record is needed. It reads past the caches.
type scrubber struct {
	task
	at      clock.Instant // of its next step; Never when it is off or at work
	active  bool
	reading bool
	retried bool
	// Where it is: the next segment is the first behind these.
	key  uint32
	seq  op.Sequence
	data *file
	scan scan
	n    int
}

func (r *scrubber) init(s *Set) {
	r.at = clock.Never
	if s.o.ScrubBytesPerSecond > 0 {
		r.at = 0
	}
}

func (r *scrubber) tick(s *Set) {
	if s.now < r.at || s.recovery != nil {
		return
	}
	r.at = clock.Never
	if r.active {
		r.step(s)
		return
	}
	r.begin(s)
}

// begin takes the next sealed segment.
func (r *scrubber) begin(s *Set) {
	p, at, ok := r.find(s)
	if !ok {
		if r.key != 0 || r.seq != 0 {
			s.emit(Event{Kind: EventScrubbed})
		}
		r.key, r.seq = 0, 0
		r.at = s.now.Add(s.o.ScrubPause)
		return
	}
	r.key, r.seq = p.key(), at.base
	r.scan.start(p, at, at.size)
	r.active, r.retried = true, false
	p.tasks++
	s.begin(r)
	r.data = s.acquire(r, p, at.base, false, false)
	if r.waiting == 0 {
		r.advance(s)
	}
}

// find gives the first sealed segment behind the one that was verified last.
func (r *scrubber) find(s *Set) (*partition, segment, bool) {
	i := sort.Search(len(s.order), func(i int) bool { return s.order[i].key() >= r.key })
	for _, p := range s.order[i:] {
		for j := range p.segments {
			seg := p.segments[j]
			behind := p.key() != r.key || seg.base > r.seq
			if behind && p.finished(seg.base) && seg.size > 0 && !p.isBad(seg.base) {
				return p, seg, true
			}
		}
	}
	return nil, segment{}, false
}

func (r *scrubber) completed(_ *Set, c *disk.Completion) { r.n = int(c.N) }

func (r *scrubber) advance(s *Set) {
	err := r.takeErr()
	p := r.scan.p
	switch {
	case p.dropped:
		r.leave(s, 0)
	case err == disk.ErrTooManyFiles:
		r.leave(s, clock.Second)
	case !r.reading && err != disk.OK:
		what := "cannot be opened: " + err.String()
		if err == disk.ErrNotExist {
			what = "the segment is missing"
		}
		i := p.segmentOf(r.scan.at.base)
		s.noteDamage(p, Damage{Path: p.path(r.scan.at.base, format.SegmentSuffix), Sequence: r.scan.at.base, What: what}, r.scan.at.base, p.segmentEnd(i))
		r.leave(s, 0)
	case !r.reading:
		r.step(s)
	default:
		r.reading = false
		r.took(s, err)
	}
}

// step reads the next piece.
func (r *scrubber) step(s *Set) {
	if r.scan.p.dropped {
		r.leave(s, 0)
		return
	}
	if r.scan.next(s, r, r.data.handle) {
		r.reading = true
		return
	}
	p, next := r.scan.p, r.scan.run.next
	if end := p.segmentEnd(p.segmentOf(r.scan.at.base)); next <= end {
		s.noteDamage(p, Damage{Path: p.path(next, format.SegmentSuffix), Sequence: next, What: "the segment is missing"}, next, end)
	}
	r.leave(s, 0)
}

// took checks a piece, and sets the time of the next by its size.
func (r *scrubber) took(s *Set, err disk.Errno) {
	if err != disk.OK && !r.retried {
		r.retried = true
		r.at = s.now.Add(clock.Second)
		return
	}
	if what := r.scan.take(s.o.ClusterID, r.n, err); what != "" {
		p, run := r.scan.p, &r.scan.run
		s.noteDamage(p, Damage{Path: p.path(r.scan.at.base, format.SegmentSuffix), Offset: run.offset, Sequence: run.next, What: what}, run.next, run.next)
		r.leave(s, 0)
		return
	}
	r.at = s.now.Add(r.pace(s))
}

func (r *scrubber) pace(s *Set) clock.Duration {
	return clock.Duration(int64(max(r.n, 1)) * int64(clock.Second) / s.o.ScrubBytesPerSecond)
}

// leave ends the work on a segment; the next begins after a pause.
func (r *scrubber) leave(s *Set, pause clock.Duration) {
	s.release(r.data)
	r.data, r.active, r.reading = nil, false, false
	s.end(r)
	r.at = s.now.Add(max(pause, r.pace(s)))
	s.leave(r.scan.p)
}

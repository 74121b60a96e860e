package segment

import (
	"math/bits"

	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

// probeBytes is how much of an index one probe reads.
const (
	probeBytes   = 16 << 10
	probeEntries = probeBytes / format.IndexEntrySize
)

// startProbe reads a piece of the index: the one where the entry would be if
// records were all of one size, or every other time the one in the middle.
func (r *reader) startProbe(s *Set, err disk.Errno) {
	if err != disk.OK {
		r.startRebuild(s)
		return
	}
	if r.probe == nil {
		r.probe = make([]byte, probeBytes)
	}
	width := uint64(r.high - r.low)
	guess := width / 2
	if r.probes%2 == 0 && r.highSeq > r.lowSeq && r.seq >= r.lowSeq {
		hi, lo := bits.Mul64(width, uint64(r.seq-r.lowSeq))
		if d := uint64(r.highSeq - r.lowSeq); hi < d {
			guess, _ = bits.Div64(hi, lo, d)
		}
	}
	guess -= min(guess, probeEntries/2)
	guess = min(guess, width-min(width, probeEntries))
	r.probeAt = r.low + uint32(guess)
	r.probeN = int(min(width-guess, probeEntries))
	r.probes++
	at := int64(format.SegmentHeaderSize) + int64(r.probeAt)*format.IndexEntrySize
	s.submit(r, disk.Request{Kind: disk.KindRead, Lane: disk.LaneRead, Handle: r.index.handle, Offset: at, Buf: r.probe[:r.probeN*format.IndexEntrySize]})
	r.step = readProbed
}

// probed narrows the search by what a probe read.
func (r *reader) probed(s *Set, err disk.Errno) {
	if err != disk.OK || r.n < r.probeN*format.IndexEntrySize {
		r.startRebuild(s)
		return
	}
	var found format.IndexEntry
	last := op.Sequence(0)
	for i := range r.probeN {
		e, err := format.DecodeIndexEntry(r.probe[i*format.IndexEntrySize:])
		if err != nil || e.Sequence <= last || e.Sequence < r.at.base || int64(e.Offset) >= r.at.size {
			r.startRebuild(s)
			return
		}
		last = e.Sequence
		if e.Sequence <= r.seq {
			found = e
		}
		if i == 0 && e.Sequence > r.seq {
			r.high, r.highSeq = r.probeAt, e.Sequence
			break
		}
	}
	end := r.probeAt + uint32(r.probeN)
	switch {
	case found.Sequence != 0 && (found.Sequence < last || end == r.high || last == r.seq):
		s.release(r.index)
		r.index = nil
		r.entry, r.fromIndex = found, true
		r.startAt(int64(found.Offset), found.Sequence)
	case found.Sequence != 0:
		r.low, r.lowSeq = end-1, last
		r.step = readProbe
	case r.high <= r.low: // the first entry is above seq: it is not this segment's index
		r.startRebuild(s)
	default:
		r.step = readProbe
	}
}

// startRebuild gives up on the index file and has the segment walked through.
func (r *reader) startRebuild(s *Set) {
	s.release(r.index)
	r.index = nil
	r.rebuild = s.joinRebuild(r, r.p, r.at)
	r.step = readRebuilt
}

// rebuilt takes the place of seq from the walk, which also knows of damage.
func (r *reader) rebuilt(s *Set) {
	b := r.rebuild
	r.rebuild = nil
	end := b.scan.run.next
	g := b.bridge.over(r.seq)
	switch {
	case g != nil && !b.busy:
		s.noteDamage(r.p, Damage{Path: r.p.path(r.at.base, format.SegmentSuffix), Offset: g.offset, Sequence: g.from, What: g.what}, g.from, g.to)
		r.finish(s)
	case b.busy || b.bad == "" && r.seq >= end && b.scan.limit < r.at.size:
		if b.busy {
			s.readsAt = s.now.Add(descriptorsAfter)
		}
		s.readQueue.push(readWanted{r.p, r.seq})
		r.leave(s)
	case r.seq < end:
		e := b.find(r.seq)
		r.fromIndex = false
		r.startAt(int64(e.Offset), e.Sequence)
	default:
		to := r.segEnd
		if r.fromIndex && end == r.entry.Sequence {
			to = r.seq // the index was right: what is behind can be found
		}
		s.noteDamage(r.p, b.damage(), end, to)
		r.finish(s)
	}
}

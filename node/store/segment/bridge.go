package segment

import (
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

// gap is what a walk could not read and got past: the sequences from where it
// stopped up to the record at which it went on.
type gap struct {
	from, to op.Sequence
	offset   int64
	what     string
}

// bridge gets a walk past damage: what comes behind is whole, and is lost only if
// nothing says where it begins. The index does, as far as it is right: at an entry
// behind the damage the segment has the record that the entry names. Nothing else
// is believed, least of all bytes that look like a record: values are made by
// others.
type bridge struct {
	index  *file
	probe  []byte
	at     uint32 // the entry that probe begins with
	n      int    // bytes of probe
	number uint32 // the next entry that is looked at
	asked  bool   // probe was just read
	tried  int64  // the offset of the last entry that the walk went on at
	gaps   []gap
}

// over gives the gap that seq lies in, nil for none.
func (k *bridge) over(seq op.Sequence) *gap {
	for i := range k.gaps {
		if g := &k.gaps[i]; seq >= g.from && seq <= g.to {
			return g
		}
	}
	return nil
}

// stopped takes in why the walk cannot go on, and looks for a way past it.
func (b *rebuild) stopped(s *Set, what string) {
	k, run := &b.bridge, &b.scan.run
	if len(k.gaps) == 0 || run.offset != k.tried {
		k.gaps = append(k.gaps, gap{from: run.next, offset: run.offset, what: what})
	}
	if b.late || !b.scan.begun || b.at.entries == 0 {
		b.giveUp(s)
		return
	}
	if k.index == nil {
		k.index = s.acquire(b, b.p, b.at.base, true, false)
	}
	b.step = rebuildHint
}

// giveUp ends the walk where the last gap begins.
func (b *rebuild) giveUp(s *Set) {
	k := &b.bridge
	g := k.gaps[len(k.gaps)-1]
	k.gaps = k.gaps[:len(k.gaps)-1]
	b.bad, b.scan.run.next, b.scan.run.offset = g.what, g.from, g.offset
	b.done(s)
}

// hint has the walk go on at the next entry behind the gap.
func (b *rebuild) hint(s *Set, err disk.Errno) {
	k := &b.bridge
	if err == disk.ErrTooManyFiles {
		b.busy = true
		b.done(s)
		return
	}
	for g := &k.gaps[len(k.gaps)-1]; err == disk.OK && !b.p.dropped && k.number < b.at.entries; k.number++ {
		at := int(k.number-k.at) * format.IndexEntrySize
		if at+format.IndexEntrySize > k.n {
			if k.asked {
				break // the file is shorter than it was
			}
			b.ask(s)
			return
		}
		k.asked = false
		e, bad := format.DecodeIndexEntry(k.probe[at:])
		if bad == nil && e.Sequence > g.from && int64(e.Offset) > g.offset && int64(e.Offset) < b.scan.limit {
			k.number++
			k.tried, g.to = int64(e.Offset), e.Sequence-1
			b.scan.moveTo(int64(e.Offset), e.Sequence)
			b.step = rebuildRead
			return
		}
	}
	b.giveUp(s)
}

// ask reads the next piece of the index.
func (b *rebuild) ask(s *Set) {
	k := &b.bridge
	if k.probe == nil {
		k.probe = make([]byte, probeBytes)
	}
	k.at, k.n, k.asked = k.number, 0, true
	n := int(min(b.at.entries-k.number, probeEntries)) * format.IndexEntrySize
	at := int64(format.SegmentHeaderSize) + int64(k.number)*format.IndexEntrySize
	s.submit(b, disk.Request{Kind: disk.KindRead, Lane: disk.LaneRead, Handle: k.index.handle, Offset: at, Buf: k.probe[:n]})
}

package machine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// ErrCheckpoint is in every error about checkpoint or snapshot content that does
// not fit together. Files have checksums of their own: this is what gets past
// them, so it is damage or a defect.
var ErrCheckpoint = errors.New("machine: checkpoint does not fit together")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCheckpoint, fmt.Sprintf(format, args...))
}

// loadState is what the loading of pieces needs until FinishLoad. A cursor's
// list and a window's place by use are not in order until then.
type loadState struct {
	header   bool
	want     [pieceKinds][2]uint64 // by the end records
	got      [pieceKinds][2]uint64
	ended    [pieceKinds]bool
	expected map[*cursor]uint32 // entries, by the cursor records
	windows  []uint32
}

// LoadLogPiece loads a piece of the log checkpoint, after all metadata.
func (m *Machine) LoadLogPiece(data []byte) error {
	l := m.loader()
	return eachRecord(data, func(tag byte, r *reader) error {
		switch tag {
		case tagLogHeader:
			m.number, m.epoch = op.Number(r.u64()), op.Epoch(r.u32())
			m.logTime, m.windows.uses = op.LogMillis(r.u64()), r.u64()
			l.header = true
		case tagPartition:
			l.got[PieceLog][0]++
			return m.loadPartition(r)
		case tagWindow:
			l.got[PieceLog][1]++
			if fault.On("dedup_lost_at_restart") {
				r.b = nil
				return nil
			}
			return m.loadWindow(r)
		case tagLogEnd:
			l.want[PieceLog], l.ended[PieceLog] = [2]uint64{r.u64(), r.u64()}, true
		default:
			return damaged("record %d in a log checkpoint", tag)
		}
		return nil
	})
}

// LoadCursorPiece loads a piece of the ledger checkpoint, after all metadata.
func (m *Machine) LoadCursorPiece(data []byte) error {
	l := m.loader()
	return eachRecord(data, func(tag byte, r *reader) error {
		switch tag {
		case tagCursor:
			l.got[PieceCursor][0]++
			return m.loadCursor(r)
		case tagEntry:
			l.got[PieceCursor][1]++
			return m.loadEntry(r)
		case tagCursorEnd:
			l.want[PieceCursor], l.ended[PieceCursor] = [2]uint64{r.u64(), r.u64()}, true
		default:
			return damaged("record %d in a ledger checkpoint", tag)
		}
		return nil
	})
}

func (m *Machine) loader() *loadState {
	if m.load == nil {
		m.load = &loadState{expected: make(map[*cursor]uint32)}
	}
	m.loading = true
	return m.load
}

func eachRecord(data []byte, f func(tag byte, r *reader) error) error {
	for all := (reader{b: data}); len(all.b) > 0; {
		tag := all.u8()
		r := reader{b: all.take(int(all.u32()))}
		if all.bad {
			return damaged("a record is cut short")
		}
		if err := f(tag, &r); err != nil {
			return err
		}
		if r.bad || len(r.b) > 0 {
			return damaged("record %d has a wrong length", tag)
		}
	}
	return nil
}

func (m *Machine) loadPartition(r *reader) error {
	id, p := r.ids()
	t, twin := m.topic(op.TopicID(id))
	if t == nil || uint16(p) >= t.partitions {
		return damaged("position of partition %d of topic %d, which is not in the metadata", p, id)
	}
	part := m.extend(t, twin, op.TopicID(id), p)
	if part.last != 0 {
		return damaged("two positions of partition %d of topic %d", p, id)
	}
	part.last, part.timestamp = op.Sequence(r.u64()), r.u64()
	part.bytes, part.plain = r.u64(), r.u64()
	part.purged = op.Sequence(r.u64())
	n := r.u32()
	if part.last == 0 || part.purged > part.last || uint64(n)*16 != uint64(len(r.b)) {
		return damaged("position of partition %d of topic %d", p, id)
	}
	if n > 0 {
		k := &marks{}
		floor := op.Sequence(0)
		for range n {
			x := seqRange{op.Sequence(r.u64()), op.Sequence(r.u64())}
			if x.from <= floor || x.to < x.from || x.to > part.last {
				return damaged("marks of partition %d of topic %d", p, id)
			}
			floor = x.to + 1
			k.ranges = append(k.ranges, x)
			k.count += uint64(x.to - x.from + 1)
		}
		m.marks[partitionKey{op.TopicID(id), p}] = k
	}
	if fault.On("sequence_reused_after_recovery") && n == 0 && part.purged < part.last {
		part.last--
	}
	return nil
}

func (m *Machine) loadWindow(r *reader) error {
	producer := r.u64()
	id, p := r.ids()
	key := windowKey{producer, op.TopicID(id), p}
	t, twin := m.topic(key.topic)
	if t == nil || twin != 0 || uint16(p) >= t.partitions || producer == 0 || m.windows.index[key] != 0 {
		return damaged("window of producer %d in partition %d of topic %d", producer, p, id)
	}
	n := m.windows.slab.get()
	w := m.windows.slab.at(n)
	w.windowKey, w.live = key, true
	w.last, w.use, w.active = r.u64(), r.u64(), op.LogMillis(r.u64())
	covered := uint64(0)
	for range r.u16() {
		x := run{op.Sequence(r.u64()), op.Epoch(r.u32()), r.u32()}
		if x.count == 0 || x.count > wire.DedupWindow {
			return damaged("window of producer %d in partition %d of topic %d", producer, p, id)
		}
		if w.newest.count != 0 {
			m.windows.pushRun(w, w.newest)
		}
		w.newest = x
		covered += uint64(x.count)
	}
	if covered != min(w.last, wire.DedupWindow) || covered == 0 {
		return damaged("window of producer %d in partition %d of topic %d covers %d", producer, p, id, covered)
	}
	w.covered = uint16(covered)
	m.windows.index[key] = n
	m.windows.link(m.extend(t, 0, key.topic, p), n)
	m.load.windows = append(m.load.windows, n)
	return nil
}

func (m *Machine) loadCursor(r *reader) error {
	id, p := r.ids()
	g := m.group(op.GroupID(id))
	if g == nil || int(p) >= len(g.cursors) {
		return damaged("cursor of partition %d of group %d, which is not in the metadata", p, id)
	}
	c := &g.cursors[p]
	if _, twice := m.load.expected[c]; twice {
		return damaged("two cursors of partition %d of group %d", p, id)
	}
	c.next, c.start = op.Sequence(r.u64()), int64(r.u64())
	c.delivered, c.dropped = r.u64(), r.u64()
	c.dlq, c.quarantined = r.u64(), r.u64()
	c.retries = r.u64()
	m.load.expected[c] = r.u32()
	return nil
}

func (m *Machine) loadEntry(r *reader) error {
	id, p := r.ids()
	g := m.group(op.GroupID(id))
	if g == nil || int(p) >= len(g.cursors) {
		return damaged("entry of partition %d of group %d, which is not in the metadata", p, id)
	}
	c := &g.cursors[p]
	n := m.ledger.get()
	e := m.ledger.at(n)
	*e = entry{group: g.id, partition: p, live: true}
	e.seq, e.delivery = op.Sequence(r.u64()), op.DeliveryID(r.u64())
	e.ownership, e.due = op.OwnershipEpoch(r.u64()), op.LogMillis(r.u64())
	e.attempts, e.charges = r.u16(), r.u16()
	e.state = DeliveryState(r.u8())
	if e.state > DeliveryDead {
		return damaged("entry %d of partition %d of group %d", e.seq, p, id)
	}
	if e.state == DeliveryDead {
		c.dead++
	}
	e.next = c.head
	c.head = n
	c.count++
	return nil
}

// FinishLoad must follow the last piece, before the first Apply: it joins what
// came in pieces and checks that it is whole. Without pieces, metadata alone is
// what there is.
func (m *Machine) FinishLoad() error {
	l := m.load
	m.load, m.loading = nil, false
	if l == nil {
		return nil
	}
	if !l.header || !l.ended[PieceLog] || !l.ended[PieceCursor] || l.want != l.got {
		return damaged("pieces are missing: want %v, got %v", l.want, l.got)
	}
	slices.SortFunc(l.windows, func(a, b uint32) int {
		return cmp.Compare(m.windows.slab.at(a).use, m.windows.slab.at(b).use)
	})
	for _, w := range l.windows {
		m.windows.linkUse(w)
	}
	for _, g := range m.groups {
		if g == nil {
			continue
		}
		for p := range g.cursors {
			if err := m.finishCursor(g, &g.cursors[p], l); err != nil {
				return err
			}
		}
	}
	if fault.On("sequence_reused_after_recovery") {
		return nil
	}
	return m.Check()
}

// finishCursor puts a cursor's entries in order.
func (m *Machine) finishCursor(g *group, c *cursor, l *loadState) error {
	if c.count != l.expected[c] {
		return damaged("group %d has %d entries of a partition, its cursor says %d", g.id, c.count, l.expected[c])
	}
	if c.count == 0 {
		return nil
	}
	list := make([]uint32, 0, c.count)
	for n := c.head; n != 0; n = m.ledger.at(n).next {
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b uint32) int {
		return cmp.Compare(m.ledger.at(a).seq, m.ledger.at(b).seq)
	})
	c.head, c.tail = list[0], list[len(list)-1]
	for i, n := range list {
		e := m.ledger.at(n)
		e.prev, e.next = 0, 0
		if i > 0 {
			e.prev = list[i-1]
			if m.ledger.at(e.prev).seq == e.seq {
				return damaged("group %d has two entries of sequence %d", g.id, e.seq)
			}
		}
		if i+1 < len(list) {
			e.next = list[i+1]
		}
	}
	m.reindex(c, c.count)
	return nil
}

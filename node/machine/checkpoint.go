package machine

import "github.com/mortarmq/mortarmq/node/op"

// PieceKind is which of a checkpoint's two files a piece belongs to.
type PieceKind uint8

// The kinds of piece.
const (
	PieceLog    PieceKind = iota // positions, producer windows, dead-letter marks
	PieceCursor                  // cursors and ledgers
	pieceKinds
)

// checkpoint walks over the state as it was at BeginCheckpoint while Apply goes
// on: copy on write in units of one partition's position, one window, one
// cursor, one ledger entry, so that no turn encodes more than it changes.
//
// Invariants, for a kind that is active:
//
//  1. A unit whose saved is generation was encoded, or was made since Begin. All
//     others are as they were at Begin.
//  2. Before a unit changes or goes, keep... makes 1 hold for it, by encoding it
//     into kept. Order does not matter: records name what they are about.
//  3. The walk encodes the units that 1 leaves, each once.
type checkpoint struct {
	generation uint32
	active     [pieceKinds]bool
	kept       [pieceKinds][]byte // records encoded before their turn
	keptAt     [pieceKinds]int    // handed out up to here
	counts     [pieceKinds][2]uint64

	header [64]byte // log header record, as of Begin
	begun  bool     // the header was handed out

	// The walks: over partitions, then slab numbers below the end at Begin.
	topicAt, partAt     int // topic id - 1, partition
	windowAt, windowEnd uint32
	groupAt, cursorAt   int
	entryAt, entryEnd   uint32
}

// BeginCheckpoint freezes the state as of now for NextCheckpointPiece; Apply
// goes on in between. EncodeMetadata belongs to the same moment if it is called
// before the next Apply. A checkpoint that is under way is given up.
func (m *Machine) BeginCheckpoint() {
	m.AbortCheckpoint()
	c := &m.ckpt
	c.generation++
	c.active = [pieceKinds]bool{true, true}
	c.windowAt, c.windowEnd = 1, m.windows.slab.next
	c.entryAt, c.entryEnd = 1, m.ledger.next
	m.appendHeader(c.header[:0])
}

// AbortCheckpoint forgets the checkpoint under way, if any.
func (m *Machine) AbortCheckpoint() {
	m.ckpt = checkpoint{generation: m.ckpt.generation}
}

// Checkpointing says whether a checkpoint is under way.
func (m *Machine) Checkpointing() bool {
	return m.ckpt.active[PieceLog] || m.ckpt.active[PieceCursor]
}

// NextCheckpointPiece appends the next piece of a kind to b, until it holds
// limit bytes or a little more; each call's bytes go to LoadLogPiece or
// LoadCursorPiece whole, in any order. done says that it was the last of its
// kind.
func (m *Machine) NextCheckpointPiece(kind PieceKind, b []byte, limit int) (out []byte, done bool) {
	c := &m.ckpt
	if !c.active[kind] {
		panic("machine: a piece of no checkpoint")
	}
	b = c.takeKept(kind, b, limit)
	if kind == PieceLog {
		b, done = m.walkLog(b, limit)
	} else {
		b, done = m.walkCursors(b, limit)
	}
	if !done || c.keptAt[kind] < len(c.kept[kind]) {
		return b, false
	}
	tag := tagLogEnd
	if kind == PieceCursor {
		tag = tagCursorEnd
	}
	b, at := beginRecord(b, tag)
	b = putU64(putU64(b, c.counts[kind][0]), c.counts[kind][1])
	c.active[kind] = false
	c.kept[kind] = nil
	return endRecord(b, at), true
}

// takeKept moves records that were encoded before their turn to b.
func (c *checkpoint) takeKept(kind PieceKind, b []byte, limit int) []byte {
	for c.keptAt[kind] < len(c.kept[kind]) && len(b) < limit {
		rest := c.kept[kind][c.keptAt[kind]:]
		n := recordSize(rest)
		b = append(b, rest[:n]...)
		c.keptAt[kind] += n
	}
	if c.keptAt[kind] == len(c.kept[kind]) {
		c.kept[kind], c.keptAt[kind] = c.kept[kind][:0], 0
	}
	return b
}

func (m *Machine) walkLog(b []byte, limit int) ([]byte, bool) {
	c := &m.ckpt
	if !c.begun {
		b = append(b, c.header[:recordSize(c.header[:])]...)
		c.begun = true
	}
	for ; c.topicAt < 2*len(m.topics); c.topicAt, c.partAt = c.topicAt+1, 0 {
		id := op.TopicID(c.topicAt + 1)
		t, twin := m.topic(id)
		if t == nil {
			continue
		}
		for ; c.partAt < len(t.parts[twin]); c.partAt++ {
			if len(b) >= limit {
				return b, false
			}
			p := &t.parts[twin][c.partAt]
			if p.saved == c.generation {
				continue
			}
			p.saved = c.generation
			if p.last > 0 {
				b = m.appendPartition(b, partitionKey{id, op.PartitionID(c.partAt)}, p)
				c.counts[PieceLog][0]++
			}
		}
	}
	for ; c.windowAt < c.windowEnd; c.windowAt++ {
		if len(b) >= limit {
			return b, false
		}
		w := m.windows.slab.at(c.windowAt)
		if w.live && w.saved != c.generation {
			w.saved = c.generation
			b = m.appendWindow(b, w)
			c.counts[PieceLog][1]++
		}
	}
	return b, true
}

func (m *Machine) walkCursors(b []byte, limit int) ([]byte, bool) {
	c := &m.ckpt
	for ; c.groupAt < len(m.groups); c.groupAt, c.cursorAt = c.groupAt+1, 0 {
		g := m.groups[c.groupAt]
		if g == nil {
			continue
		}
		for ; c.cursorAt < len(g.cursors); c.cursorAt++ {
			if len(b) >= limit {
				return b, false
			}
			cur := &g.cursors[c.cursorAt]
			if cur.saved != c.generation {
				cur.saved = c.generation
				b = appendCursor(b, g, op.PartitionID(c.cursorAt))
				c.counts[PieceCursor][0]++
			}
		}
	}
	for ; c.entryAt < c.entryEnd; c.entryAt++ {
		if len(b) >= limit {
			return b, false
		}
		e := m.ledger.at(c.entryAt)
		if e.live && e.saved != c.generation {
			e.saved = c.generation
			b = appendEntry(b, e)
			c.counts[PieceCursor][1]++
		}
	}
	return b, true
}

// keepPartition must be called before p changes or goes.
func (m *Machine) keepPartition(key partitionKey, p *partition) {
	c := &m.ckpt
	if !c.active[PieceLog] || p.saved == c.generation {
		return
	}
	p.saved = c.generation
	if p.last > 0 {
		c.kept[PieceLog] = m.appendPartition(c.kept[PieceLog], key, p)
		c.counts[PieceLog][0]++
	}
}

// keepWindow must be called before window w changes or goes.
func (m *Machine) keepWindow(w uint32) {
	c, win := &m.ckpt, m.windows.slab.at(w)
	if !c.active[PieceLog] || win.saved == c.generation {
		return
	}
	win.saved = c.generation
	c.kept[PieceLog] = m.appendWindow(c.kept[PieceLog], win)
	c.counts[PieceLog][1]++
}

// keepCursor must be called before a cursor's numbers change or it goes.
func (m *Machine) keepCursor(g *group, p op.PartitionID) {
	c, cur := &m.ckpt, &g.cursors[p]
	if !c.active[PieceCursor] || cur.saved == c.generation {
		return
	}
	cur.saved = c.generation
	c.kept[PieceCursor] = appendCursor(c.kept[PieceCursor], g, p)
	c.counts[PieceCursor][0]++
}

// keepEntry must be called before entry n changes or goes.
func (m *Machine) keepEntry(n uint32) {
	c, e := &m.ckpt, m.ledger.at(n)
	if !c.active[PieceCursor] || e.saved == c.generation {
		return
	}
	e.saved = c.generation
	c.kept[PieceCursor] = appendEntry(c.kept[PieceCursor], e)
	c.counts[PieceCursor][1]++
}

package machine

import (
	"crypto/sha256"
	"fmt"

	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// Digest is a digest of the whole state: equal on nodes that applied the same
// ops, however they got there (M11). It costs as much as a checkpoint.
func (m *Machine) Digest() (d [16]byte) {
	h := sha256.New()
	b := m.EncodeMetadata(m.appendHeader(nil))
	flush := func(limit int) {
		if len(b) >= limit {
			h.Write(b)
			b = b[:0]
		}
	}
	for i := range 2 * len(m.topics) {
		id := op.TopicID(i + 1)
		t, twin := m.topic(id)
		if t == nil {
			continue
		}
		for p := range t.parts[twin] {
			if t.parts[twin][p].last > 0 {
				b = m.appendPartition(b, partitionKey{id, op.PartitionID(p)}, &t.parts[twin][p])
				flush(1 << 16)
			}
		}
	}
	for w := m.windows.oldest; w != 0; w = m.windows.slab.at(w).newer {
		b = m.appendWindow(b, m.windows.slab.at(w))
		flush(1 << 16)
	}
	for _, g := range m.groups {
		if g == nil {
			continue
		}
		for p := range g.cursors {
			b = appendCursor(b, g, op.PartitionID(p))
			for n := g.cursors[p].head; n != 0; n = m.ledger.at(n).next {
				b = appendEntry(b, m.ledger.at(n))
				flush(1 << 16)
			}
		}
	}
	flush(0)
	copy(d[:], h.Sum(nil))
	return d
}

// Check verifies every invariant that a state can be asked about. It takes as
// long as the state is large: for loading, tests and the simulator.
func (m *Machine) Check() error {
	if err := m.checkTopics(); err != nil {
		return err
	}
	if err := m.checkWindows(); err != nil {
		return err
	}
	entries := 0
	live := 0
	for id, g := range m.groups {
		if g == nil {
			continue
		}
		live++
		t, _ := m.topic(g.topic)
		if int(g.id) != id || m.groupByName[g.name] != g.id || t == nil || int(t.partitions) != len(g.owners) || len(g.owners) != len(g.cursors) {
			return fmt.Errorf("machine: group %d does not fit its topic or its name", id)
		}
		if err := m.checkOwners(g); err != nil {
			return err
		}
		for p := range g.cursors {
			if err := m.checkCursor(g, op.PartitionID(p)); err != nil {
				return err
			}
			entries += int(g.cursors[p].count)
		}
	}
	if live != m.groupsLive || len(m.groupByName) != live {
		return fmt.Errorf("machine: %d groups, %d counted, %d names", live, m.groupsLive, len(m.groupByName))
	}
	if entries != m.ledger.used() {
		return fmt.Errorf("machine: M6: %d entries in cursors, %d in the ledger", entries, m.ledger.used())
	}
	return nil
}

func (m *Machine) checkTopics() error {
	live := 0
	for pair, t := range m.topics {
		if t == nil {
			continue
		}
		live++
		if at, ok := m.topicByName[t.name]; !ok || int(at) != pair {
			return fmt.Errorf("machine: M2: topic %d is not found by its name", sourceID(pair))
		}
		for twin := range t.parts {
			for p := range t.parts[twin] {
				x := &t.parts[twin][p]
				if x.purged > x.last || twin == 1 && (x.windows != 0 || x.plain != 0) || x.plain > uint64(x.last) {
					return fmt.Errorf("machine: M3: partition %d of topic %d: %+v", p, int(sourceID(pair))+twin, *x)
				}
			}
		}
	}
	if live != m.topicsLive || live != len(m.topicByName) {
		return fmt.Errorf("machine: M2: %d topics, %d counted, %d names", live, m.topicsLive, len(m.topicByName))
	}
	return nil
}

func (m *Machine) checkWindows() error {
	t := &m.windows
	n, runs, chunks, use := 0, uint64(0), 0, uint64(0)
	for w := t.oldest; w != 0; w = t.slab.at(w).newer {
		n++
		win := t.slab.at(w)
		p := m.partition(win.topic, win.partition)
		if p == nil || t.index[win.windowKey] != w || win.use <= use || win.use > t.uses || win.active > m.logTime {
			return fmt.Errorf("machine: M4: window of %+v is out of place", win.windowKey)
		}
		use = win.use
		covered := uint64(win.newest.count)
		for c := win.head; c != 0; c = t.chunks.at(c).next {
			chunks++
			ch := t.chunks.at(c)
			for _, r := range ch.runs[ch.head:ch.end] {
				runs++
				covered += uint64(r.count)
				if r.count == 0 {
					return fmt.Errorf("machine: M4: window of %+v has an empty run", win.windowKey)
				}
			}
		}
		if covered != uint64(win.covered) || covered != min(win.last, wire.DedupWindow) || win.newest.first+op.Sequence(win.newest.count) > p.last+1 {
			return fmt.Errorf("machine: M4: window of %+v covers %d of %d", win.windowKey, covered, win.last)
		}
	}
	if n != len(t.index) || n != t.slab.used() || runs != t.runs || chunks != t.chunks.used() {
		return fmt.Errorf("machine: M4: %d windows, %d found, %d runs of %d, %d chunks of %d", n, len(t.index), runs, t.runs, chunks, t.chunks.used())
	}
	return nil
}

func (m *Machine) checkOwners(g *group) error {
	members := g.members()
	for i, id := range members {
		if id == 0 || i > 0 && members[i-1] >= id {
			return fmt.Errorf("machine: members of group %d are out of order", g.id)
		}
	}
	var share [maxMembers]int
	revokes := 0
	for p := range g.owners {
		w := &g.owners[p]
		target := memberIndex(members, w.target)
		switch {
		case len(members) == 0 || g.holdUntil != 0:
			if w.owner != 0 || w.target != 0 || w.revoking {
				return fmt.Errorf("machine: M8: partition %d of group %d: %+v without members", p, g.id, *w)
			}
			continue
		case target < 0 || memberIndex(members, w.owner) < 0 || !w.revoking && w.owner != w.target || w.epoch == 0:
			return fmt.Errorf("machine: M8: partition %d of group %d: %+v", p, g.id, *w)
		}
		share[target]++
		if w.revoking {
			revokes++
		}
	}
	if revokes != g.revokes {
		return fmt.Errorf("machine: group %d has %d revokes, counts %d", g.id, revokes, g.revokes)
	}
	if len(members) > 0 && g.holdUntil == 0 {
		q := len(g.owners) / len(members)
		for _, n := range share[:len(members)] {
			if n < q || n > q+1 {
				return fmt.Errorf("machine: M8: group %d shares %v", g.id, share[:len(members)])
			}
		}
	}
	return nil
}

func (m *Machine) checkCursor(g *group, p op.PartitionID) error {
	c := &g.cursors[p]
	last := m.lastSeq(g.topic, p)
	fail := func(invariant int, what string) error {
		return fmt.Errorf("machine: M%d: group %d partition %d: %s: %+v, last %d", invariant, g.id, p, what, *c, last)
	}
	if c.next < 1 || c.next > last+1 {
		return fail(6, "next")
	}
	if int64(c.next)-1-c.start != int64(c.delivered)+int64(c.dropped)+int64(c.count) {
		return fail(5, "the sum")
	}
	if c.dlq+c.quarantined > c.dropped {
		return fail(5, "dead letters")
	}
	if c.count > wire.MaxUnsettled {
		return fail(6, "the bound")
	}
	count, dead := uint32(0), uint32(0)
	prev, seq := uint32(0), op.Sequence(0)
	for n := c.head; n != 0; n = m.ledger.at(n).next {
		e := m.ledger.at(n)
		if !e.live || e.prev != prev || e.seq <= seq || e.seq >= c.next || e.group != g.id || e.partition != p || m.findEntry(c, e.seq) != n {
			return fail(6, fmt.Sprintf("entry %+v", *e))
		}
		if e.ownership > g.owners[p].epoch || e.attempts == 0 {
			return fail(7, fmt.Sprintf("entry %+v", *e))
		}
		if e.state == DeliveryDead {
			dead++
		}
		prev, seq = n, e.seq
		count++
	}
	if count != c.count || dead != c.dead || c.tail != prev {
		return fail(6, "the list")
	}
	return nil
}

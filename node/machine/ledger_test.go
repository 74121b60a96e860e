package machine

import (
	"slices"
	"testing"

	"github.com/mortarmq/mortarmq/node/op"
	"pgregory.net/rapid"
)

// Goal: index and list of a cursor are a sorted map, with sequences that collide
// as well.
func TestLedgerIndex(t *testing.T) {
	collided := 0
	rapid.Check(t, func(t *rapid.T) {
		m := New()
		g := &group{id: 1}
		m.addGroup(g, 1)
		c := &g.cursors[0]
		// Half of the sequences share one of a few first slots of a small table.
		var crowd []op.Sequence
		for s := op.Sequence(1); len(crowd) < 200; s++ {
			if slotOf(s, 64) < 3 {
				crowd = append(crowd, s)
			}
		}
		want := map[op.Sequence]uint32{}
		next := op.Sequence(1)
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			if rapid.IntRange(0, 2).Draw(t, "what") > 0 {
				s := next + op.Sequence(rapid.IntRange(0, 3).Draw(t, "gap"))
				if rapid.Bool().Draw(t, "collide") {
					i, _ := slices.BinarySearch(crowd, next)
					if i == len(crowd) {
						continue
					}
					s = crowd[i]
					collided++
				}
				m.addEntry(g, 0, s)
				want[s] = c.tail
				next = s + 1
			} else if len(want) > 0 {
				at := rapid.IntRange(0, len(want)-1).Draw(t, "which")
				n := c.head
				for range at {
					n = m.ledger.at(n).next
				}
				delete(want, m.ledger.at(n).seq)
				m.dropEntry(c, n)
			}
			for s := op.Sequence(0); s <= next; s++ {
				if got := m.findEntry(c, s); got != want[s] {
					t.Fatalf("entry of %d: %d, want %d", s, got, want[s])
				}
			}
			prev, count := op.Sequence(0), 0
			for n := c.head; n != 0; n = m.ledger.at(n).next {
				if m.ledger.at(n).seq <= prev {
					t.Fatal("the list is out of order")
				}
				prev = m.ledger.at(n).seq
				count++
			}
			if count != len(want) || count != int(c.count) || count != m.ledger.used() {
				t.Fatalf("%d in the list, %d counted, %d used, want %d", count, c.count, m.ledger.used(), len(want))
			}
		}
	})
	if collided == 0 {
		t.Fatal("nothing collided")
	}
}

// Goal: a table that grew large is given up when its cursor has nothing out.
func TestLedgerIndexShrinks(t *testing.T) {
	m := New()
	g := &group{id: 1}
	m.addGroup(g, 1)
	c := &g.cursors[0]
	for s := range op.Sequence(10_000) {
		m.addEntry(g, 0, s+1)
	}
	for c.head != 0 {
		m.dropEntry(c, c.head)
	}
	if len(c.index) != 0 || m.ledger.used() != 0 {
		t.Fatal(len(c.index), m.ledger.used())
	}
	m.addEntry(g, 0, 10_001)
	if m.findEntry(c, 10_001) != c.head {
		t.Fatal("not found")
	}
}

package msgtrans

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// naive is Pairing as a list that is searched from end to end.
type naive struct {
	pending []Ended[int]
	due     map[MessageID]Instant
	last    MessageID
}

func (n *naive) issue() MessageID {
	for {
		n.last++
		if n.last != 0 && n.find(n.last) < 0 {
			return n.last
		}
	}
}

func (n *naive) find(id MessageID) int {
	return slices.IndexFunc(n.pending, func(e Ended[int]) bool { return e.ID == id })
}

func (n *naive) expire(now Instant) []Ended[int] {
	var out []Ended[int]
	for {
		best := -1
		for i, e := range n.pending {
			if n.due[e.ID] <= now && (best < 0 || n.due[e.ID] < n.due[n.pending[best].ID]) {
				best = i
			}
		}
		if best < 0 {
			return out
		}
		out = append(out, n.pending[best])
		n.pending = slices.Delete(n.pending, best, best+1)
	}
}

// Goal: after any sequence of operations the table agrees with a list.
func TestPairingAgreesWithAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 8
		p := NewPairing[int](limit)
		model := naive{due: map[MessageID]Instant{}}
		now, value, unmatched := Instant(0), 0, uint64(0)
		// Close to the wrap as often as not.
		model.last = rapid.SampledFrom([]MessageID{0, math.MaxUint32 - 3}).Draw(t, "last")
		p.ContinueAfter(model.last)
		pick := func(t *rapid.T) MessageID {
			if len(model.pending) > 0 && rapid.Bool().Draw(t, "known") {
				return rapid.SampledFrom(model.pending).Draw(t, "pending").ID
			}
			return MessageID(rapid.Uint32().Draw(t, "foreign"))
		}
		take := func(t *rapid.T, f func(MessageID) (int, bool)) bool {
			id := pick(t)
			i := model.find(id)
			got, ok := f(id)
			if ok != (i >= 0) || ok && got != model.pending[i].Value {
				t.Fatalf("id %d: %d, %v", id, got, ok)
			}
			if ok {
				model.pending = slices.Delete(model.pending, i, i+1)
			}
			return ok
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				deadline := now + Instant(rapid.IntRange(0, 20).Draw(t, "wait"))
				id, err := p.Begin(deadline, value)
				if len(model.pending) == limit {
					if !errors.Is(err, ErrPendingFull) {
						t.Fatalf("one too many: %v", err)
					}
					return
				}
				if want := model.issue(); err != nil || id != want || id == 0 {
					t.Fatalf("id %d, %v; want %d", id, err, want)
				}
				model.pending = append(model.pending, Ended[int]{ID: id, Value: value})
				model.due[id] = deadline
				value++
			},
			"oneway": func(t *rapid.T) {
				if id, want := p.OneWay(), model.issue(); id != want {
					t.Fatalf("id %d, want %d", id, want)
				}
			},
			"match": func(t *rapid.T) {
				if !take(t, p.Match) {
					unmatched++
				}
			},
			"cancel": func(t *rapid.T) { take(t, p.Cancel) },
			"expire": func(t *rapid.T) {
				now += Instant(rapid.IntRange(0, 15).Draw(t, "passes"))
				if got, want := p.Expire(now, nil), model.expire(now); !slices.Equal(got, want) {
					t.Fatalf("expired %v, want %v", got, want)
				}
			},
			"reset": func(t *rapid.T) {
				if got := p.Reset(nil); !slices.Equal(got, model.pending) {
					t.Fatalf("rejected %v, want %v", got, model.pending)
				}
				model.pending, model.last = nil, 0
			},
			"": func(t *rapid.T) {
				if p.Len() != len(model.pending) || p.Unmatched() != unmatched || listLen(p) != p.Len() {
					t.Fatalf("%d pending, %d in the list, %d unmatched", p.Len(), listLen(p), p.Unmatched())
				}
				first, ok := p.Deadline()
				if ok != (len(model.pending) > 0) {
					t.Fatal("a deadline without a request, or none with one")
				}
				for _, e := range model.pending {
					if model.due[e.ID] < first {
						t.Fatalf("deadline %d is not the earliest", first)
					}
				}
			},
		})
	})
}

func listLen(p *Pairing[int]) (n int) {
	for slot := p.slots[0].next; slot != 0; slot = p.slots[slot].next {
		n++
	}
	return n
}

// Goal: the table agrees with a map, which makes ids collide and tables grow.
func TestSlotTableAgreesWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table slotTable
		model := map[MessageID]int32{}
		id := func(t *rapid.T) MessageID {
			return MessageID(rapid.SampledFrom([]uint32{1, 2, 3, 17, 18, 33, 65, math.MaxUint32, math.MaxUint32 - 15, 15, 16, 31, 47}).Draw(t, "id"))
		}
		t.Repeat(map[string]func(*rapid.T){
			"put or delete": func(t *rapid.T) {
				id := id(t)
				if _, ok := model[id]; ok {
					table.delete(id)
					delete(model, id)
					return
				}
				model[id] = int32(len(model)) + 1
				table.put(id, model[id])
			},
			"": func(t *rapid.T) {
				id := id(t)
				want, there := model[id]
				if got, ok := table.get(id); ok != there || ok && got != want {
					t.Fatalf("id %d: %d, %v; want %d, %v", id, got, ok, want, there)
				}
				if table.used != len(model) {
					t.Fatalf("%d used, want %d", table.used, len(model))
				}
			},
		})
	})
}

// Goal: ids wrap from 2^32-1 to 1 and pass over one that is pending since before.
func TestIDsWrapPastPending(t *testing.T) {
	p := NewPairing[string](4)
	if id, err := p.Begin(100, "old"); id != 1 || err != nil {
		t.Fatal(id, err)
	}
	p.ContinueAfter(math.MaxUint32 - 1)
	if id := p.OneWay(); id != math.MaxUint32 {
		t.Fatalf("%d before the wrap", id)
	}
	if id := p.OneWay(); id != 2 {
		t.Fatalf("%d after the wrap, with 1 pending", id)
	}
	if v, ok := p.Match(1); v != "old" || !ok {
		t.Fatal(v, ok)
	}
	if _, ok := p.Match(1); ok || p.Unmatched() != 1 {
		t.Fatal("a duplicate Response found a request")
	}
}

// Goal: a request in steady state costs no allocation.
func TestPairingSteadyStateDoesNotAllocate(t *testing.T) {
	p := NewPairing[int](16)
	deadline := Instant(0)
	turn := func() {
		deadline++
		id, err := p.Begin(deadline, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := p.Match(id); !ok {
			t.Fatal("lost")
		}
	}
	turn()
	if n := testing.AllocsPerRun(10000, turn); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkPairing(b *testing.B) {
	p := NewPairing[int](512)
	ids := make([]MessageID, 256)
	for i := range ids {
		ids[i], _ = p.Begin(Instant(i), 0)
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		i := n % len(ids)
		p.Match(ids[i])
		ids[i], _ = p.Begin(Instant(n+256), 0)
		n++
	}
}

// Goal: Abandon gives up what is pending, the oldest first, and the ids go on.
func TestAbandon(t *testing.T) {
	p := NewPairing[string](0)
	for n, v := range []string{"a", "b", "c"} {
		if _, err := p.Begin(Instant(10-n), v); err != nil {
			t.Fatal(err)
		}
	}
	var got string
	for _, e := range p.Abandon(nil) {
		got += e.Value
	}
	if got != "abc" || p.Len() != 0 {
		t.Fatalf("%q, %d are left", got, p.Len())
	}
	if id := p.OneWay(); id != 4 {
		t.Fatalf("the next id is %d", id)
	}
}

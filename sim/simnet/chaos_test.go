package simnet

import (
	"fmt"
	"hash"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/sim/prng"
)

// chaos is a random life of three hosts.
type chaos struct {
	testing.TB
	w      *World
	chance *prng.Rand
	hash   hash.Hash32
	place  map[string]int // host and connection: bytes seen, -1 after Closed
	nextID net.ConnID
}

var chaosNames = []string{"a", "b", "c"}

// Goal, invariants 1 and 2: the same seed and calls give the same effects, and
// each connection's events keep their order, whatever happens around it.
func TestChaos(t *testing.T) {
	var sums []uint32
	for seed := range uint64(6) {
		a, b := runChaos(t, seed), runChaos(t, seed)
		if a != b {
			t.Errorf("seed %d gave %08x and %08x", seed, a, b)
		}
		sums = append(sums, a)
	}
	slices.Sort(sums)
	if len(slices.Compact(sums)) != 6 {
		t.Error("two seeds gave the same run")
	}
}

func runChaos(t *testing.T, seed uint64) uint32 {
	c := &chaos{TB: t, chance: prng.New(seed).Fork("chaos"), hash: crc32.NewIEEE(), place: map[string]int{}, nextID: 1}
	c.w = New(Options{Seed: seed, Observe: func(e Effect) { fmt.Fprintln(c.hash, e) }})
	for _, n := range chaosNames {
		c.w.Host(n).Listen(n+":1", net.PlanePeer)
	}
	for range 3000 {
		h := c.w.Host(chaosNames[c.chance.Intn(3)])
		c.strike(h)
		c.w.Advance(c.w.now.Add(clock.Duration(c.chance.Range(0, int64(5*clock.Millisecond)))))
		for _, e := range h.Poll(nil, c.chance.Intn(100000)) {
			c.check(h, e)
		}
	}
	return c.hash.Sum32()
}

// strike does one random thing.
func (c *chaos) strike(h *Host) {
	id := net.ConnID(0)
	if conns := h.Conns(); len(conns) > 0 {
		id = conns[c.chance.Intn(len(conns))]
	}
	other := chaosNames[c.chance.Intn(3)]
	switch c.chance.Weighted(100, 300, 20, 10, 10, 10, 10, 10, 15) {
	case 0:
		h.Submit([]net.Request{{Kind: net.RequestDial, Conn: c.nextID, Addr: other + ":1"}})
		c.nextID++
	case 1:
		h.Submit([]net.Request{{Kind: net.RequestSend, Conn: id, Data: make([]byte, c.chance.Intn(20000))}})
	case 2:
		h.Submit([]net.Request{{Kind: net.RequestKind(c.chance.Range(3, 6)), Conn: id}})
	case 3:
		c.w.Cut(h.name, other)
	case 4:
		c.w.HealAll()
	case 5:
		h.Reset(id)
	case 6:
		h.Silence(id)
	case 7:
		h.Crash(CrashKind(c.chance.Intn(2)))
	case 8:
		h.Restart()
		h.Listen(h.name+":1", net.PlanePeer)
	}
}

// check holds an event against what came before it.
func (c *chaos) check(h *Host, e net.Event) {
	key := fmt.Sprint(h.name, e.Conn)
	at, known := c.place[key]
	failedDial := e.Kind == net.EventClosed && e.Plane == net.PlaneDialed
	if at < 0 || (e.Kind == net.EventOpened) == known && !(failedDial && !known) {
		c.Fatalf("event %d of %s: known %v, %d bytes", e.Kind, key, known, at)
	}
	c.place[key] = at + len(e.Data)
	if e.Kind == net.EventClosed {
		c.place[key] = -1
	}
	fmt.Fprintln(c.hash, h.name, e.Kind, e.Conn, e.Cause, len(e.Data), e.Queued)
}

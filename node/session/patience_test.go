package session

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
)

// Goal: the wall clock, wherever it jumps, neither ends a lease nor a membership,
// nor keeps one alive.
func TestWallClock(t *testing.T) {
	for _, jump := range []int64{-3_600_000, 3_600_000} {
		w := newWorld(Config{})
		w.lead()
		p := w.connected(t, 1)
		c := &client{peer: p, subs: map[uint16]*clientSub{}}
		topic := w.declare(t, p, "t", 1)
		read := func() {
			w.endTurn()
			for _, f := range p.take() {
				c.learn(f)
			}
		}
		w.send(p, (&wire.Pub{TopicID: uint16(topic), Value: []byte("m")}).Append(nil))
		w.send(p, (&wire.Sub{Group: []byte("g"), TopicID: uint16(topic), Partition: wire.PartitionAny}).Append(nil))
		read()
		w.send(p, c.pullFrame(1, words{}))
		read()
		w.now.Wall += clock.WallMillis(jump)
		beat := func(seconds int) {
			for range seconds {
				w.pass(clock.Second)
				u := c.subs[1]
				m := wire.Heartbeat{SubscriptionID: 1, MemberID: u.member, MembershipEpoch: u.membership, AssignmentEpoch: u.assignment}
				w.send(p, m.Append(nil))
				read()
			}
		}
		beat(29)
		if x := w.s.Stats(); x.Expired != 0 || x.Subscriptions != 1 {
			t.Fatalf("after 29 s and a jump of %d ms: %+v", jump, x)
		}
		beat(1)
		if x := w.s.Stats(); x.Expired != 1 || x.Subscriptions != 1 {
			t.Fatalf("after 30 s and a jump of %d ms: %+v", jump, x)
		}
	}
}

// Goal: the patient clock runs with the monotonic one over gaps of at most a
// second while changes are taken, and stands still otherwise.
func TestPatience(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p patience
		now := clock.Reading{Mono: 5_000_000_000, Wall: 9}
		p.advance(now)
		begin, want := p.now, clock.Duration(0)
		for range rapid.IntRange(1, 40).Draw(t, "turns") {
			gap := clock.Duration(rapid.SampledFrom([]int64{0, 1, 500_000_000, 1_000_000_000, 1_000_000_001, 60_000_000_000}).Draw(t, "gap"))
			now.Mono = now.Mono.Add(gap)
			p.advance(now)
			if gap <= gapMax && !p.frozen {
				want += gap
			}
			p.frozen = rapid.Bool().Draw(t, "frozen")
			if p.now.Sub(begin) != want {
				t.Fatalf("%d, want %d", p.now.Sub(begin), want)
			}
			if at := p.next(p.now.Add(clock.Hour)); at <= now.Mono || at.Sub(now.Mono) > gapMax {
				t.Fatalf("next turn after %d", at.Sub(now.Mono))
			}
		}
	})
}

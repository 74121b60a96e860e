package sim

import (
	"fmt"

	"github.com/mortarmq/mortarmq/checker"
	"github.com/mortarmq/mortarmq/client/core"
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/sim/prng"
)

// producerSide is what a client publishes.
type producerSide struct {
	bursts  []burst
	gap     clock.Instant // not before: the pause between two publishes
	waiting []int         // publishes without outcome, by their place in the history
}

// burst is what is left of a publish event: n messages of size bytes, with one
// of keys keys (0: none), a pause of gap between two.
type burst struct {
	left, size, keys int64
	gap              clock.Duration
	rand             *prng.Rand
}

func (s *producerSide) ask(c *client, e *Event) {
	s.bursts = append(s.bursts, burst{
		left: e.Int("n", 1), size: min(e.Int("size", 100), 4<<20), keys: e.Int("keys", 0),
		gap: e.Span("gap", 0), rand: prng.New(e.Seed),
	})
	if c.core != nil {
		c.want()
	}
}

// pump publishes as long as the window is open.
func (s *producerSide) pump(c *client) {
	for c.ready && len(s.bursts) > 0 && len(s.waiting) < int(c.w.plan.Knob("inflight")) {
		if s.gap > c.w.now {
			c.deadline = min(c.deadline, s.gap)
			return
		}
		b := &s.bursts[0]
		s.publish(c, b)
		if b.left--; b.left <= 0 {
			s.bursts = s.bursts[1:]
		} else if b.gap > 0 && !c.w.calm {
			s.gap = c.w.now.Add(b.gap)
		}
	}
}

func (s *producerSide) publish(c *client, b *burst) {
	c.w.rec.messages++
	var key []byte
	if b.keys > 0 {
		key = fmt.Appendf(nil, "k%d", b.rand.Intn(int(b.keys)))
	}
	value := content(c.w.rec.messages, int(b.size))
	// The partition is known with the outcome, or from the final logs.
	i := c.w.rec.publish(checker.Publish{Client: c.id, Partition: checker.Partition{Topic: c.topicID()},
		Payload: identity(key, value), Call: checker.Time(c.w.now)})
	s.waiting = append(s.waiting, i)
	c.input(core.Input{Kind: core.InputPublish, Handle: handle, Ref: uint64(i), Partition: core.AnyPartition, Key: key, Value: value})
}

// outcome takes the end of a publish.
func (s *producerSide) outcome(c *client, p *core.Published) {
	i := int(p.Ref)
	for j, other := range s.waiting {
		if other == i {
			s.waiting = append(s.waiting[:j], s.waiting[j+1:]...)
			break
		}
	}
	h := &c.w.rec.h.Publishes[i]
	h.Partition.Partition = p.Partition
	h.ProducerID, h.ProducerSeq = p.ProducerID, p.ProducerSeq
	switch {
	case !p.Err.Failed():
		h.Outcome, h.Return = checker.OK, checker.Time(c.w.now)
		h.Sequence, h.Commit, h.Deduplicated = p.Sequence, p.CommitSeq, p.Deduplicated
		c.w.judge.acked(placed{op.TopicID(h.Partition.Topic), op.PartitionID(p.Partition), h.Payload})
	case !p.Err.Unknown:
		h.Outcome, h.Return, h.Code = checker.Refused, checker.Time(c.w.now), p.Err.Code
	}
}

// lost forgets what was under way: its outcome stays unknown.
func (s *producerSide) lost() { s.waiting = s.waiting[:0] }

func (s *producerSide) busy(c *client) string {
	if n := len(s.waiting); n > 0 && c.core != nil {
		return fmt.Sprintf("client %d waits for the outcome of %d publishes, message %x the first", c.id, n, c.w.rec.h.Publishes[s.waiting[0]].Payload)
	}
	if len(s.bursts) > 0 {
		return fmt.Sprintf("client %d has %d bursts to publish", c.id, len(s.bursts))
	}
	return ""
}

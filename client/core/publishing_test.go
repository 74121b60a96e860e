package core

import (
	"fmt"
	"testing"

	"github.com/mortarmq/mortarmq/client/internal/fakebroker"
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
	"pgregory.net/rapid"
)

// publisher is the state machine of TestPublishProperties.
type publisher struct {
	w     *world
	refs  uint64
	value map[uint64]string
	plain bool
}

// refusals are codes that the fake broker draws from: one of each retry class that a publish can get.
var refusals = []wire.Code{
	wire.CodeBackpressure, wire.CodeRateLimited, wire.CodeQuorumLost, wire.CodeLeaseExpired, wire.CodeInternal, wire.CodeUnknownTopic,
	wire.CodeStaleLeaderEpoch, wire.CodeUnknownOp, wire.Code(0x4FFF),
}

// Goal: under cuts at any byte, refusals of every class, cancels and connections that come alive again, each publish has
// exactly one outcome and it is true: C1 to C4 and C6.
func TestPublishProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		opt := Options{Addrs: []string{"a:1", "b:1"}[:rapid.IntRange(1, 2).Draw(t, "addrs")], Seed: rapid.Uint64().Draw(t, "seed"),
			MaxInFlight: rapid.SampledFrom([]int{1, 3, 0}).Draw(t, "inflight")}
		m := &publisher{w: newWorld(t, opt), value: map[uint64]string{}}
		m.w.broker.DefaultPartitions = 2
		m.plain = rapid.IntRange(0, 5).Draw(t, "plain") == 0
		m.w.producer(1, "orders", &ProducerOptions{Plain: m.plain})
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			m.step(t)
		}
		m.finish(t, rapid.Bool().Draw(t, "close"))
	})
}

func (m *publisher) step(t *rapid.T) {
	w := m.w
	n := rapid.SampledFrom([]int{1, 7, 60, 1 << 20})
	switch rapid.IntRange(0, 14).Draw(t, "step") {
	case 12, 13, 14:
		w.flow()
	case 0, 1, 2, 3:
		in := make([]Input, rapid.IntRange(1, 4).Draw(t, "burst"))
		for i := range in {
			m.refs++
			value := fmt.Sprint("m", m.refs)
			m.value[m.refs] = value
			in[i] = Input{Kind: InputPublish, Handle: 1, Ref: m.refs, Partition: uint16(rapid.IntRange(0, 1).Draw(t, "partition")), Value: []byte(value)}
		}
		w.turn(in...)
	case 4, 5, 6:
		if l := w.current(); l != nil {
			w.open(l)
			w.carryUp(l, n.Draw(t, "up"))
			w.carryDown(l, n.Draw(t, "down"))
		}
	case 7:
		if l := w.current(); l != nil {
			w.cut(l, rapid.IntRange(0, len(l.up)).Draw(t, "keep"))
		}
	case 8:
		code := rapid.SampledFrom(refusals).Draw(t, "code")
		info, known := code.Info()
		if after := rapid.Bool().Draw(t, "after"); after && (!known || info.Outcome == wire.OutcomeUnknown) {
			w.broker.RefuseAfter = once(wire.OpPub, code)
		} else {
			w.broker.Refuse = often(wire.OpPub, code, rapid.IntRange(1, 3).Draw(t, "times"))
		}
	case 9:
		w.wait(clock.Duration(rapid.IntRange(0, 30).Draw(t, "wait")) * clock.Second)
	case 10:
		if m.refs > 0 {
			w.turn(Input{Kind: InputCancel, Handle: 1, Ref: rapid.Uint64Range(1, m.refs).Draw(t, "cancel")})
		}
	case 11:
		for _, l := range w.links { // an old connection comes alive again
			if l.closing {
				w.carryUp(l, n.Draw(t, "old"))
			}
		}
	}
	if w.core.pubs > w.core.opt.MaxInFlight || w.core.pubs < 0 || w.core.pubBytes < 0 {
		t.Fatalf("C6: %d publishes of %d bytes in flight", w.core.pubs, w.core.pubBytes)
	}
}

func (m *publisher) finish(t *rapid.T, closed bool) {
	w := m.w
	if closed {
		w.turn(Input{Kind: InputClose})
	}
	w.broker.Refuse, w.broker.RefuseAfter = nil, nil
	w.until("all outcomes", func() bool { return len(w.outcomes) == int(m.refs) })
	for w.flow() { // what is still under way on old connections
	}
	w.checkBroken()
	if !closed && (w.core.pubs != 0 || w.core.pubBytes != 0) {
		// Abandoned items may still be on their way.
		w.until("nothing in flight", func() bool { return w.core.pubs == 0 && w.core.pubBytes == 0 })
	}
	count := map[string]int{}
	for _, p := range w.broker.Topic("orders").Partitions {
		for _, r := range p.Log {
			count[r.Value]++
		}
	}
	last := map[uint16]uint64{}
	for ref := uint64(1); ref <= m.refs; ref++ {
		m.judge(t, w.outcomes[ref][0], count[m.value[ref]], last)
	}
}

func (m *publisher) judge(t *rapid.T, o Published, count int, last map[uint16]uint64) {
	value := m.value[o.Ref]
	switch {
	case count > 1:
		t.Fatalf("C3: %s is in the log %d times", value, count)
	case o.Err.Failed() && !o.Err.Unknown && count > 0:
		t.Fatalf("C4: %s certainly failed (%+v) and is in the log", value, o.Err)
	case o.Err.Failed():
	case m.w.broker.Topic("orders").Partitions[o.Partition].Log[o.Sequence-1] != fakebroker.Record{ProducerID: o.ProducerID, ProducerSeq: o.ProducerSeq, Value: value}:
		t.Fatalf("C4: %s is not where its outcome says: %+v", value, o)
	case !m.plain && o.Sequence <= last[o.Partition]:
		t.Fatalf("C2: %s is before its predecessor: %+v", value, o)
	default:
		last[o.Partition] = o.Sequence
	}
}

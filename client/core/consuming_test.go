package core

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mortarmq/mortarmq/client/internal/fakebroker"
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
	"pgregory.net/rapid"
)

// consuming is the state machine of TestConsumeProperties.
type consuming struct {
	*application
	next Handle
}

// Goal: under cuts, refusals, rebalances, pauses and slow handlers everything is settled in the end, each handler is alone on
// its partition, nothing follows a confirmed revoke, and the credit adds up: C7 to C9.
func TestConsumeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, Options{Seed: rapid.Uint64().Draw(t, "seed"), BackoffMax: clock.Second})
		w.broker.DefaultPartitions = 3
		m := &consuming{application: newApplication(w, rapid.IntRange(1, 3).Draw(t, "handout"))}
		w.feed("orders", 0, 3)
		m.join(t)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			m.step(t)
			w.checkCredit()
			w.checkBroken()
		}
		m.finish(t)
	})
}

func (m *consuming) join(t *rapid.T) {
	m.next++
	m.consume(m.next, ConsumerOptions{
		CreditCount:   uint16(rapid.IntRange(1, 40).Draw(t, "credit")),
		CreditBytes:   uint32(rapid.IntRange(20, 200).Draw(t, "bytes")),
		ConfirmRevoke: rapid.Bool().Draw(t, "confirm"), StrictOrder: rapid.IntRange(0, 3).Draw(t, "strict") == 0,
	})
}

var consumerCodes = []wire.Code{
	wire.CodeBackpressure, wire.CodeQuorumLost, wire.CodeStaleLeaderEpoch, wire.CodeStaleGeneration, wire.CodeNotOwner, wire.CodeUnknownMember,
	wire.CodeNoCredit, wire.CodeStaleOwner, wire.CodeUnknownDelivery, wire.CodeSlowConsumer,
	wire.CodeInternal,
}

func (m *consuming) step(t *rapid.T) {
	w := m.w
	n := rapid.SampledFrom([]int{1, 7, 60, 1 << 20})
	switch rapid.IntRange(0, 17).Draw(t, "step") {
	case 0:
		w.feed("orders", rapid.IntRange(0, 2).Draw(t, "partition"), rapid.IntRange(1, 6).Draw(t, "n"))
	case 1, 2, 3:
		if len(m.have) > 0 {
			how := rapid.SampledFrom([]Settle{SettleAck, SettleAck, SettleAck, SettleRetry, SettleReject, SettleRelease, SettleDrop}).Draw(t, "how")
			delay := clock.Duration(rapid.SampledFrom([]int{0, 0, 100, 20000}).Draw(t, "delay")) * clock.Millisecond
			m.settle(rapid.IntRange(0, len(m.have)-1).Draw(t, "which"), how, delay)
		}
	case 4, 5, 6:
		if l := w.current(); l != nil {
			w.open(l)
			w.carryUp(l, n.Draw(t, "up"))
			w.carryDown(l, n.Draw(t, "down"))
		}
	case 7:
		if l := w.current(); l != nil && rapid.IntRange(0, 2).Draw(t, "really") == 0 {
			w.cut(l, rapid.IntRange(0, len(l.up)).Draw(t, "keep"))
		}
	case 8:
		op := rapid.SampledFrom([]wire.Op{wire.OpSub, wire.OpPull, wire.OpAck, wire.OpNack, wire.OpCredit, wire.OpControlAck, wire.OpHeartbeat}).Draw(t, "op")
		code := rapid.SampledFrom(consumerCodes).Draw(t, "code")
		if op == wire.OpSub && code == wire.CodeInternal {
			return // ends the consumer: TestConsumerCodes
		}
		w.broker.Refuse = often(op, code, rapid.IntRange(1, 3).Draw(t, "times"))
	case 9:
		w.wait(clock.Duration(rapid.SampledFrom([]int{10, 1000, 20000}).Draw(t, "wait")) * clock.Millisecond)
	case 10:
		if len(m.live) < 3 {
			m.join(t)
		} else {
			w.turn(Input{Kind: InputStopConsumer, Handle: m.live[0]})
		}
	case 11:
		if len(m.live) > 0 {
			kind := rapid.SampledFrom([]InputKind{InputPause, InputResume}).Draw(t, "kind")
			w.turn(Input{Kind: kind, Handle: rapid.SampledFrom(m.live).Draw(t, "handle")})
		}
	case 12:
		if len(m.have) > 0 {
			d := m.have[0]
			w.turn(Input{Kind: InputProgress, Handle: d.Consumer, Partition: d.Partition, Delivery: d.DeliveryID})
		}
	default:
		for range rapid.IntRange(1, 6).Draw(t, "flows") {
			w.flow()
		}
	}
}

func (m *consuming) finish(t *rapid.T) {
	w := m.w
	w.broker.Refuse = nil
	for _, h := range m.live {
		w.turn(Input{Kind: InputResume, Handle: h})
	}
	for h, e := range m.ended {
		if e.Kind != EventStopped {
			t.Fatalf("consumer %d failed: %+v", h, e)
		}
	}
	m.join(t)
	w.feed("orders", 1, 1)
	m.until("all settled", func() bool { g := w.broker.Group("g"); return g != nil && g.Unsettled() == 0 })
	w.checkCredit()
	for i, settled := range w.broker.Group("g").Settled {
		for seq, how := range settled {
			if value := fmt.Sprintf("%d/%d", i, seq); how == fakebroker.Acked && m.handled[value] == 0 {
				t.Fatalf("%s is acknowledged and was never handled", value)
			}
		}
	}
	for _, h := range slices.Clone(m.live) {
		w.turn(Input{Kind: InputStopConsumer, Handle: h})
	}
	m.until("all stopped", func() bool { return len(m.live) == 0 })
	if n := w.broker.Group("g").Members(); n > 0 {
		// Ghosts of cut connections are missed after 10 s.
		m.until("no members", func() bool { w.wait(clock.Second); return w.broker.Group("g").Members() == 0 })
	}
	w.checkBroken()
}

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

// application is the other side of the consumers: what it has been handed and what it was told.
type application struct {
	w       *world
	have    []Delivery // handed and not answered, oldest first
	owned   map[Handle]map[uint16]uint64
	revoked []Event // waiting for ConfirmRevoke
	ended   map[Handle]Event
	live    []Handle
	handled map[string]int // acknowledged, by value
	order   []string       // values in order of delivery
	handOut int
}

func newApplication(w *world, handOut int) *application {
	a := &application{w: w, owned: map[Handle]map[uint16]uint64{}, ended: map[Handle]Event{}, handled: map[string]int{}, handOut: handOut}
	w.onDeliv, w.onEvent = a.delivered, a.told
	return a
}

func (a *application) consume(h Handle, opt ConsumerOptions) {
	a.live = append(a.live, h)
	a.owned[h] = map[uint16]uint64{}
	opt.HandOut = a.handOut
	a.w.turn(Input{Kind: InputConsumer, Handle: h, Topic: "orders", Group: "g", Consumer: &opt})
}

func (a *application) delivered(d Delivery) {
	n := 0
	for _, o := range a.have {
		if o.Partition != d.Partition {
			continue
		}
		if o.Consumer == d.Consumer {
			n++
		} else if o.OwnershipEpoch == d.OwnershipEpoch {
			a.w.t.Fatalf("partition %d is handled by two members in epoch %d", d.Partition, d.OwnershipEpoch)
		}
		if o.DeliveryID == d.DeliveryID {
			a.w.t.Fatalf("delivery %x is handed out twice", d.DeliveryID)
		}
	}
	if n >= a.handOut {
		a.w.t.Fatalf("C8: %d deliveries of partition %d are out", n+1, d.Partition)
	}
	if epoch, ok := a.owned[d.Consumer][d.Partition]; !ok || epoch != d.OwnershipEpoch {
		a.w.t.Fatalf("a delivery of partition %d in epoch %d, which is not owned", d.Partition, d.OwnershipEpoch)
	}
	a.have = append(a.have, d)
	a.order = append(a.order, string(d.Value))
}

func (a *application) told(e Event) {
	switch e.Kind {
	case EventAssigned:
		if _, ok := a.owned[e.Handle][e.Partition]; ok {
			a.w.t.Fatalf("partition %d is assigned twice", e.Partition)
		}
		a.owned[e.Handle][e.Partition] = e.Epoch
	case EventRevoking:
		if a.owned[e.Handle][e.Partition] != e.Epoch {
			a.w.t.Fatalf("partition %d is revoked and was not owned", e.Partition)
		}
	case EventRevoked:
		for _, d := range a.have {
			if d.Consumer == e.Handle && d.Partition == e.Partition {
				a.w.t.Fatalf("partition %d is revoked while a delivery is out", e.Partition)
			}
		}
		delete(a.owned[e.Handle], e.Partition)
		a.revoked = append(a.revoked, e)
	case EventLost:
		delete(a.owned[e.Handle], e.Partition)
	case EventConsumerFailed, EventStopped:
		a.ended[e.Handle] = e
		a.live = slices.DeleteFunc(a.live, func(h Handle) bool { return h == e.Handle })
	}
}

// settle answers the i-th delivery that is out.
func (a *application) settle(i int, how Settle, delay clock.Duration) {
	d := a.have[i]
	a.have = slices.Delete(a.have, i, i+1)
	if how == SettleAck {
		a.handled[string(d.Value)]++
	}
	a.w.turn(Input{Kind: InputSettle, Handle: d.Consumer, Partition: d.Partition, Delivery: d.DeliveryID, Settle: how, Delay: delay, HasDelay: delay > 0})
}

// work acknowledges everything and confirms every revoke; false when there was nothing to do.
func (a *application) work() bool {
	did := len(a.have)+len(a.revoked) > 0
	for len(a.revoked) > 0 {
		e := a.revoked[0]
		a.revoked = a.revoked[1:]
		a.w.turn(Input{Kind: InputConfirmRevoke, Handle: e.Handle, Partition: e.Partition, Ref: e.Epoch})
	}
	for len(a.have) > 0 {
		a.settle(0, SettleAck, 0)
	}
	return did
}

// until lets broker, core and application go on until done.
func (a *application) until(what string, done func() bool) {
	a.w.t.Helper()
	a.w.until(what, func() bool {
		a.work()
		return done()
	})
}

func (w *world) feed(topic string, partition, n int) {
	t, _ := w.broker.Declare(topic, 0)
	for range n {
		p := t.Partitions[partition]
		w.broker.Publish(&wire.Pub{TopicID: t.ID, Partition: uint16(partition), Value: fmt.Appendf(nil, "%d/%d", partition, len(p.Log)+1)})
	}
	w.broker.Tick()
}

// checkCredit is C9: at any time the balance, what flies, what is to go back and what is here make the window.
func (w *world) checkCredit() {
	w.t.Helper()
	for _, s := range w.core.consumers {
		if s.state != stateMember {
			continue
		}
		sum := s.credit.available()
		sum.add(s.credit.back)
		for i := range s.parts {
			p := &s.parts[i]
			for j := range p.queue.n {
				sum.add(amount{1, int64(len(p.queue.at(j).Value))})
			}
			for _, h := range p.handed {
				if h.joined == s.generation {
					sum.add(amount{1, int64(h.bytes)})
				}
			}
		}
		if sum != s.credit.size || s.credit.balance.count < 0 || s.credit.balance.bytes < 0 {
			w.t.Fatalf("C9: the credit adds up to %+v: %+v", sum, s.credit)
		}
	}
}

// Goal: everything there is reaches the group, in order per partition, and is acknowledged once.
func TestConsume(t *testing.T) {
	w := newWorld(t, Options{})
	a := newApplication(w, 1)
	w.feed("orders", 0, 700)
	w.feed("orders", 3, 5)
	a.consume(1, ConsumerOptions{})
	a.until("all settled", func() bool { g := w.broker.Group("g"); return g != nil && g.Unsettled() == 0 })
	if len(a.order) != 705 || len(a.handled) != 705 {
		t.Fatalf("%d deliveries of %d messages", len(a.order), len(a.handled))
	}
	next := 1
	for _, v := range a.order {
		if v == fmt.Sprintf("0/%d", next) {
			next++
		}
	}
	if next != 701 {
		t.Fatalf("partition 0 is out of order at %d", next)
	}
	w.checkCredit()
	a.w.turn(Input{Kind: InputStopConsumer, Handle: 1})
	a.until("stopped", func() bool { return a.ended[1].Kind == EventStopped })
	if w.broker.Group("g").Members() != 0 {
		t.Fatal("the member did not leave")
	}
	w.checkBroken()
}

// Goal: an idle consumer sends no more than a PULL each wait, and stays a member.
func TestConsumeIdle(t *testing.T) {
	w := newWorld(t, Options{})
	a := newApplication(w, 1)
	w.feed("orders", 0, 1)
	a.consume(1, ConsumerOptions{})
	a.until("settled", func() bool { g := w.broker.Group("g"); return g != nil && g.Unsettled() == 0 })
	before := w.broker.Requests
	start := w.now
	for w.now.Sub(start) < clock.Minute {
		if !w.flow() {
			w.wait(100 * clock.Millisecond)
		}
	}
	pulls := w.broker.Requests[wire.OpPull] - before[wire.OpPull]
	others := w.broker.Requests[wire.OpHeartbeat] - before[wire.OpHeartbeat]
	if pulls > 30 || others > 0 || w.broker.Group("g").Members() != 1 {
		t.Fatalf("%d PULLs and %d HEARTBEATs in an idle minute", pulls, others)
	}
}

// Goal: a busy handler's membership is kept by HEARTBEAT, the leases of what waits by PROGRESS, and that of the message in
// hand is left to the handler.
func TestSlowHandler(t *testing.T) {
	w := newWorld(t, Options{})
	a := newApplication(w, 4)
	w.feed("orders", 0, 20)
	a.consume(1, ConsumerOptions{CreditCount: 20})
	w.until("deliveries", func() bool { return len(a.have) == 4 })
	start := w.now
	for w.now.Sub(start) < 2*clock.Minute {
		if !w.flow() {
			w.wait(100 * clock.Millisecond)
		}
	}
	g := w.broker.Group("g")
	for seq := uint64(2); seq <= 20; seq++ {
		if g.Delivered[0][seq] != 1 {
			t.Fatalf("message %d, which waited, was delivered %d times", seq, g.Delivered[0][seq])
		}
	}
	if w.broker.Requests[wire.OpHeartbeat] < 30 || g.Members() != 1 {
		t.Fatalf("%d HEARTBEATs", w.broker.Requests[wire.OpHeartbeat])
	}
	w.checkCredit()
	w.checkBroken()
}

// Goal: StrictOrder passes over nothing: behind a message that failed nothing is delivered until it is settled, also when its
// end is a dead letter.
func TestStrictOrder(t *testing.T) {
	w := newWorld(t, Options{})
	a := newApplication(w, 1)
	w.feed("orders", 0, 4)
	a.consume(1, ConsumerOptions{StrictOrder: true})
	g := func() *fakebroker.Group { return w.broker.Group("g") }
	for range 2 {
		w.until("delivery", func() bool { return len(a.have) == 1 })
		a.settle(0, SettleRetry, 0)
	}
	w.until("delivery", func() bool { return len(a.have) == 1 })
	a.settle(0, SettleAck, 0)
	w.until("delivery", func() bool { return len(a.have) == 1 })
	a.settle(0, SettleReject, 0)
	for range 5 {
		w.until("delivery", func() bool { return len(a.have) == 1 })
		a.settle(0, SettleRetry, clock.Minute)
	}
	start := w.now
	a.until("the rest", func() bool { return g().Unsettled() == 0 })
	if took := w.now.Sub(start); took > 2*clock.Second {
		t.Fatalf("waited %d ms for a dead letter", took.Millis())
	}
	if want := []string{"0/1", "0/1", "0/1", "0/2", "0/3", "0/3", "0/3", "0/3", "0/3", "0/4"}; !slices.Equal(a.order, want) {
		t.Fatalf("order %v", a.order)
	}
	w.checkBroken()
}

// Goal: a revoke is confirmed only behind the handler's end and the application's confirmation, and nothing is lost by it.
func TestRevoke(t *testing.T) {
	w := newWorld(t, Options{})
	a := newApplication(w, 1)
	for p := range 4 {
		w.feed("orders", p, 10)
	}
	a.consume(1, ConsumerOptions{ConfirmRevoke: true})
	w.until("deliveries", func() bool { return len(a.have) == 4 })
	a.consume(2, ConsumerOptions{})
	w.until("revokes", func() bool { return w.saw(EventRevoking) })
	for range 20 {
		w.flow()
	}
	if len(a.owned[1]) != 4 || len(a.owned[2]) != 0 {
		t.Fatalf("moved under the handlers: %v", a.owned)
	}
	for i := len(a.have) - 1; i >= 0; i-- {
		if a.have[i].Partition == 1 {
			a.settle(i, SettleAck, 0)
		}
	}
	w.until("the end of partition 1", func() bool { return len(a.revoked) == 1 })
	for range 20 {
		w.flow()
	}
	if len(a.owned[2]) != 0 {
		t.Fatal("moved before the confirmation")
	}
	a.until("all settled", func() bool { return w.broker.Group("g").Unsettled() == 0 })
	if len(a.owned[1]) != 2 || len(a.owned[2]) != 2 || len(a.handled) != 40 {
		t.Fatalf("%v, %d handled", a.owned, len(a.handled))
	}
	w.checkBroken()
}

// Goal: a partition that comes back under a new epoch while its old handler is still at work waits for it, and its credit
// comes back.
func TestRevokeTimeout(t *testing.T) {
	w := newWorld(t, Options{})
	a := newApplication(w, 1)
	w.feed("orders", 1, 10)
	a.consume(1, ConsumerOptions{CreditCount: 20})
	w.until("delivery", func() bool { return len(a.have) == 1 })
	a.consume(2, ConsumerOptions{})
	w.until("revoke", func() bool { return w.saw(EventRevoking) })
	w.turn(Input{Kind: InputStopConsumer, Handle: 2})
	w.until("the end of the revoke", func() bool { return a.owned[1][1] == 2 })
	for range 50 {
		if !w.flow() {
			w.wait(clock.Second)
		}
	}
	w.checkCredit()
	a.settle(0, SettleAck, 0)
	w.checkCredit()
	a.until("all settled", func() bool { return w.broker.Group("g").Unsettled() == 0 })
	if a.handled["1/1"] != 2 { // the first ACK came too late
		t.Fatalf("handled %d times", a.handled["1/1"])
	}
	w.checkCredit()
	w.checkBroken()
}

// Goal: a broker that refuses the very epochs that it told is left and joined again.
func TestStaleForEver(t *testing.T) {
	w := newWorld(t, Options{})
	a := newApplication(w, 1)
	w.feed("orders", 0, 10)
	stuck := true
	w.broker.Refuse = func(op wire.Op) (wire.Code, string) {
		if op == wire.OpHeartbeat {
			stuck = false
		}
		if op == wire.OpPull && stuck {
			return wire.CodeNotOwner, ""
		}
		return wire.CodeOK, ""
	}
	a.consume(1, ConsumerOptions{Heartbeat: clock.Hour})
	a.until("all settled", func() bool { g := w.broker.Group("g"); return g != nil && g.Unsettled() == 0 })
	if n := w.broker.Requests[wire.OpPull]; n > 40 {
		t.Fatalf("%d PULLs", n)
	}
	w.checkBroken()
}

// Goal: a handler that outlives its lease settles the redelivery that has come meanwhile, too.
func TestTwin(t *testing.T) {
	w := newWorld(t, Options{})
	a := newApplication(w, 1)
	w.feed("orders", 0, 1)
	a.consume(1, ConsumerOptions{CreditCount: 20})
	w.until("delivery", func() bool { return len(a.have) == 1 })
	w.until("redelivery", func() bool { return w.broker.Group("g").Delivered[0][1] == 2 })
	w.flow()
	a.settle(0, SettleAck, 0)
	w.until("settled", func() bool { return w.broker.Group("g").Unsettled() == 0 })
	for range 50 {
		if !w.flow() {
			w.wait(clock.Second)
		}
	}
	if len(a.order) != 1 {
		t.Fatalf("handled %d times", len(a.order))
	}
	w.checkCredit()
	w.checkBroken()
}

// Goal: a broker that answers each PULL at once with nothing is not asked in a loop.
func TestEmptyPulls(t *testing.T) {
	w := newWorld(t, Options{})
	w.broker.NoWait = true
	a := newApplication(w, 1)
	w.feed("orders", 0, 3)
	a.consume(1, ConsumerOptions{})
	a.until("settled", func() bool { g := w.broker.Group("g"); return g != nil && g.Unsettled() == 0 })
	before, start := w.broker.Requests[wire.OpPull], w.now
	for w.now.Sub(start) < 10*clock.Second {
		if !w.flow() {
			w.wait(clock.Second)
		}
	}
	if n := w.broker.Requests[wire.OpPull] - before; n > 110 {
		t.Fatalf("%d PULLs in 10 s", n)
	}
}

// Goal: what was handed out when a connection broke settles into nothing, holds its partition, and is handled again.
func TestLost(t *testing.T) {
	w := newWorld(t, Options{})
	a := newApplication(w, 1)
	w.feed("orders", 0, 3)
	a.consume(1, ConsumerOptions{CreditCount: 20})
	w.until("delivery", func() bool { return len(a.have) == 1 })
	w.cut(w.current(), 0)
	for range 100 {
		if !w.flow() {
			w.wait(clock.Second)
		}
	}
	if len(a.have) != 1 || len(a.owned[1]) != 4 {
		t.Fatalf("%d out, %v", len(a.have), a.owned)
	}
	w.checkCredit()
	a.settle(0, SettleAck, 0)
	if len(w.settled) != 1 || !w.settled[0].Lost {
		t.Fatalf("%+v", w.settled)
	}
	w.checkCredit()
	a.until("all settled", func() bool { return w.broker.Group("g").Unsettled() == 0 })
	if a.handled["0/1"] != 2 {
		t.Fatalf("handled %d times", a.handled["0/1"])
	}
	w.checkBroken()
}

// Goal: what a consumer cannot get over fails it with the code; what passes does not.
func TestConsumerCodes(t *testing.T) {
	for _, info := range wire.Codes() {
		for _, op := range []wire.Op{wire.OpSub, wire.OpPull, wire.OpAck, wire.OpCredit, wire.OpHeartbeat, wire.OpControlAck} {
			w := newWorld(t, Options{Addrs: []string{"a:1", "b:1"}})
			a := newApplication(w, 1)
			w.feed("orders", 0, 40)
			w.broker.Refuse = once(op, info.Code)
			a.consume(1, ConsumerOptions{CreditCount: 8})
			a.until(fmt.Sprintf("%s of %v: an end", info.Name, op), func() bool {
				g := w.broker.Group("g")
				return a.ended[1].Kind == EventConsumerFailed || g != nil && g.Unsettled() == 0
			})
			dies := info.Retry == wire.RetryNever && op != wire.OpAck && op != wire.OpControlAck
			if e := a.ended[1]; (e.Kind == EventConsumerFailed) != dies && !(op == wire.OpHeartbeat && e.Kind == EventInvalid) {
				t.Fatalf("%s of %v: %+v", info.Name, op, e)
			} else if dies && op != wire.OpHeartbeat && e.Err.Code != info.Code {
				t.Fatalf("%s of %v: %+v", info.Name, op, e)
			}
			w.checkCredit()
			w.checkBroken()
		}
	}
}

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
		w.broker.Refuse = often(op, rapid.SampledFrom(consumerCodes).Draw(t, "code"), rapid.IntRange(1, 3).Draw(t, "times"))
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

package core

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mortarmq/mortarmq/client/internal/fakebroker"
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
)

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
			if info.Code == wire.CodeInternal && op != wire.OpSub {
				if dies = false; w.saw(EventConsumerTrouble) != (op != wire.OpAck && op != wire.OpControlAck && op != wire.OpHeartbeat) {
					t.Fatalf("%v of %v: told %v", info.Name, op, w.saw(EventConsumerTrouble))
				}
			}
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

// Goal: a consumer whose PULLs get INTERNAL, because what it owns is damaged, stays a member, says so once and not with each
// answer, asks with pauses, and takes what comes as soon as something can come; a fault after that is told anew.
func TestGoesOnAfterInternal(t *testing.T) {
	w := newWorld(t, Options{BackoffMax: clock.Second})
	a := newApplication(w, 1)
	w.feed("orders", 0, 5)
	text := ""
	w.broker.Refuse = func(op wire.Op) (wire.Code, string) {
		if op == wire.OpPull && text != "" {
			return wire.CodeInternal, text
		}
		return wire.CodeOK, ""
	}
	told := func() (n int) {
		for _, e := range w.events {
			if e.Kind == EventConsumerTrouble {
				if n++; e.Handle != 1 || e.Err.Code != wire.CodeInternal || e.Err.Op != wire.OpPull || e.Err.Message == "" {
					t.Fatalf("%+v", e)
				}
			}
		}
		return n
	}
	minute := func() {
		for start := w.now; w.now.Sub(start) < clock.Minute; {
			if !w.flow() {
				w.wait(clock.Second)
			}
		}
	}
	text = "partition 0 cannot be read from sequence 1 on"
	a.consume(1, ConsumerOptions{})
	minute()
	if n := w.broker.Requests[wire.OpPull]; told() != 1 || n < 30 || n > 250 || len(a.live) != 1 {
		t.Fatalf("told %d times, %d PULLs, consumers %v", told(), n, a.live)
	}
	text = "partition 1 cannot be read from sequence 7 on"
	minute()
	text = ""
	a.until("all settled", func() bool { return w.broker.Group("g").Unsettled() == 0 })
	if told() != 2 || len(a.handled) != 5 {
		t.Fatalf("told %d times, %d handled", told(), len(a.handled))
	}
	text = "partition 1 cannot be read from sequence 7 on"
	minute()
	if told() != 3 || len(a.live) != 1 {
		t.Fatalf("told %d times", told())
	}
	w.checkCredit()
	w.turn(Input{Kind: InputStopConsumer, Handle: 1})
	a.until("stopped", func() bool { return a.ended[1].Kind == EventStopped })
	w.checkBroken()
}

// Goal: a paused consumer holds nothing: what its PULL still brings goes back free of charge, and a resume gets it.
func TestPausedHoldsNothing(t *testing.T) {
	w := newWorld(t, Options{})
	a := newApplication(w, 4)
	w.feed("orders", 0, 0)
	a.consume(1, ConsumerOptions{CreditCount: 20})
	w.until("a PULL that waits", func() bool { return w.broker.Requests[wire.OpPull] > 0 })
	w.turn(Input{Kind: InputPause, Handle: 1})
	w.feed("orders", 0, 10)
	for range 200 {
		if !w.flow() {
			w.wait(100 * clock.Millisecond)
		}
	}
	for i := range w.core.consumers[0].parts {
		if n := w.core.consumers[0].parts[i].queue.n; n != 0 {
			t.Fatalf("%d messages wait in a paused consumer", n)
		}
	}
	if len(a.have) != 0 {
		t.Fatalf("%d were handed out", len(a.have))
	}
	w.checkCredit()
	w.turn(Input{Kind: InputResume, Handle: 1})
	a.until("the rest", func() bool { return w.broker.Group("g").Unsettled() == 0 })
	w.checkBroken()
}

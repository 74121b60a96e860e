package core

import (
	"fmt"
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/wire"
)

// Goal: a publish reaches the log, in the partition of its key, in one write for one turn.
func TestPublish(t *testing.T) {
	w := newWorld(t, Options{})
	w.producer(1, "orders", nil)
	before := len(w.current().up)
	w.turn(
		Input{Kind: InputPublish, Handle: 1, Ref: 1, Partition: AnyPartition, Key: []byte("k"), Value: []byte("v1")},
		Input{Kind: InputPublish, Handle: 1, Ref: 2, Partition: AnyPartition, Key: []byte("k"), Value: []byte("v2")},
		Input{Kind: InputPublish, Handle: 1, Ref: 3, Partition: 3, Value: []byte("v3")},
	)
	if len(w.out.Requests) != 1 || before != 0 {
		t.Fatalf("three publishes of one turn leave in %d writes", len(w.out.Requests))
	}
	want := wire.Partition([]byte("k"), 4)
	for ref, value := range map[uint64]string{1: "v1", 2: "v2", 3: "v3"} {
		o := w.outcome(ref)
		if o.Err.Failed() || ref < 3 && o.Partition != want || ref == 3 && o.Partition != 3 {
			t.Fatalf("publish %d: %+v", ref, o)
		}
		if r := w.broker.Topic("orders").Partitions[o.Partition].Log[o.Sequence-1]; r.Value != value {
			t.Fatalf("publish %d is at %d: %q", ref, o.Sequence, r.Value)
		}
	}
	w.checkBroken()
}

// Goal: a value too large to copy goes out by itself, whole.
func TestPublishLarge(t *testing.T) {
	w := newWorld(t, Options{})
	w.producer(1, "orders", nil)
	value := string(make([]byte, 3<<20))
	w.publish(1, 1, 0, "", value)
	w.publish(1, 2, 0, "", "small")
	if o := w.outcome(2); o.Err.Failed() {
		t.Fatal(o.Err)
	}
	if log := w.broker.Topic("orders").Partitions[0].Log; len(log) != 2 || log[0].Value != value || log[1].Value != "small" {
		t.Fatal("the log differs")
	}
}

// Goal: each code of the registry ends a publish as its retry column says, and what is behind it is published all the same.
func TestPublishCodes(t *testing.T) {
	for _, info := range wire.Codes() {
		for _, after := range []bool{false, true} {
			w := newWorld(t, Options{Addrs: []string{"a:1", "b:1"}})
			w.producer(1, "orders", nil)
			if after {
				if info.Outcome == wire.OutcomeNo {
					continue
				}
				w.broker.RefuseAfter = once(wire.OpPub, info.Code)
			} else {
				w.broker.Refuse = once(wire.OpPub, info.Code)
			}
			for i := range 5 {
				w.publish(1, uint64(i), 0, "", fmt.Sprint(i))
			}
			var kept []string
			for i := range 5 {
				o := w.outcome(uint64(i))
				repeated := info.Retry == wire.RetryBackoff || info.Retry == wire.RetryLeader
				switch {
				case info.Close && o.Err.Unknown:
					// Those behind it were under way when the connection was closed, and what became of it is not known:
					// the broker does not know a producer whose sequence 1 it may not have.
				case i > 0 || repeated:
					if o.Err.Failed() {
						t.Fatalf("%s (after %v): publish %d: %+v", info.Name, after, i, o.Err)
					}
				case o.Err.Reason != ReasonRefused || o.Err.Code != info.Code || o.Err.Unknown != (info.Outcome == wire.OutcomeUnknown):
					t.Fatalf("%s (after %v): publish %d: %+v", info.Name, after, i, o.Err)
				}
				if !o.Err.Failed() || after {
					kept = append(kept, fmt.Sprint(i))
				}
			}
			var log []string
			for _, r := range w.broker.Topic("orders").Partitions[0].Log {
				log = append(log, r.Value)
			}
			if fmt.Sprint(log) != fmt.Sprint(kept) {
				t.Fatalf("%s (after %v): log %v, want %v", info.Name, after, log, kept)
			}
			w.checkBroken()
		}
	}
}

// Goal: a producer that the broker forgot gets SEQ_EXPIRED once and goes on under another id.
func TestForgottenProducer(t *testing.T) {
	w := newWorld(t, Options{})
	w.producer(1, "orders", nil)
	w.publish(1, 1, 0, "", "a")
	first := w.outcome(1)
	w.broker.Forget()
	w.publish(1, 2, 0, "", "b")
	w.publish(1, 3, 0, "", "c")
	if o := w.outcome(2); o.Err.Code != wire.CodeSeqExpired || o.Err.Unknown {
		t.Fatalf("%+v", o)
	}
	if o := w.outcome(3); o.Err.Failed() || o.ProducerID == first.ProducerID || o.ProducerSeq != 1 {
		t.Fatalf("%+v", o)
	}
	w.checkBroken()
}

// Goal: hints and refusals that name the leader are followed; nodes that do not know it are passed over.
func TestLeader(t *testing.T) {
	w := newWorld(t, Options{Addrs: []string{"a:1", "b:1", "c:1"}})
	w.down["a:1"] = true
	w.nodes["b:1"], w.nodes["c:1"], w.nodes["leader:1"], w.nodes["other:1"] = 1, 1, 2, 3
	w.broker.LeaderID, w.broker.LeaderAddr = 2, "leader:1"
	w.producer(1, "orders", nil)
	if w.current().addr != "leader:1" {
		t.Fatalf("connected to %s", w.current().addr)
	}
	w.publish(1, 1, 0, "", "a")
	w.outcome(1)
	// Deposed: it says who leads now.
	w.broker.LeaderID, w.broker.LeaderAddr = 3, "other:1"
	w.publish(1, 2, 0, "", "b")
	if o := w.outcome(2); o.Err.Failed() || o.Deduplicated || w.current().addr != "other:1" {
		t.Fatalf("%+v from %s", o, w.current().addr)
	}
	// Nobody leads for a while.
	w.broker.LeaderID, w.broker.LeaderAddr = wire.NoLeader, ""
	w.publish(1, 3, 0, "", "c")
	w.now = w.now.Add(clock.Second)
	w.turn()
	for range 50 {
		w.flow()
		w.wait(clock.Second)
	}
	dials := w.core.conn.next
	if dials > 120 {
		t.Fatalf("%d dials while nobody leads", dials)
	}
	w.broker.LeaderID, w.broker.LeaderAddr = 2, "leader:1"
	if o := w.outcome(3); o.Err.Failed() || w.current().addr != "leader:1" {
		t.Fatalf("%+v from %s", o, w.current().addr)
	}
	w.checkBroken()
}

// Goal: a refused token fails the client for good.
func TestAuthFailed(t *testing.T) {
	w := newWorld(t, Options{Token: []byte("wrong")})
	w.broker.Token = "right"
	w.turn(Input{Kind: InputProducer, Handle: 1, Topic: "orders"}, Input{Kind: InputDeclare, Ref: 7, Topic: "orders"})
	w.until("failure", func() bool { return w.saw(EventFailed) })
	for _, kind := range []EventKind{EventProducerFailed, EventDeclared} {
		if e := w.find(kind); e == nil || e.Err.Code != wire.CodeAuthFailed {
			t.Fatalf("event %d: %+v", kind, e)
		}
	}
	w.turn(Input{Kind: InputPublish, Handle: 1, Ref: 9})
	if o := w.outcome(9); o.Err.Code != wire.CodeAuthFailed {
		t.Fatalf("%+v", o)
	}
}

// Goal: a connection that goes silent while an answer is due is given up, an idle one is kept by PING.
func TestSilence(t *testing.T) {
	w := newWorld(t, Options{})
	w.producer(1, "orders", nil)
	first := w.current()
	for range 10 {
		w.now = w.now.Add(10 * clock.Second)
		w.turn()
		w.flow()
	}
	if w.broker.Requests[wire.OpPing] != 3 || w.current() != first {
		t.Fatalf("%d PINGs in 100 s", w.broker.Requests[wire.OpPing])
	}
	w.publish(1, 1, 0, "", "a")
	w.now = w.now.Add(21 * clock.Second)
	w.turn()
	if w.current() == first {
		t.Fatal("a silent connection is kept")
	}
	if o := w.outcome(1); o.Err.Failed() {
		t.Fatalf("%+v", o)
	}
}

// Goal: a topic is looked up without being declared, and declared only where asked for.
func TestMustExist(t *testing.T) {
	w := newWorld(t, Options{})
	w.turn(Input{Kind: InputProducer, Handle: 1, Topic: "orders", Producer: &ProducerOptions{MustExist: true}})
	w.until("failure", func() bool { return w.saw(EventProducerFailed) })
	if e := w.find(EventProducerFailed); e.Err.Code != wire.CodeUnknownTopic || len(w.broker.Topics) != 0 {
		t.Fatalf("%+v", e)
	}
	w.broker.Declare("orders", 7)
	w.producer(2, "orders", &ProducerOptions{MustExist: true})
	if e := w.find(EventProducerReady); e.TopicID != 1 || e.Partitions != 7 {
		t.Fatalf("%+v", e)
	}
}

// Goal: behind a sequence that will never be used, what was under way when the connection broke is published once, under
// another incarnation; behind one that nobody knows of, the same is Unknown.
func TestBrokenLane(t *testing.T) {
	for _, code := range []wire.Code{wire.CodeUnknownPartition, wire.CodeInternal} {
		w := newWorld(t, Options{})
		w.producer(1, "orders", nil)
		w.publish(1, 1, 0, "", "a")
		first := w.outcome(1)
		w.broker.Refuse = once(wire.OpPub, code)
		w.turn(Input{Kind: InputPublish, Handle: 1, Ref: 2, Value: []byte("b")}, Input{Kind: InputPublish, Handle: 1, Ref: 3, Value: []byte("c")})
		l := w.current()
		w.carryUp(l, 1<<20)
		for len(w.outcomes[2]) == 0 {
			w.carryDown(l, 1)
		}
		w.cut(l, 0)
		if o := w.outcomes[2][0]; o.Err.Code != code || o.Err.Unknown != (code == wire.CodeInternal) {
			t.Fatalf("%v: %+v", code, o)
		}
		w.publish(1, 4, 0, "", "d")
		o := w.outcome(3)
		if surely := code == wire.CodeUnknownPartition; surely && (o.Err.Failed() || o.ProducerID == first.ProducerID) || !surely && !o.Err.Unknown {
			t.Fatalf("%v: %+v", code, o)
		}
		if o := w.outcome(4); o.Err.Failed() || o.ProducerID == first.ProducerID {
			t.Fatalf("%v: %+v", code, o)
		}
	}
}

// Goal: after Close nothing follows, and nobody waits.
func TestClosed(t *testing.T) {
	w := newWorld(t, Options{})
	w.producer(1, "orders", nil)
	w.publish(1, 1, 0, "", "a")
	w.turn(Input{Kind: InputPublish, Handle: 1, Ref: 2}, Input{Kind: InputClose}, Input{Kind: InputPublish, Handle: 1, Ref: 3})
	if o := w.outcomes[1][0]; o.Err.Reason != ReasonClosed || !o.Err.Unknown {
		t.Fatalf("%+v", o)
	}
	for _, ref := range []uint64{2, 3} {
		if o := w.outcomes[ref][0]; o.Err.Reason != ReasonClosed || o.Err.Unknown {
			t.Fatalf("%+v", o)
		}
	}
	w.net(net.Event{Kind: net.EventBytes, Conn: 1, Data: []byte{1}})
	if len(w.out.Requests)+len(w.out.Events) > 0 || w.out.Deadline != clock.Never {
		t.Fatalf("something follows: %+v", w.out)
	}
}

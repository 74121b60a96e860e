package machine

import (
	"testing"

	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
	"pgregory.net/rapid"
)

// Goal: attempts used up: the message stays unsettled until DeadLetter, which
// writes the twin and settles at once and only once; an ACK before it wins.
func TestDeadLetterAttempts(t *testing.T) {
	l, o, _ := delivered(t, op.Settings{DeliveryMaxAttempts: 1}, 2)
	bury := o
	bury.Kind, bury.Topic, bury.Cause, bury.Key, bury.ProducerID = op.KindDeadLetter, 1, op.CauseAttempts, []byte("k"), 7
	l.refused(wire.CodeUnknownDelivery, bury)
	for i := range 2 {
		expire := o
		expire.Kind, expire.Sequence, expire.Delivery = op.KindExpire, op.Sequence(i+1), o.Delivery+op.DeliveryID(i)
		if r := l.must(expire); !r.Dead || r.Due != 0 {
			t.Fatalf("%+v", r)
		}
	}
	again := o
	again.Kind, again.Count, again.Delivery = op.KindDeliver, 1, 999
	if r := l.must(again); r.Count != 0 {
		t.Fatalf("a dead message is delivered: %+v", r)
	}
	if c := l.cursor(o.Group, 0); c.Dead != 2 || c.Unsettled != 2 {
		t.Fatalf("%+v", c)
	}
	ack := o
	ack.Kind, ack.Sequence, ack.Delivery = op.KindAck, 2, o.Delivery+1
	l.must(ack)
	late := bury
	late.Sequence, late.Delivery = 2, o.Delivery+1
	l.refused(wire.CodeUnknownDelivery, late)
	r := l.must(bury)
	if a := r.Append; !a.Present || a.Kind != RecordDeadLetter || a.Topic != 2 || a.Sequence != 1 || a.ProducerID != 7 {
		t.Fatalf("%+v", a)
	}
	l.refused(wire.CodeUnknownDelivery, bury)
	if c := l.cursor(o.Group, 0); c.Floor != 2 || c.Dropped != 1 || c.DLQ != 1 || c.Delivered != 1 || c.Dead != 0 {
		t.Fatalf("%+v", c)
	}
}

// Goal: a reject needs the delivery that is out, under the current ownership.
func TestReject(t *testing.T) {
	l, o, member := delivered(t, op.Settings{}, 3)
	reject := o
	reject.Kind, reject.Topic, reject.Cause = op.KindDeadLetter, 1, op.CauseReject
	wrong := reject
	wrong.Delivery += 100
	l.refused(wire.CodeUnknownDelivery, wrong)
	l.must(reject)
	l.refused(wire.CodeUnknownDelivery, reject)
	reject.Sequence, reject.Delivery = 2, o.Delivery+1
	nack := reject
	nack.Kind, nack.Reason = op.KindNack, op.NackRelease
	l.must(nack)
	l.refused(wire.CodeUnknownDelivery, reject)
	reject.Sequence, reject.Delivery = 3, o.Delivery+2
	l.must(op.Op{Kind: op.KindLeave, Group: o.Group, Member: member})
	l.refused(wire.CodeStaleOwner, reject)
	wrong = reject
	wrong.Topic = 2
	l.refused(wire.CodeUnknownTopic, wrong)
}

// Goal: a dead letter that dies again is settled as quarantined and written
// nowhere.
func TestQuarantine(t *testing.T) {
	l, o, _ := delivered(t, op.Settings{}, 1)
	reject := o
	reject.Kind, reject.Topic, reject.Cause = op.KindDeadLetter, 1, op.CauseReject
	l.must(reject)
	g, _ := l.join("dead", 2)
	d, own := l.deliver(g, 0, 1, 1)
	r := l.do(op.Op{Kind: op.KindDeadLetter, Topic: 2, Group: g, Sequence: 1, Delivery: d, Ownership: own, Cause: op.CauseReject})
	if r.Code != wire.CodeDLQPathOverflow || r.Append.Present {
		t.Fatalf("%+v", r)
	}
	if c := l.cursor(g, 0); c.Floor != 1 || c.Dropped != 1 || c.DLQ != 0 || c.Quarantined != 1 {
		t.Fatalf("%+v", c)
	}
}

// Goal: two groups that kill the same message each get their dead letter, and
// each of those is redriven once; purge takes what is left.
func TestRedrivePurge(t *testing.T) {
	l := newLog(t, op.Settings{})
	id := l.topic("t", 1)
	l.publish(id, 0, 1)
	for _, name := range []string{"a", "b", "c"} {
		g, _ := l.join(name, id)
		d, own := l.deliver(g, 0, 1, 1)
		l.must(op.Op{Kind: op.KindDeadLetter, Topic: id, Group: g, Sequence: 1, Delivery: d, Ownership: own, Cause: op.CauseReject})
	}
	redrive := op.Op{Kind: op.KindRedrive, Topic: id + 1, Sequence: 2, Value: []byte("v"), Flags: op.FlagQuorum}
	if a := l.must(redrive).Append; !a.Present || a.Topic != id || a.Sequence != 2 || a.Kind != RecordQuorum {
		t.Fatalf("%+v", a)
	}
	if r := l.must(redrive); r.Append.Present || !r.Deduplicated {
		t.Fatalf("%+v", r)
	}
	for s, want := range []DeadLetterState{DeadLetterNone, DeadLetterLive, DeadLetterRedriven, DeadLetterLive, DeadLetterNone} {
		if got := l.v.DeadLetter(id+1, 0, op.Sequence(s)); got != want {
			t.Errorf("dead letter %d: %v, want %v", s, got, want)
		}
	}
	redrive.Sequence = 4
	l.refused(wire.CodeUnknownDelivery, redrive)
	redrive.Topic = id
	l.refused(wire.CodeInvalidTopic, redrive)
	if r := l.must(op.Op{Kind: op.KindPurge, Topic: id + 1, Sequence: 99}); r.Count != 2 {
		t.Fatalf("%+v", r)
	}
	redrive.Topic, redrive.Sequence = id+1, 1
	l.refused(wire.CodeUnknownDelivery, redrive)
	redrive.Sequence = 2
	if r := l.must(redrive); r.Append.Present || !r.Deduplicated {
		t.Fatalf("redriven before it was purged: %+v", r)
	}
	for s, want := range []DeadLetterState{DeadLetterNone, DeadLetterPurged, DeadLetterRedriven, DeadLetterPurged, DeadLetterNone} {
		if got := l.v.DeadLetter(id+1, 0, op.Sequence(s)); got != want {
			t.Errorf("after the purge, dead letter %d: %v, want %v", s, got, want)
		}
	}
	if p, _ := l.v.Partition(id+1, 0); p.PurgedTo != 3 || p.Purged != 2 || p.Redriven != 1 || p.LastSeq != 3 {
		t.Fatalf("%+v", p)
	}
}

// Goal: marks are a set, kept as ranges with gaps between them.
func TestMarks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := &marks{}
		set := map[op.Sequence]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "n") {
			s := op.Sequence(rapid.IntRange(1, 40).Draw(t, "s"))
			if rapid.IntRange(0, 9).Draw(t, "what") == 9 {
				n := uint64(0)
				for x := range s + 1 {
					if set[x] {
						n++
					}
				}
				if got := k.upTo(s); got != n {
					t.Fatalf("%d up to %d, want %d", got, s, n)
				}
			} else if !set[s] {
				set[s] = true
				k.add(s)
			}
			for x := range op.Sequence(45) {
				if k.has(x) != set[x] {
					t.Fatalf("%d: %v in %v", x, set[x], k.ranges)
				}
			}
			for i := 1; i < len(k.ranges); i++ {
				if k.ranges[i].from <= k.ranges[i-1].to+1 {
					t.Fatalf("no gap: %v", k.ranges)
				}
			}
			if k.count != uint64(len(set)) {
				t.Fatal(k.count)
			}
		}
	})
}

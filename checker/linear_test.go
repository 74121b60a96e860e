package checker

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mortarmq/mortarmq/wire"
)

var part = Partition{Topic: 1}

func logOf(payloads ...uint64) Log {
	l := Log{Partition: part}
	for _, p := range payloads {
		l.Records = append(l.Records, Record{ProducerID: 7, ProducerSeq: p, Payload: p})
	}
	return l
}

func published(payload, sequence uint64, call, ret Time) Publish {
	return Publish{Partition: part, ProducerID: 7, ProducerSeq: payload, Payload: payload, Sequence: sequence, Commit: sequence, Call: call, Return: ret, Outcome: OK, Once: true}
}

// expect says that h breaks exactly the named properties, the first of them first.
func expect(t *testing.T, h *History, properties ...string) {
	t.Helper()
	v := Check(h, Options{})
	var got []string
	for _, f := range v.Findings {
		if len(got) == 0 || got[len(got)-1] != f.Property {
			got = append(got, f.Property)
		}
	}
	if strings.Join(got, " ") != strings.Join(properties, " ") || len(v.Inconclusive) > 0 {
		t.Fatalf("got %v, want %v: %+v %v", got, properties, v.Findings, v.Inconclusive)
	}
}

// Goal: a sound history holds, unknown outcomes and repeats included.
func TestLinearHolds(t *testing.T) {
	lost := Publish{Partition: part, ProducerID: 7, ProducerSeq: 3, Payload: 3, Call: 25, Return: Forever}
	again := published(2, 2, 40, 50)
	again.Deduplicated = true
	gap := Publish{Partition: part, ProducerID: 7, ProducerSeq: 9, Payload: 9, Call: 60, Return: 61, Outcome: Refused, Code: wire.CodeSeqGap, Once: true}
	h := &History{Publishes: []Publish{published(1, 1, 10, 20), published(2, 2, 15, 30), lost, again, gap}, Logs: []Log{logOf(1, 2, 3)}}
	expect(t, h)
}

// Goal: an append acknowledged before an earlier record was even asked for is found.
func TestLinearOrder(t *testing.T) {
	h := &History{Publishes: []Publish{published(2, 2, 10, 20), published(1, 1, 30, 40)}, Logs: []Log{logOf(1, 2)}}
	expect(t, h, PropertyLinear)
}

// Goal: a duplicate answered before its record could be there is found, and so
// is a read of what nobody had asked for yet.
func TestLinearDedupAndRead(t *testing.T) {
	dup := published(1, 1, 5, 8)
	dup.Deduplicated = true
	expect(t, &History{Publishes: []Publish{dup, published(1, 1, 10, 20)}, Logs: []Log{logOf(1)}}, PropertyLinear)
	early := Delivery{Group: "g", Partition: part, Sequence: 1, Payload: 1, Attempt: 1, At: 5}
	expect(t, &History{Publishes: []Publish{published(1, 1, 10, 20)}, Deliveries: []Delivery{early}, Logs: []Log{logOf(1)}}, PropertyLinear)
}

// Goal: a record that two publishes are said to have appended is found.
func TestLinearTwoAppends(t *testing.T) {
	expect(t, &History{Publishes: []Publish{published(1, 1, 10, 20), published(1, 1, 30, 40)}, Logs: []Log{logOf(1)}}, PropertyLinear)
}

// Goal: refusals are held against what the log held: a gap where there was none,
// and a sequence called expired that was the next one.
func TestLinearRefusals(t *testing.T) {
	gap := Publish{Partition: part, ProducerID: 7, ProducerSeq: 3, Payload: 9, Call: 30, Return: 40, Outcome: Refused, Code: wire.CodeSeqGap, Once: true}
	expect(t, &History{Publishes: []Publish{published(1, 1, 10, 20), gap}, Logs: []Log{logOf(1)}})
	gap.ProducerSeq = 2
	expect(t, &History{Publishes: []Publish{published(1, 1, 10, 20), gap}, Logs: []Log{logOf(1)}}, PropertyLinear)
	expired := gap
	expired.Code, expired.ProducerSeq = wire.CodeSeqExpired, 2
	expect(t, &History{Publishes: []Publish{published(1, 1, 10, 20), expired}, Logs: []Log{logOf(1)}}, PropertyLinear)
}

// Goal: when the budget is gone the check says so; it neither passes nor fails.
func TestLinearBudget(t *testing.T) {
	h := &History{Publishes: []Publish{published(1, 1, 10, 20), published(2, 2, 10, 20)}, Logs: []Log{logOf(1, 2)}}
	v := Check(h, Options{Steps: 1})
	if len(v.Findings) != 0 || len(v.Inconclusive) != 1 {
		t.Fatalf("%+v", v)
	}
}

// Goal: a history beyond the operations that the search takes is cut where the
// cut changes nothing.
func TestLinearCut(t *testing.T) {
	h := &History{}
	var payloads []uint64
	for i := range uint64(linearOperationsMax + 500) {
		// Neighbours swap places: the later call has the earlier record.
		at := Time(i / 2 * 100)
		h.Publishes = append(h.Publishes, published(i+1, (i^1)+1, at+Time(i%2), at+50))
		payloads = append(payloads, (i^1)+1)
	}
	h.Logs = []Log{logOf(payloads...)}
	expect(t, h)
}

// Goal: the direct check and porcupine agree on any small history.
func TestLinearAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "records")
		var payloads []uint64
		for i := range n {
			payloads = append(payloads, uint64(i+1))
		}
		l := logOf(payloads...)
		h := &History{Logs: []Log{l}}
		for i := range n {
			p := published(uint64(i+1), uint64(i+1), Time(rapid.IntRange(0, 20).Draw(t, "call")), 0)
			p.Return = p.Call + Time(rapid.IntRange(0, 12).Draw(t, "took"))
			if rapid.Bool().Draw(t, "unknown") {
				p.Outcome, p.Return = Unknown, Forever
			}
			h.Publishes = append(h.Publishes, p)
		}
		for range rapid.IntRange(0, 4).Draw(t, "extras") {
			s := uint64(rapid.IntRange(1, n).Draw(t, "sequence"))
			at := Time(rapid.IntRange(0, 30).Draw(t, "at"))
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				h.Deliveries = append(h.Deliveries, Delivery{Group: "g", Partition: part, Sequence: s, Payload: s, At: at, Attempt: 2})
			case 1:
				p := published(s, s, at, at+3)
				p.Deduplicated = true
				h.Publishes = append(h.Publishes, p)
			default:
				h.Publishes = append(h.Publishes, Publish{Partition: part, ProducerID: 7, ProducerSeq: s + 1, Payload: 99, Call: at, Return: at + 2, Outcome: Refused, Code: wire.CodeSeqGap, Once: true})
			}
		}
		x := newIndex(h)
		chain := chainOf(&h.Logs[0])
		ops := linearOps(x, &h.Logs[0], chain)
		found, earliest := direct(x, &h.Logs[0], ops)
		ok, conclusive := search(ops, chain, 1_000_000)
		if len(found) == 0 {
			if tight, _ := search(tighten(ops, earliest), chain, 1_000_000); !tight {
				t.Fatalf("tightening took an order away from %+v", ops)
			}
		}
		if !conclusive || ok != (len(found) == 0) {
			t.Fatalf("porcupine %v (conclusive %v), direct %v of %+v", ok, conclusive, found, ops)
		}
	})
}

package session

import (
	"testing"

	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// nullBroker applies every op at once and keeps nothing.
type nullBroker struct {
	*world
	refs []Ref
	ops  []op.Op
}

func (b *nullBroker) Propose(o *op.Op, ref Ref) wire.Code {
	b.refs = append(b.refs, ref)
	b.ops = append(b.ops, op.Op{Kind: o.Kind, Topic: o.Topic, Partition: o.Partition, ProducerID: o.ProducerID, ProducerSeq: o.ProducerSeq})
	return wire.CodeOK
}

// Goal: in steady state the way of a publish from bytes to answer allocates
// nothing in this package.
func TestPublishAllocates(t *testing.T) {
	if fault.Enabled {
		t.Skip("asking for planted bugs allocates")
	}
	w := newWorld(Config{})
	w.lead()
	p := w.connected(t, 1)
	topic := w.declare(t, p, "t", 4)
	b := &nullBroker{world: w}
	w.s.broker = b

	m := wire.Pub{TopicID: uint16(topic), Partition: wire.PartitionAny, Value: make([]byte, 1024)}
	var frames []byte
	const batch = 64
	for range batch {
		frames = m.Append(frames)
	}
	ev := net.Event{Kind: net.EventBytes, Conn: 1, Data: frames}
	var reqs []net.Request
	h := op.Header{Epoch: 1}
	round := func() {
		w.s.OnEvent(w.now, &ev)
		reqs = w.s.EndTurn(w.now, reqs[:0])
		for k := range b.refs {
			res := machine.Result{Sequence: 1, LeaderEpoch: 1, CommitSeq: 1}
			w.s.OnApplied(w.now, &h, &b.ops[k], &res, b.refs[k])
		}
		b.refs, b.ops = b.refs[:0], b.ops[:0]
		reqs = w.s.EndTurn(w.now, reqs[:0])
		if len(reqs) != 1 || len(reqs[0].Data) != batch*36 {
			t.Fatalf("%d requests", len(reqs))
		}
	}
	round()
	if n := testing.AllocsPerRun(50, round); n != 0 {
		t.Fatalf("%v allocations per %d publishes", n, batch)
	}
}

// BenchmarkPublish is one PUB through this package: decode, propose, answer.
func BenchmarkPublish(b *testing.B) {
	w := newWorld(Config{})
	w.lead()
	p := w.connected(b, 1)
	topic := w.declare(b, p, "t", 4)
	nb := &nullBroker{world: w}
	w.s.broker = nb
	m := wire.Pub{TopicID: uint16(topic), Partition: 1, Value: make([]byte, 1024)}
	const batch = 16
	var frames []byte
	for range batch {
		frames = m.Append(frames)
	}
	ev := net.Event{Kind: net.EventBytes, Conn: 1, Data: frames}
	var reqs []net.Request
	h := op.Header{Epoch: 1}
	b.ReportAllocs()
	for b.Loop() {
		w.s.OnEvent(w.now, &ev)
		for k := range nb.refs {
			res := machine.Result{Sequence: 1, LeaderEpoch: 1, CommitSeq: 1}
			w.s.OnApplied(w.now, &h, &nb.ops[k], &res, nb.refs[k])
		}
		nb.refs, nb.ops = nb.refs[:0], nb.ops[:0]
		reqs = w.s.EndTurn(w.now, reqs[:0])
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/pub")
}

// silentBroker applies every op to the machine from slots that are used again.
type silentBroker struct {
	*world
	buf  []byte
	refs []Ref
	ends []int
	h    op.Header
	o    op.Op
	res  machine.Result
}

func (b *silentBroker) Propose(o *op.Op, ref Ref) wire.Code {
	b.buf = o.Append(b.buf)
	b.refs = append(b.refs, ref)
	b.ends = append(b.ends, len(b.buf))
	return wire.CodeOK
}

// flush ends the turn, applies what it proposed and ends that turn too.
func (w *world) flush(b *silentBroker) {
	w.endTurn()
	b.applyAll()
	w.endTurn()
}

// round is consumer.round with this broker.
func (b *silentBroker) round(t testing.TB, k *consumer) int {
	n := k.round(t)
	b.applyAll()
	k.reqs = b.s.EndTurn(b.now, k.reqs[:0])
	return n
}

func (b *silentBroker) applyAll() {
	at := 0
	for i, ref := range b.refs {
		b.number++
		b.h = op.Header{Number: b.number, Epoch: b.epoch, LogTime: b.LogTime(), Ops: 1}
		if _, err := b.o.Decode(b.buf[at:b.ends[i]]); err != nil {
			panic(err)
		}
		at = b.ends[i]
		b.m.Apply(&b.h, &b.o, &b.res)
		b.s.OnApplied(b.now, &b.h, &b.o, &b.res, ref)
	}
	b.buf, b.refs, b.ends = b.buf[:0], b.refs[:0], b.ends[:0]
}

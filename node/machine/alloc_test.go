package machine

import (
	"runtime"
	"testing"

	"github.com/mortarmq/mortarmq/node/op"
)

// publishes is a workload: one record after the other over 4 partitions, by a
// thousand producers that take turns.
type publishes struct {
	l   *log
	id  op.TopicID
	n   int
	seq [1000][4]uint64
}

func newPublishes(t testing.TB) *publishes {
	l := newLog(t, op.Settings{})
	return &publishes{l: l, id: l.topic("t", 4)}
}

func (p *publishes) next(o *op.Op, res *Result) {
	pid, part := p.n/7%1000, p.n%4
	p.seq[pid][part]++
	*o = op.Op{Kind: op.KindPublish, Topic: p.id, Partition: op.PartitionID(part), ProducerID: uint64(pid + 1), ProducerSeq: p.seq[pid][part], Timestamp: uint64(p.n)}
	p.l.h.Number++
	p.l.m.Apply(&p.l.h, o, res)
	p.n++
}

// Goal: a million publishes cost fewer than 0.01 allocations each, from the
// first one on.
func TestPublishAllocates(t *testing.T) {
	p := newPublishes(t)
	var o op.Op
	var res Result
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const n = 1_000_000
	for range n {
		p.next(&o, &res)
		if !res.Append.Present {
			t.Fatalf("%+v", res)
		}
	}
	runtime.ReadMemStats(&after)
	per := float64(after.Mallocs-before.Mallocs) / n
	t.Logf("%.5f allocations per publish, %d KiB of windows", per, p.l.v.WindowBytes()>>10)
	if per >= 0.01 {
		t.Fatalf("%.5f allocations per publish", per)
	}
	if err := p.l.m.Check(); err != nil {
		t.Fatal(err)
	}
}

// consumer delivers and acknowledges a partition in runs of 64.
type consumer struct {
	l    *log
	id   op.TopicID
	g    op.GroupID
	next op.Sequence
	d    op.DeliveryID
}

func newConsumer(t testing.TB) *consumer {
	l := newLog(t, op.Settings{})
	c := &consumer{l: l, id: l.topic("t", 1), next: 1, d: 1}
	c.g, _ = l.join("g", c.id)
	return c
}

func (c *consumer) round(o *op.Op, res *Result) {
	apply := func() {
		c.l.h.Number++
		c.l.m.Apply(&c.l.h, o, res)
	}
	for range 64 {
		*o = op.Op{Kind: op.KindPublish, Topic: c.id}
		apply()
	}
	*o = op.Op{Kind: op.KindDeliver, Group: c.g, Sequence: c.next, Count: 64, Delivery: c.d, Ownership: 1}
	apply()
	for i := range 64 {
		*o = op.Op{Kind: op.KindAck, Group: c.g, Sequence: c.next + op.Sequence(i), Delivery: c.d + op.DeliveryID(i), Ownership: 1}
		apply()
	}
	c.next += 64
	c.d += 64
}

// Goal: delivering and settling allocates nothing in a steady state.
func TestSettleAllocates(t *testing.T) {
	c := newConsumer(t)
	var o op.Op
	var res Result
	c.round(&o, &res)
	if n := testing.AllocsPerRun(100, func() { c.round(&o, &res) }); n != 0 {
		t.Fatalf("%v allocations per 64 messages", n)
	}
	if v := c.l.cursor(c.g, 0); v.Delivered != uint64(c.next-1) {
		t.Fatalf("%+v", v)
	}
}

func BenchmarkPublish(b *testing.B) {
	p := newPublishes(b)
	var o op.Op
	var res Result
	b.ReportAllocs()
	for b.Loop() {
		p.next(&o, &res)
	}
}

// BenchmarkSettle is one publish, its share of a Deliver of 64, and one ACK.
func BenchmarkSettle(b *testing.B) {
	c := newConsumer(b)
	var o op.Op
	var res Result
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n%64 == 0 {
			c.round(&o, &res)
		}
		n++
	}
}

// Goal: a million messages unsettled stay small, and a checkpoint of them comes
// in pieces of about the limit and loads to the same state.
func TestMillionUnsettled(t *testing.T) {
	if testing.Short() {
		t.Skip("large")
	}
	l := newLog(t, op.Settings{})
	m := l.m
	id := l.topic("t", 16)
	g, _ := l.join("g", id)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var res Result
	for p := range op.PartitionID(16) {
		for range 65_536 {
			m.Apply(&l.h, &op.Op{Kind: op.KindPublish, Topic: id, Partition: p}, &res)
		}
		m.Apply(&l.h, &op.Op{Kind: op.KindDeliver, Group: g, Partition: p, Sequence: 1, Count: 65_536, Delivery: op.DeliveryID(p)<<20 + 1, Ownership: 1}, &res)
		if res.Count != 65_536 {
			t.Fatalf("%+v", res)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if used := (after.HeapAlloc - before.HeapAlloc) >> 20; used > 100 {
		t.Fatalf("%d MiB", used)
	}
	m.BeginCheckpoint()
	loaded := New()
	if err := loaded.LoadMetadata(m.EncodeMetadata(nil)); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []PieceKind{PieceLog, PieceCursor} {
		for done := false; !done; {
			var b []byte
			if b, done = m.NextCheckpointPiece(kind, nil, 1<<16); len(b) > 1<<17 {
				t.Fatalf("a piece of %d bytes", len(b))
			}
			err := loaded.LoadLogPiece
			if kind == PieceCursor {
				err = loaded.LoadCursorPiece
			}
			if err := err(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := loaded.FinishLoad(); err != nil {
		t.Fatal(err)
	}
	if loaded.Digest() != m.Digest() {
		t.Fatal("differs")
	}
	runtime.KeepAlive(m)
}

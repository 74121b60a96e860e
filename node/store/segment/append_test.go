package segment

import (
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

var nullCompletion disk.Completion

// nullDisk completes everything with success and keeps nothing.
func nullDisk(s *Set, reqs []disk.Request) []disk.Request {
	var ev Event
	for s.Next(&ev) {
	}
	for {
		reqs = s.Take(reqs[:0])
		if len(reqs) == 0 {
			return reqs
		}
		for i := range reqs {
			r := &reqs[i]
			nullCompletion = disk.Completion{Tag: r.Tag, Kind: r.Kind, Handle: r.Handle, N: int64(len(r.Buf)), Buf: r.Buf}
			s.Complete(&nullCompletion)
		}
	}
}

// Goal: appending, writing behind and reading the tail allocate nothing in
// steady state, segments rolling excepted.
func TestAppendAllocates(t *testing.T) {
	s := New(Options{TailBytesMax: 32 << 20, SegmentMaxBytes: 1 << 30})
	const partitions = 8
	for part := range op.PartitionID(partitions) {
		s.CreatePartition(1, part)
	}
	value := make([]byte, 1000)
	seq := op.Sequence(0)
	var reqs []disk.Request
	var now clock.Instant
	turn := func() {
		now += clock.Instant(clock.Millisecond)
		s.Tick(now)
		for range 16 {
			seq++
			for part := range op.PartitionID(partitions) {
				r := format.Record{Sequence: seq, Timestamp: 1, Value: value}
				s.Append(1, part, &r)
				if _, st := s.Read(1, part, seq); st != Hit {
					t.Fatal(st)
				}
			}
		}
		reqs = nullDisk(s, reqs)
	}
	for range 3000 {
		turn()
	}
	if n := testing.AllocsPerRun(500, turn); n > 0 {
		t.Fatalf("%v allocations per turn of %d appends", n, 16*partitions)
	}
}

// Goal: memory and open files stay in their bounds with many partitions, and
// idle ones hold no chunk.
func TestManyPartitions(t *testing.T) {
	o := Options{TailBytesMax: 1 << 20, HandlesMax: 64}
	s := New(o)
	const partitions = 3000
	for i := range partitions {
		s.CreatePartition(op.TopicID(i/1000*2+1), op.PartitionID(i%1000))
	}
	var reqs []disk.Request
	var now clock.Instant
	for seq := op.Sequence(1); seq <= 5; seq++ {
		for i := range partitions {
			r := format.Record{Sequence: seq, Timestamp: 1, Value: make([]byte, 100)}
			s.Append(op.TopicID(i/1000*2+1), op.PartitionID(i%1000), &r)
			if i%100 == 0 {
				reqs = nullDisk(s, reqs)
				if s.dirtyCap+s.clean.bytes > 2*o.TailBytesMax || len(s.files) > o.HandlesMax+2*writersMax {
					t.Fatalf("%d bytes not written, %d kept, %d files", s.dirtyCap, s.clean.bytes, len(s.files))
				}
			}
		}
	}
	now = now.Add(2 * clock.Second)
	s.Tick(now)
	nullDisk(s, reqs)
	if s.DirtyBytes() != 0 || s.dirtyCap != 0 || s.clean.bytes > o.TailBytesMax {
		t.Fatalf("%d bytes not written, %d kept", s.DirtyBytes(), s.clean.bytes)
	}
}

// Goal: a flush is not held up by what is appended after it, and answers in
// order.
func TestFlushWhileAppending(t *testing.T) {
	w := newWorld(t, 5, smallOptions())
	w.recover(nil)
	w.s.CreatePartition(1, 0)
	seq := op.Sequence(0)
	add := func(n int) {
		for range n {
			seq++
			r := record(1, 0, seq, 3000)
			w.s.Append(1, 0, &r)
		}
	}
	add(50)
	w.s.Flush(1)
	w.s.Flush(2)
	flushed := 0
	for turns := 0; flushed < 2; turns++ {
		if turns > 2000 {
			t.Fatal("appending starves the flush")
		}
		add(1)
		w.pass(w.now.Add(clock.Millisecond))
		for _, ev := range w.events {
			if ev.Kind == EventFlushed {
				flushed++
				if int(ev.Token) != flushed {
					t.Fatalf("token %d came as number %d", ev.Token, flushed)
				}
			}
		}
		w.events = w.events[:0]
	}
}

func BenchmarkAppend(b *testing.B) {
	s := New(Options{})
	s.CreatePartition(1, 0)
	value := make([]byte, 1000)
	var reqs []disk.Request
	b.SetBytes(1056)
	b.ReportAllocs()
	for i := range b.N {
		r := format.Record{Sequence: op.Sequence(i + 1), Timestamp: 1, Value: value}
		s.Append(1, 0, &r)
		if i%64 == 0 {
			reqs = nullDisk(s, reqs)
		}
	}
}

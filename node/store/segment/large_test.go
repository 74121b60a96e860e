package segment

import (
	"testing"

	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/sim/prng"
	"github.com/mortarmq/mortarmq/sim/simdisk"
)

// Goal: in one large segment with records of every size, the largest included,
// an index of many pieces leads to each record, whether the segment is active
// or sealed, and recovery reads little of it.
func TestLargeSegment(t *testing.T) {
	o := Options{SegmentMaxBytes: 64 << 20, TailBytesMax: 1, ReadCacheBytes: 1, Owner: 1}
	w := newWorld(t, 11, o)
	w.recover(nil)
	w.s.CreatePartition(1, 0)
	chance := prng.New(4)
	sizes := []int{}
	add := func(size int) {
		sizes = append(sizes, size)
		r := record(1, 0, op.Sequence(len(sizes)), size)
		w.s.Append(1, 0, &r)
		if len(sizes)%50 == 0 {
			w.pass(w.now + 1e6)
		}
	}
	for range 3000 { // dense, then sparse: guesses by proportion go wrong
		add(chance.Intn(200))
	}
	for range 1800 {
		add(4000 + chance.Intn(5000))
	}
	add(16<<20 - 1024)
	add(5)
	at := w.flush(1)
	check := func(n int) {
		t.Helper()
		for range n {
			seq := op.Sequence(chance.Intn(len(sizes)) + 1)
			if chance.Bool(100) {
				seq = 4801
			}
			want := record(1, 0, seq, sizes[seq-1])
			if got, st := w.read(1, 0, seq); st != Hit || !same(&got, &want) {
				t.Fatalf("sequence %d: status %d", seq, st)
			}
		}
	}
	check(100)
	if p := w.s.find(1, 0); len(p.segments) != 1 || p.entries < 3*probeEntries {
		t.Fatalf("%d segments, %d entries", len(p.segments), p.entries)
	}
	before := w.d.Counters().ReadBytes
	w.crash(simdisk.PowerLoss, at)
	// The largest record is in the tail that is checked; nothing else is large.
	if read := w.d.Counters().ReadBytes - before; read > 17<<20 {
		t.Fatalf("recovery read %d bytes", read)
	}
	check(50)
	for range 5 {
		add(10 << 20)
	}
	at = w.flush(2)
	before = w.d.Counters().ReadBytes
	w.crash(simdisk.Kill, at)
	if read := w.d.Counters().ReadBytes - before; read > 11<<20 {
		t.Fatalf("recovery read %d bytes", read)
	}
	if p := w.s.find(1, 0); len(p.segments) != 2 {
		t.Fatalf("%d segments", len(p.segments))
	}
	check(50)
	w.d.Lose("topics/1/0/" + format.SegmentName(1, format.IndexSuffix))
	w.boot()
	w.d.Crash(simdisk.Kill)
	w.d.Restart()
	w.recover(at)
	check(20)
}

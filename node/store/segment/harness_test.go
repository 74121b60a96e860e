package segment

import (
	"bytes"
	"errors"
	"io"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/format/verify"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/sim/simdisk"
)

// fataler is what tests and rapid have in common.
type fataler interface {
	Fatalf(format string, args ...any)
	Helper()
}

// world is a set on a simulated disk, driven as a node drives it.
type world struct {
	t      fataler
	d      *simdisk.Disk
	o      Options
	s      *Set
	now    clock.Instant
	events []Event
	reqs   []disk.Request
	done   []disk.Completion
	held   map[*Position][]heldRecords // what Held gave with positions
}

type heldRecords struct {
	topic op.TopicID
	part  op.PartitionID
	b     []byte
}

func newWorld(t fataler, seed uint64, o Options) *world {
	w := &world{t: t, d: simdisk.New(simdisk.Options{Seed: seed}), o: o, held: map[*Position][]heldRecords{}}
	w.boot()
	return w
}

func (w *world) boot() {
	w.s = New(w.o)
	w.s.pool.poison = true
	w.events = nil
}

// turn ends a turn and begins the next: it submits, and takes what completed.
func (w *world) turn() {
	w.reqs = w.s.Take(w.reqs[:0])
	w.d.Submit(w.reqs)
	w.done = w.d.Poll(w.done[:0])
	w.s.Tick(w.now)
	for i := range w.done {
		w.s.Complete(&w.done[i])
	}
	var ev Event
	for w.s.Next(&ev) {
		w.events = append(w.events, ev)
	}
	w.s.check()
}

// pass lets time go by to the next thing that happens, at most until limit.
func (w *world) pass(limit clock.Instant) {
	at := min(w.d.NextDeadline(), w.s.NextDeadline(), limit)
	if at != clock.Never {
		w.now = max(w.now, at)
	}
	w.d.Advance(w.now)
	w.turn()
}

// until passes turns until an event that fits comes, and gives it.
func (w *world) until(kind EventKind, fits func(Event) bool) Event {
	w.t.Helper()
	for range 100_000 {
		for i, ev := range w.events {
			if ev.Kind == kind && (fits == nil || fits(ev)) {
				w.events = append(w.events[:i], w.events[i+1:]...)
				return ev
			}
		}
		w.turn()
		if len(w.done) == 0 {
			w.pass(w.now.Add(10 * clock.Second))
		}
	}
	w.t.Fatalf("no event %d comes; there are %+v", kind, w.events)
	return Event{}
}

func (w *world) flush(token uint64) []Position {
	w.t.Helper()
	var at []Position
	w.s.Positions(func(p Position) bool { at = append(at, p); return true })
	w.s.Held(func(topic op.TopicID, part op.PartitionID, b []byte) bool {
		w.held[&at[0]] = append(w.held[&at[0]], heldRecords{topic, part, bytes.Clone(b)})
		return true
	})
	w.s.Flush(token)
	w.until(EventFlushed, func(e Event) bool { return e.Token == token })
	return at
}

func (w *world) settle() {
	for range 100_000 {
		w.turn()
		if !w.s.Busy() && len(w.reqs) == 0 {
			return
		}
		if at := w.d.NextDeadline(); at != clock.Never {
			w.now = max(w.now, at)
		}
		w.d.Advance(w.now)
	}
	w.t.Fatalf("the set does not come to rest")
}

// crash ends the life and begins the next, recovered to positions.
func (w *world) crash(kind simdisk.CrashKind, positions []Position) {
	w.t.Helper()
	w.reqs = w.s.Take(w.reqs[:0])
	w.d.Submit(w.reqs)
	w.d.Crash(kind)
	w.d.Restart()
	w.boot()
	w.recover(positions)
}

func (w *world) recover(positions []Position) {
	w.t.Helper()
	w.s.Tick(w.now)
	w.s.Recover(positions, true)
	w.until(EventRecovered, nil)
	if len(positions) == 0 {
		return
	}
	for _, h := range w.held[&positions[0]] {
		for len(h.b) > 0 {
			rec, n, err := format.DecodeRecord(h.b)
			if err != nil {
				w.t.Fatalf("a held record: %v", err)
			}
			w.s.Append(h.topic, h.part, &rec)
			h.b = h.b[n:]
		}
	}
}

// read reads a record, waiting for the disk.
func (w *world) read(topic op.TopicID, part op.PartitionID, seq op.Sequence) (format.Record, Status) {
	w.t.Helper()
	for range 1000 {
		rec, st := w.s.Read(topic, part, seq)
		if st != Pending {
			return rec, st
		}
		w.until(EventReadReady, func(e Event) bool { return e.Topic == topic && e.Partition == part && e.Sequence == seq })
	}
	w.t.Fatalf("a read that never becomes ready: %d/%d %d", topic, part, seq)
	return format.Record{}, Missing
}

// offline is a stopped set's disk, as verify reads it.
type offline struct{ d *simdisk.Disk }

func (o offline) List(dir string) ([]verify.Entry, error) {
	list, err := o.d.List(dir)
	if errors.Is(err, disk.ErrNotExist) {
		return nil, nil
	}
	var all []verify.Entry
	for _, e := range list {
		all = append(all, verify.Entry{Name: e.Name, Size: e.Size, Dir: e.Dir})
	}
	return all, err
}

type offlineFile struct {
	simdisk.Offline
	path string
	size int64
}

func (o offline) Open(path string) (verify.File, error) {
	if o.d.Size(path) < 0 {
		return nil, disk.ErrNotExist
	}
	return offlineFile{o.d.Offline(), path, o.d.Size(path)}, nil
}

func (f offlineFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.Offline.ReadAt(f.path, off, b)
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

func (f offlineFile) Size() int64  { return f.size }
func (f offlineFile) Close() error { return nil }

// verify checks the disk as the command does, up to positions.
func (w *world) verify(positions []Position) *verify.Report {
	var at []format.Position
	for _, p := range positions {
		at = append(at, format.Position{Topic: p.Topic, Partition: p.Partition, Last: p.Last, Base: p.Base, Offset: p.Offset})
	}
	return verify.Segments(offline{w.d}, w.o.ClusterID, at)
}

// record is the record seq of a partition, made from its numbers alone.
func record(topic op.TopicID, part op.PartitionID, seq op.Sequence, size int) format.Record {
	r := format.Record{
		Flags: format.RecordFlagKey, Sequence: seq, ProducerID: uint64(topic), ProducerSeq: uint64(seq),
		Timestamp: 1700000000000 + uint64(seq), LeaderEpoch: 3, Kind: format.RecordQuorum,
		Key: []byte{byte(topic), byte(part)}, Value: bytes.Repeat([]byte{byte(seq), byte(seq >> 8), byte(part), 7}, size/4+1)[:size],
	}
	if seq%5 == 4 {
		e := format.Envelope{Reason: op.CauseReject, Topic: topic - 1, Sequence: seq, GroupName: []byte("g")}
		r.Kind, r.Envelope = format.RecordDeadLetter, e.Append(nil)
	}
	return r
}

func same(a, b *format.Record) bool {
	return a.Flags == b.Flags && a.Sequence == b.Sequence && a.ProducerID == b.ProducerID && a.ProducerSeq == b.ProducerSeq && a.Timestamp == b.Timestamp &&
		a.LeaderEpoch == b.LeaderEpoch && a.Kind == b.Kind && bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Envelope, b.Envelope) && bytes.Equal(a.Value, b.Value)
}

// smallOptions make everything happen early.
func smallOptions() Options {
	return Options{SegmentMaxBytes: 48 << 10, TailBytesMax: 64 << 10, ReadCacheBytes: 64 << 10, ReadChunk: 8 << 10, HandlesMax: 6, Owner: 3, ClusterID: [16]byte{1, 2}, ScrubPause: clock.Second}
}

// check asserts what is costly: the accounts and the chains of every partition.
func (s *Set) check() {
	var clean, dirtyCap, dirty, cached int64
	for _, p := range s.order {
		seen := p.dirty == nil
		var last op.Sequence
		for c := p.tailFirst; c != nil; c = c.next {
			seen = seen || c == p.dirty
			assert(last == 0 || c.first == last+1, "check: a gap between chunks")
			last = c.last
			if c.evictable {
				assert(c.written == len(c.buf), "check: a clean chunk that is not written")
				clean += int64(cap(c.buf))
			} else if !p.held {
				dirtyCap += int64(cap(c.buf))
				dirty += int64(len(c.buf) - c.written)
			}
		}
		assert(seen && (last == 0 || last == p.last), "check: the tail does not end with the last record")
		assert(p.written == p.last || p.tailFirst != nil && p.written+1 >= p.tailFirst.first, "check: a record is nowhere")
		for c := p.cached; c != nil; c = c.next {
			cached += int64(cap(c.buf))
		}
	}
	dropped := false
	for _, g := range s.graves {
		for _, p := range g.partitions {
			dropped = dropped || p.tasks > 0
		}
	}
	if !dropped {
		assert(clean == s.clean.bytes && dirtyCap == s.dirtyCap && dirty == s.dirtyBytes && cached == s.cache.bytes, "check: the accounts are wrong")
	}
}

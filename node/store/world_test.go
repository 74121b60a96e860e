package store

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/sim/simdisk"
)

// failer is what a world needs of *testing.T and *rapid.T.
type failer interface {
	Fatalf(format string, args ...any)
	Helper()
}

// world drives a store on a simulated disk the way a node does.
type world struct {
	t    failer
	disk *simdisk.Disk
	now  clock.Instant
	s    *Store
	opts Options
	reqs []disk.Request
	done []disk.Completion

	// What this life has seen.
	kinds     []EventKind
	entries   []seen
	recovered *Event
	flushed   op.Number
	damage    []Event
	torn      []Event
	repaired  []Event
	last      Event // the last event of another kind
	metadata  []string
	snapshot  []byte
	logs      [][]byte
	cursors   [][]byte
	loaded    Event
	events    map[EventKind]int
	onEvent   func(ev *Event) // before the world has seen it
	after     func(ev *Event) // after

	refuse  func(r *disk.Request) bool // for want of space
	refused []disk.Completion
}

type seen struct {
	number op.Number
	hash   op.Hash
	body   []byte
}

var testCluster = [16]byte{0xC1, 1, 2, 3}

func smallOptions() Options {
	return Options{NodeID: 1, JournalFileBytes: 64 << 10, JournalCapBytes: 1 << 20, CheckpointBytes: 128 << 10, ReadChunkBytes: 8 << 10, PieceBytes: 4 << 10, SegmentMaxBytes: 32 << 10, ReserveBytes: -1, ReservePercent: -1, MetadataSnapshotRecords: 5}
}

func newWorld(t failer, seed uint64) *world {
	return &world{t: t, disk: simdisk.New(simdisk.Options{Seed: seed, Capacity: 1 << 30}), opts: smallOptions()}
}

// start begins a life.
func (w *world) start() {
	w.s = New(w.opts)
	w.kinds, w.entries, w.recovered, w.flushed, w.damage, w.torn, w.repaired, w.last = nil, nil, nil, 0, nil, nil, nil, Event{}
	w.metadata, w.snapshot, w.logs, w.cursors, w.loaded = nil, nil, nil, nil, Event{}
	w.events = map[EventKind]int{}
	w.s.Start(w.now)
	w.turn()
}

// turn takes events and submits requests, as at the end of a turn.
func (w *world) turn() {
	var ev Event
	for w.s.Next(&ev) {
		w.see(&ev)
		if w.after != nil {
			w.after(&ev)
		}
	}
	w.reqs = w.s.Take(w.reqs[:0])
	for i := range w.reqs {
		r := &w.reqs[i]
		if r.Buf != nil && r.Flags&disk.FlagReadOnly == 0 && r.Lane == disk.LaneJournal && r.Kind == disk.KindWrite && !disk.Aligned(r.Buf, r.Offset) {
			w.t.Fatalf("unaligned write at %d", r.Offset)
		}
	}
	taken := w.reqs[:0]
	for _, r := range w.reqs {
		if w.refuse != nil && w.refuse(&r) {
			c := completionOf(&r)
			c.N, c.Err = 0, disk.ErrNoSpace
			w.refused = append(w.refused, c)
			continue
		}
		taken = append(taken, r)
	}
	w.disk.Submit(taken)
}

func (w *world) see(ev *Event) {
	w.events[ev.Kind]++
	if w.onEvent != nil {
		w.onEvent(ev)
	}
	switch ev.Kind {
	case EventFresh:
		w.kinds = append(w.kinds, ev.Kind)
		w.s.Form(Identity{ClusterID: testCluster, NodeID: w.opts.NodeID})
	case EventEntry:
		e := &ev.Entry
		if !e.Header.CheckBody(e.Body) {
			w.t.Fatalf("entry %d came with a bad body", e.Header.Number)
		}
		w.entries = append(w.entries, seen{e.Header.Number, e.Hash(), bytes.Clone(e.Body)})
	case EventRecovered:
		c := *ev
		w.recovered = &c
		w.flushed = ev.Number
		w.kinds = append(w.kinds, ev.Kind)
	case EventFlushed:
		if ev.Number < w.flushed {
			w.t.Fatalf("Flushed fell from %d to %d", w.flushed, ev.Number)
		}
		w.flushed = ev.Number
	case EventDamage:
		w.damage = append(w.damage, *ev)
	case EventTornTail:
		w.torn = append(w.torn, *ev)
	case EventRepaired:
		w.repaired = append(w.repaired, *ev)
	case EventMetadataOp:
		w.metadata = append(w.metadata, fmt.Sprintf("%d %s", ev.Header.Number, ev.Data))
	case EventMetadataSnapshot:
		w.snapshot = bytes.Clone(ev.Data)
	case EventLogCheckpoint:
		w.logs = append(w.logs, bytes.Clone(ev.Data))
	case EventCursorCheckpoint:
		w.cursors = append(w.cursors, bytes.Clone(ev.Data))
	case EventCheckpointLoaded:
		w.loaded = *ev
	default:
		w.last = *ev
		w.kinds = append(w.kinds, ev.Kind)
	}
}

// step lets the next thing happen: a completion or a deadline. It says whether
// there was one.
func (w *world) step() bool {
	if len(w.refused) > 0 {
		c := w.refused[0]
		w.refused = w.refused[1:]
		w.s.Complete(w.now, &c)
		w.turn()
		return true
	}
	next := w.disk.NextDeadline()
	if d := w.s.NextDeadline(); d < next {
		w.now = max(w.now, d)
		w.disk.Advance(w.now)
		w.s.Tick(w.now)
		w.turn()
		return true
	}
	if next == clock.Never && !w.disk.Pending() {
		return false
	}
	w.now = max(w.now, min(next, w.now.Add(clock.Hour)))
	w.disk.Advance(w.now)
	w.done = w.disk.Poll(w.done[:0])
	w.s.Tick(w.now)
	for i := range w.done {
		w.s.Complete(w.now, &w.done[i])
	}
	w.turn()
	return true
}

// until steps until ok holds.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for i := 0; !ok(); i++ {
		if i > 100_000 || !w.step() {
			w.t.Fatalf("nothing more happens while waiting for %s; events %v, damage %v, last %v %s", what, w.kinds, w.damage, w.last.Kind, w.last.What)
		}
	}
}

func (w *world) recover() {
	w.t.Helper()
	w.until("Recovered", func() bool { return w.recovered != nil })
}

func (w *world) crash(kind simdisk.CrashKind) {
	w.disk.Crash(kind)
	w.disk.Restart()
	w.refused = nil
}

// install makes epoch e durable, as an election won would.
func (w *world) install(e op.Epoch) {
	w.t.Helper()
	number, hash := w.s.Last()
	w.s.SetEpochs(e, e, number, hash)
	n := w.events[EventSuperblockDurable]
	w.turn()
	w.until("the superblock", func() bool { return w.events[EventSuperblockDurable] > n })
}

// build makes a builder of entries with the given bodies behind the last one.
func (w *world) build(epoch op.Epoch, values ...[]byte) *op.Builder {
	number, hash := w.s.Last()
	return buildAfter(number, hash, epoch, values...)
}

func buildAfter(number op.Number, hash op.Hash, epoch op.Epoch, values ...[]byte) *op.Builder {
	b := &op.Builder{}
	for _, v := range values {
		b.Add(&op.Op{Kind: op.KindPublish, Topic: 1, Value: v})
	}
	b.Seal(op.Header{Number: number + 1, Epoch: epoch, PrevHash: hash, Commit: number, LogTime: op.LogMillis(number) * 10})
	return b
}

// append appends and waits for the flush.
func (w *world) append(epoch op.Epoch, values ...[]byte) {
	w.t.Helper()
	b := w.build(epoch, values...)
	w.until("room to append", w.s.CanAppend)
	w.s.Append(b)
	w.turn()
	last, _ := w.s.Last()
	w.until("Flushed", func() bool { return w.flushed == last })
}

// completionOf is that of a request that went well.
func completionOf(r *disk.Request) disk.Completion {
	return disk.Completion{Tag: r.Tag, Kind: r.Kind, Handle: r.Handle, N: int64(len(r.Buf)), Buf: r.Buf}
}

// Goal: a fresh directory is formed, entries are flushed, and the next life
// finds them.
func TestFormAppendRecover(t *testing.T) {
	w := newWorld(t, 1)
	w.start()
	w.recover()
	w.install(1)
	for i := range 40 {
		w.append(1, fmt.Appendf(nil, "value %d", i), make([]byte, 3000))
	}
	number, hash := w.s.Last()
	w.crash(simdisk.PowerLoss)
	w.start()
	w.recover()
	if len(w.entries) != 40 || w.recovered.Number != number || w.recovered.Hash != hash || w.recovered.Installed != 1 {
		t.Fatalf("%d entries, recovered %+v", len(w.entries), w.recovered)
	}
	w.install(2)
	w.append(2, []byte("more"))
	w.crash(simdisk.Kill)
	w.start()
	w.recover()
	if len(w.entries) != 41 || w.recovered.Installed != 2 {
		t.Fatalf("%d entries, recovered %+v", len(w.entries), w.recovered)
	}
}

package verify

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store"
	"github.com/mortarmq/mortarmq/sim/simdisk"
	"pgregory.net/rapid"
)

// stopped is the simulated disk of a stopped broker.
type stopped struct{ d *simdisk.Disk }

func (s stopped) List(dir string) ([]Entry, error) {
	list, err := s.d.List(dir)
	if errors.Is(err, disk.ErrNotExist) {
		return nil, nil
	}
	var all []Entry
	for _, e := range list {
		all = append(all, Entry{Name: e.Name, Size: e.Size, Dir: e.Dir, Irregular: e.Irregular})
	}
	return all, err
}

type stoppedFile struct {
	simdisk.Offline
	path string
	size int64
}

func (s stopped) Open(path string) (File, error) {
	if s.d.Size(path) < 0 {
		return nil, disk.ErrNotExist
	}
	return stoppedFile{s.d.Offline(), path, s.d.Size(path)}, nil
}

func (f stoppedFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.Offline.ReadAt(f.path, off, b)
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

func (f stoppedFile) Size() int64  { return f.size }
func (f stoppedFile) Close() error { return nil }

// broker is just enough of a node to fill every file of a store.
type broker struct {
	t       *rapid.T
	d       *simdisk.Disk
	s       *store.Store
	now     clock.Instant
	ready   bool
	applied op.Header
	hash    op.Hash
	epoch   op.Epoch
	durable int
	flushed op.Number
	pending []*op.Builder // appended, not flushed
	pieces  int           // of a checkpoint, to be given
	// watch sees each event first; true: it is dealt with. over: nothing follows.
	watch func(*store.Event) bool
	over  bool
}

// smallFiles is how the store is told to make its files.
var smallFiles = Options{JournalFileBytes: 64 << 10}

// begin begins a life.
func (b *broker) begin() {
	b.s = store.New(store.Options{NodeID: 1, JournalFileBytes: smallFiles.JournalFileBytes, JournalCapBytes: 1 << 20, SegmentMaxBytes: 16 << 10, ReserveBytes: -1, ReservePercent: -1, ReadChunkBytes: 8 << 10, PieceBytes: 4 << 10, MetadataSnapshotRecords: 3})
	b.ready, b.applied, b.hash, b.pending, b.pieces = false, op.Header{}, op.Hash{}, nil, 0
	b.s.Start(b.now)
}

// start begins a life and recovers.
func (b *broker) start() {
	b.begin()
	for i := 0; !b.ready; i++ {
		if i > 100_000 {
			b.t.Fatal("recovery does not end")
		}
		b.step()
	}
	b.epoch++
	number, hash := b.s.Last()
	was := b.durable
	b.s.SetEpochs(b.epoch, b.epoch, number, hash)
	for b.durable == was {
		b.step()
	}
}

func (b *broker) step() {
	b.d.Submit(b.s.Take(nil))
	if at := min(b.d.NextDeadline(), b.s.NextDeadline()); at != clock.Never {
		b.now = max(b.now, at)
	}
	b.d.Advance(b.now)
	b.s.Tick(b.now)
	for _, c := range b.d.Poll(nil) {
		b.s.Complete(b.now, &c)
	}
	var ev store.Event
	for b.s.Next(&ev) {
		b.see(&ev)
	}
}

func (b *broker) see(ev *store.Event) {
	if b.watch != nil && b.watch(ev) {
		return
	}
	switch ev.Kind {
	case store.EventFresh:
		b.s.Form(store.Identity{ClusterID: testCluster, NodeID: 1})
	case store.EventCheckpointLoaded:
		b.applied.Number, b.hash = ev.Number, ev.Hash
	case store.EventEntry:
		b.apply(&ev.Entry)
	case store.EventRecovered:
		b.ready, b.flushed, b.epoch = true, ev.Number, max(b.epoch, ev.Promised)
	case store.EventSuperblockDurable:
		b.durable++
	case store.EventFlushed:
		b.flushed = ev.Number
	case store.EventDamage, store.EventRefused, store.EventJournalFailed:
		b.t.Fatalf("event %v: %s %d: %s", ev.Kind, ev.Path, ev.Offset, ev.What)
	}
}

func (b *broker) apply(e *op.Entry) {
	b.applied, b.hash = e.Header, e.Hash()
	if b.applied.Number == 1 {
		b.s.CreatePartition(1, 0)
		b.s.CreatePartition(1, 1)
	}
	var o op.Op
	if err := e.Each(&o, func(int) error {
		b.s.AppendRecord(1, o.Partition, &format.Record{Sequence: b.s.LastSequence(1, o.Partition) + 1, Timestamp: uint64(b.applied.Number), Value: o.Value})
		return nil
	}); err != nil {
		b.t.Fatal(err)
	}
	if b.applied.Number%3 == 0 {
		m := op.Op{Kind: op.KindTopicCreate, Topic: 3, Partitions: 1, Name: fmt.Appendf(nil, "t%d", b.applied.Number)}
		b.s.AppendMetadata(b.applied, m.Append(nil))
	}
}

// publish appends an entry; work applies what is flushed, and checkpoints.
func (b *broker) publish(size int) {
	if !b.s.CanAppend() {
		return
	}
	builder := &op.Builder{}
	number, hash := b.s.Last()
	builder.Add(&op.Op{Kind: op.KindPublish, Topic: 1, Partition: op.PartitionID(number % 2), Value: make([]byte, size)})
	builder.Seal(op.Header{Number: number + 1, Epoch: b.epoch, PrevHash: hash, Commit: number, LogTime: op.LogMillis(number)})
	b.pending = append(b.pending, builder)
	b.s.Append(builder)
}

func (b *broker) work(begin bool) {
	for len(b.pending) > 0 {
		e := b.pending[0].Entry(0)
		if e.Header.Number > b.flushed {
			break
		}
		b.apply(&e)
		b.pending = b.pending[1:]
	}
	if b.s.SnapshotDue() {
		b.s.WriteSnapshot(b.applied.Epoch, []byte("state"))
	}
	switch {
	case b.pieces > 0 && b.s.CheckpointRoom() > 100:
		b.s.CheckpointPiece(store.PieceLog, []byte("windows"))
		b.s.CheckpointPiece(store.PieceCursor, []byte("ledger"))
		if b.pieces--; b.pieces == 0 {
			b.s.FinishCheckpoint()
		}
	case begin && !b.s.Checkpointing() && b.applied.Number > b.s.CheckpointOp():
		b.s.BeginCheckpoint(b.applied.Number, b.applied.Epoch, b.hash, b.applied.LogTime)
		b.pieces = 2
	}
}

// Goal: a first start that is cut off anywhere leaves no damage, and the next one
// begins again.
func TestFirstStartCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &broker{t: t, d: simdisk.New(simdisk.Options{Seed: rapid.Uint64().Draw(t, "seed"), Capacity: 1 << 30})}
		for range rapid.IntRange(1, 3).Draw(t, "lives") {
			b.begin()
			for range rapid.IntRange(0, 40).Draw(t, "steps") {
				b.step()
			}
			b.d.Crash(simdisk.CrashKind(rapid.IntRange(0, 1).Draw(t, "crash")))
			b.d.Restart()
			if r := Verify(stopped{b.d}, smallFiles); r.Damaged() {
				t.Fatalf("%v", r.Findings)
			}
		}
		b.start()
	})
}

// Goal: what a store leaves behind at any crash, recovery included, is no damage
// to verify, and recovery agrees.
func TestStoreCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &broker{t: t, d: simdisk.New(simdisk.Options{Seed: rapid.Uint64().Draw(t, "seed"), Capacity: 1 << 30})}
		for range rapid.IntRange(1, 4).Draw(t, "lives") {
			b.start()
			for range rapid.IntRange(0, 150).Draw(t, "turns") {
				switch rapid.IntRange(0, 9).Draw(t, "turn") {
				case 0, 1, 2:
					b.publish(rapid.IntRange(0, 6000).Draw(t, "size"))
				case 3:
					b.work(true)
				default:
					b.work(false)
					b.step()
				}
			}
			b.d.Submit(b.s.Take(nil))
			b.d.Crash(simdisk.CrashKind(rapid.IntRange(0, 1).Draw(t, "crash")))
			b.d.Restart()
			if r := Verify(stopped{b.d}, smallFiles); r.Damaged() {
				t.Fatalf("%v", r.Findings)
			}
		}
		b.start()
	})
}

// Goal: a damaged partition stays the only damage over starts and checkpoints, and
// a copy of it that is put back, what is behind the checkpoint included, leaves
// none, for verify and for the broker.
func TestPutBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const dir = "topics/1/1"
		b := &broker{t: t, d: simdisk.New(simdisk.Options{Seed: rapid.Uint64().Draw(t, "seed"), Capacity: 1 << 30})}
		b.start()
		turns := func(n int) {
			for range n {
				b.publish(rapid.IntRange(0, 6000).Draw(t, "size"))
				for b.work(false); !b.s.CanAppend() || len(b.pending) > 0; b.work(false) {
					b.step()
				}
			}
		}
		checkpoint := func() {
			for b.work(true); b.s.Checkpointing(); b.work(false) {
				b.step()
			}
		}
		turns(rapid.IntRange(2, 30).Draw(t, "before"))
		checkpoint()
		turns(rapid.IntRange(0, 30).Draw(t, "behind"))
		b.d.Crash(simdisk.Kill)
		b.d.Restart()
		whole := serve(t, b.d.Clone(), b.now)
		copied := b.d.Clone()
		lost := rapid.SampledFrom([]string{dir, dir + "/1.mqs"}).Draw(t, "lost")
		if !b.d.Lose(lost) {
			t.Fatal("no ", lost)
		}
		b.watch = func(ev *store.Event) bool { return ev.Kind == store.EventDamage && !ev.Fatal }
		for range rapid.IntRange(1, 3).Draw(t, "lives") {
			b.start()
			checkpoint()
			b.d.Crash(simdisk.CrashKind(rapid.IntRange(0, 1).Draw(t, "crash")))
			b.d.Restart()
			for _, f := range Verify(stopped{b.d}, smallFiles).Findings {
				if f.Level == Damage && !strings.HasPrefix(f.Path, dir) {
					t.Fatal(f)
				}
			}
		}
		if b.d.Size(lost) >= 0 {
			t.Fatal(lost, " was written")
		}
		do(t, b.d, []disk.Request{{Kind: disk.KindMkdir, Path: dir}})
		for _, path := range copied.Files() {
			if strings.HasPrefix(path, lost) {
				do(t, b.d, []disk.Request{{Kind: disk.KindOpen, Flags: disk.FlagCreate, Handle: 77, Path: path}, {Kind: disk.KindWrite, Handle: 77, Buf: copied.ReadFile(path)}, {Kind: disk.KindClose, Handle: 77}})
			}
		}
		if r := Verify(stopped{b.d}, smallFiles); r.Damaged() {
			t.Fatal(r.Findings)
		}
		if got := serve(t, b.d, b.now); len(got.complaints) > 0 || !slices.Equal(got.state, whole.state) {
			t.Fatal(got.complaints, firstDifference(whole.state, got.state))
		}
	})
}

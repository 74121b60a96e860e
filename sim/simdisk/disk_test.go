package simdisk

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/sim/prng"
)

// life runs a random workload with crashes and gives a hash of every effect.
func life(seed uint64, observe func(Effect)) *Disk {
	d := New(Options{Seed: seed, Observe: observe})
	chance := prng.New(seed).Fork("life")
	now := clock.Instant(0)
	for range 2000 {
		h := disk.Handle(chance.Intn(6))
		path := string(rune('a' + chance.Intn(6)))
		r := disk.Request{Lane: disk.Lane(chance.Intn(3)), Handle: h, Path: path, Path2: string(rune('a' + chance.Intn(6)))}
		switch chance.Weighted(4, 1, 8, 3, 1, 1, 1, 2, 1) {
		case 0:
			r.Kind, r.Flags = disk.KindOpen, disk.FlagCreate
		case 1:
			r.Kind = disk.KindClose
		case 2:
			r.Kind, r.Offset, r.Buf = disk.KindWrite, chance.Range(0, 50000), make([]byte, chance.Intn(9000))
			chance.Fill(r.Buf)
		case 3:
			r.Kind = disk.KindSync
		case 4:
			r.Kind, r.Offset = disk.KindTruncate, chance.Range(0, 50000)
		case 5:
			r.Kind = disk.KindRename
		case 6:
			r.Kind = disk.KindRemove
		case 7:
			r.Kind, r.Path = disk.KindSyncDir, ""
		case 8:
			r.Kind, r.Offset, r.Length = disk.KindZero, chance.Range(0, 50000), chance.Range(0, 20000)
		}
		d.Submit([]disk.Request{r})
		now = now.Add(clock.Duration(chance.Range(0, int64(clock.Millisecond))))
		d.Advance(now)
		d.Poll(nil)
		if chance.Bool(10) {
			d.Crash(CrashKind(chance.Intn(2)))
			d.Restart()
		}
	}
	return d
}

// Goal, invariant 4: the same seed and the same calls give the same effects, at the
// same instants, and the same bytes; another seed gives others.
func TestDeterminism(t *testing.T) {
	run := func(seed uint64) (sum uint32) {
		hash := crc32.NewIEEE()
		d := life(seed, func(e Effect) { fmt.Fprintln(hash, e) })
		for _, f := range d.Files() {
			hash.Write(d.ReadFile(f))
		}
		return hash.Sum32()
	}
	for seed := range uint64(5) {
		if a, b := run(seed), run(seed); a != b {
			t.Errorf("seed %d gave %08x and %08x", seed, a, b)
		}
	}
	if run(1) == run(2) {
		t.Error("two seeds gave the same run")
	}
}

// Goal: the pages' books are right after a long life: space used is what the files
// take, and nothing is dirty that is not listed.
func TestBooks(t *testing.T) {
	for seed := range uint64(20) {
		d := life(seed, nil)
		d.Crash(Kill)
		used := int64(0)
		walk(d.tree.root, "", func(path string, n *inode) {
			listed := map[int32]bool{}
			for _, i := range append(append([]int32{}, n.file.dirty...), n.file.stale...) {
				listed[i] = true
			}
			for i := range n.file.pages {
				p := &n.file.pages[i]
				if p.cache != nil {
					used++
				}
				if p.dirty|p.stale != 0 && !listed[int32(i)] || p.dirty&p.stale != 0 || p.midway&^p.dirty != 0 {
					t.Errorf("seed %d %s page %d: dirty %08b stale %08b midway %08b listed %v", seed, path, i, p.dirty, p.stale, p.midway, listed[int32(i)])
				}
				if p.dirty|p.stale == 0 && (p.durable != nil || p.mid != nil) {
					t.Errorf("seed %d %s page %d is clean and keeps another version", seed, path, i)
				}
			}
		})
		if used != d.pages.used {
			t.Errorf("seed %d: %d pages in the files, %d in the books", seed, used, d.pages.used)
		}
	}
}

// Goal, invariant 6: whatever a clone goes through, its original stays as it was,
// and the other way round.
func TestClone(t *testing.T) {
	r := synced(t, 1)
	r.ok(writeReq(1, 512, sectors(2, 3)))
	r.Submit([]disk.Request{writeReq(1, 8192, sectors(3, 1)), syncReq(1), {Kind: disk.KindRead, Lane: disk.LaneRead, Handle: 1, Buf: make([]byte, 8)}})
	before, outcomes := r.ReadFile("f"), map[uint32]bool{}
	for seed := range uint64(150) {
		c := r.Clone()
		c.Reseed(seed)
		c.Crash(PowerLoss)
		c.Restart()
		rig{t, c}.ok(openReq(1, "f"), writeReq(1, 0, sectors(9, 8)), syncReq(1), disk.Request{Kind: disk.KindRemove, Path: "f"})
		c = r.Clone()
		c.Reseed(seed)
		c.Crash(PowerLoss)
		outcomes[crc32.ChecksumIEEE(c.ReadFile("f"))] = true
		if !bytes.Equal(r.ReadFile("f"), before) {
			t.Fatal("the clone changed its original")
		}
	}
	if len(outcomes) < 10 {
		t.Errorf("only %d different crash states", len(outcomes))
	}
	c := r.Clone()
	r.Advance(r.now.Add(clock.Second))
	if got := r.Poll(nil); len(got) != 3 {
		t.Errorf("%d completions", len(got))
	}
	if !bytes.Equal(c.ReadFile("f"), before) {
		t.Error("the original changed its clone")
	}
	a, b := r.ReadFile("f"), func() []byte { c.Advance(r.now); return c.ReadFile("f") }()
	if !bytes.Equal(a, b) || !c.Certain("f", 8192, 512) {
		t.Error("the clone does not go on as its original did")
	}
}

// Goal: a sync need not cover what another lane wrote after it began, and over many
// seeds does not always.
func TestSyncCoversNoMore(t *testing.T) {
	covered := 0
	for seed := range uint64(60) {
		r := synced(t, seed)
		r.StallUntil(disk.LaneJournal, r.now.Add(clock.Second))
		late := writeReq(1, 0, sectors(2, 1))
		late.Lane = disk.LaneBackground
		r.ok(writeReq(1, 4096, sectors(1, 1)))
		r.do(syncReq(1), late)
		if r.Certain("f", 0, 512) {
			covered++
		}
		if !r.Certain("f", 4096, 512) {
			t.Fatal("the sync did not cover its own lane")
		}
	}
	if covered == 0 || covered == 60 {
		t.Errorf("the late write was covered %d times of 60", covered)
	}
}

// Goal: how many requests a second the simulator gets: journal batches of 4 KiB and
// their syncs, over a preallocated file.
func BenchmarkJournal(b *testing.B) {
	r := rig{b, New(Options{Seed: 1})}
	r.ok(openReq(1, "j"), disk.Request{Kind: disk.KindZero, Handle: 1, Length: 64 << 20}, syncReq(1))
	buf := make([]byte, 4096)
	var done []disk.Completion
	reqs := make([]disk.Request, 2)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		reqs[0], reqs[1] = writeReq(1, int64(i)*4096%(64<<20), buf), syncReq(1)
		r.Submit(reqs)
		for !r.Idle() {
			if next := r.NextDeadline(); next != clock.Never {
				r.Advance(next)
			}
			done = r.Poll(done[:0])
		}
	}
}

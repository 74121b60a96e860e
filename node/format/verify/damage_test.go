package verify

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store"
	"github.com/mortarmq/mortarmq/node/store/segment"
	"github.com/mortarmq/mortarmq/sim/simdisk"
	"pgregory.net/rapid"
)

// served is what a broker makes of a directory: what it complains of, and all
// that it could serve.
type served struct {
	complaints []string
	ended      bool // it does not run
	last       op.Number
	loaded     []string // of metadata and checkpoint
	state      []string
}

// serve starts a store on d, reads all that it has, and lets it verify the
// sealed segments.
func serve(t *rapid.T, d *simdisk.Disk, now clock.Instant) *served {
	b := &broker{t: t, d: d, now: now}
	out := &served{}
	partitions := map[string]bool{}
	b.watch = func(ev *store.Event) bool {
		switch ev.Kind {
		case store.EventFresh:
			out.complaints = append(out.complaints, "fresh")
		case store.EventDamage, store.EventRefused, store.EventJournalFailed:
			out.complaints = append(out.complaints, fmt.Sprintf("%v %s %d: %s", ev.Kind, ev.Path, ev.Offset, ev.What))
			if ev.Kind == store.EventDamage && !ev.Fatal {
				partitions[fmt.Sprint(ev.Topic, ev.Partition)] = true
				return true
			}
		case store.EventMetadataSnapshot, store.EventMetadataOp, store.EventLogCheckpoint, store.EventCursorCheckpoint:
			out.loaded = append(out.loaded, fmt.Sprintf("%v %x", ev.Kind, ev.Data))
			return true
		default:
			return false
		}
		b.over = true
		return true
	}
	b.begin()
	for i := 0; !b.ready && !b.over; i++ {
		if i > 100_000 {
			t.Fatal("recovery does not end")
		}
		b.step()
	}
	if out.ended = b.over; b.over {
		return out
	}
	number, hash := b.s.Last()
	out.last = number
	out.state = append(out.state, fmt.Sprintf("last %d %x", number, hash))
	for part := range op.PartitionID(2) {
		for seq := op.Sequence(1); seq <= b.s.LastSequence(1, part); seq++ {
			rec, status := b.s.Read(1, part, seq)
			for ; status == segment.Pending; rec, status = b.s.Read(1, part, seq) {
				b.step()
			}
			out.state = append(out.state, fmt.Sprintf("%d/%d %v %d %d", part, seq, status, rec.Sequence, len(rec.Value)))
		}
	}
	for until := b.now.Add(11 * clock.Minute); b.now < until && !b.over; {
		b.step()
	}
	out.ended = b.over
	return out
}

// unnamedJournal gives the path of the newest journal file if the superblock does
// not know it yet.
func unnamedJournal(d *simdisk.Disk) string {
	current := uint64(0)
	for slot := range uint8(2) {
		b := make([]byte, format.SuperblockSlotSize)
		d.ReadAt(superblockPath, int64(slot)*format.SuperblockSlotSize, b)
		if super, err := format.DecodeSuperblock(b, slot); err == nil {
			current = max(current, super.JournalCurrent)
		}
	}
	return format.JournalName(current + 1)
}

// isTailOff says that all that is lost of what was there are entries above marked.
func (s *served) isTailOff(whole *served, marked op.Number) bool {
	if s.last < marked || s.last >= whole.last || !slices.Equal(s.loaded, whole.loaded) {
		return false
	}
	return !slices.ContainsFunc(s.state[1:], func(line string) bool { return !slices.Contains(whole.state, line) })
}

// marked gives the highest entry of which something on the disk says that it was
// synced: one above it, were it rotten, is a torn tail to everybody.
func marked(d *simdisk.Disk) op.Number {
	v := verifier{fs: stopped{d}, options: smallFiles}
	v.superblock()
	v.journal()
	return v.marked
}

func firstDifference(a, b []string) string {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return fmt.Sprint(a[i:min(i+1, len(a))], " became ", b[i:min(i+1, len(b))])
		}
	}
	return ""
}

// ruin damages one thing on a stopped broker's disk, and says what.
func ruin(t *rapid.T, d *simdisk.Disk) string {
	files := d.Files()
	path := rapid.SampledFrom(files).Draw(t, "path")
	if kind := rapid.SampledFrom([]string{"", "superblock", "journal/", "metadata/", "checkpoints/log", "checkpoints/cursor", "topics/"}).Draw(t, "kind"); kind != "" {
		some := slices.DeleteFunc(slices.Clone(files), func(path string) bool { return !strings.HasPrefix(path, kind) })
		if len(some) > 0 {
			path = rapid.SampledFrom(some).Draw(t, "path of that kind")
		}
	}
	size := d.Size(path)
	at := rapid.Int64Range(0, max(size-1, 0)).Draw(t, "at")
	if rapid.Bool().Draw(t, "at a block") {
		at &^= format.JournalBlock - 1
	}
	reqs := []disk.Request{{Kind: disk.KindOpen, Handle: 77, Path: path}}
	how := rapid.SampledFrom([]string{"truncate", "empty", "header only", "remove", "flip", "append", "zero", "zero all", "swap", "lose directory", "file for directory"}).Draw(t, "how")
	switch how {
	case "truncate":
		reqs = append(reqs, disk.Request{Kind: disk.KindTruncate, Handle: 77, Offset: at})
	case "empty":
		reqs = append(reqs, disk.Request{Kind: disk.KindTruncate, Handle: 77})
	case "header only":
		reqs = append(reqs, disk.Request{Kind: disk.KindTruncate, Handle: 77, Offset: min(size, format.SegmentHeaderSize)})
	case "remove":
		d.Lose(path)
		return how + " " + path + " "
	case "flip":
		b := make([]byte, 1)
		d.ReadAt(path, at, b)
		b[0] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		reqs = append(reqs, disk.Request{Kind: disk.KindWrite, Handle: 77, Offset: at, Buf: b})
	case "append":
		reqs = append(reqs, disk.Request{Kind: disk.KindWrite, Handle: 77, Offset: size, Buf: rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "bytes")})
	case "zero":
		reqs = append(reqs, disk.Request{Kind: disk.KindWrite, Handle: 77, Offset: at, Buf: make([]byte, min(size-at, 4096))})
	case "zero all":
		reqs = append(reqs, disk.Request{Kind: disk.KindWrite, Handle: 77, Buf: make([]byte, size)})
	case "swap":
		dir := path[:strings.LastIndexByte(path, '/')+1]
		others := slices.DeleteFunc(slices.Clone(files), func(p string) bool {
			return p == path || !strings.HasPrefix(p, dir) || strings.Contains(p[len(dir):], "/")
		})
		if len(others) == 0 {
			return how + " nothing"
		}
		other := rapid.SampledFrom(others).Draw(t, "other")
		do(t, d, []disk.Request{{Kind: disk.KindRename, Path: path, Path2: "aside"}, {Kind: disk.KindRename, Path: other, Path2: path}, {Kind: disk.KindRename, Path: "aside", Path2: other}})
		return fmt.Sprint(how, " ", path, " and ", other, " ")
	case "lose directory", "file for directory":
		dir, _, deeper := strings.Cut(path, "/")
		if !deeper {
			dir = path
		}
		if rapid.Bool().Draw(t, "deep") {
			dir = path[:max(strings.LastIndexByte(path, '/'), len(dir))]
		}
		d.Lose(dir)
		if how == "file for directory" {
			do(t, d, []disk.Request{{Kind: disk.KindOpen, Flags: disk.FlagCreate, Handle: 77, Path: dir}, {Kind: disk.KindClose, Handle: 77}})
		}
		return how + " " + dir
	}
	do(t, d, append(reqs, disk.Request{Kind: disk.KindClose, Handle: 77}))
	return fmt.Sprint(how, " ", path, " of ", size, " at ", at)
}

// do carries requests out on a stopped broker's disk.
func do(t *rapid.T, d *simdisk.Disk, reqs []disk.Request) {
	for i := range reqs {
		reqs[i].Lane = disk.LaneJournal
	}
	d.Submit(reqs)
	for d.NextDeadline() != clock.Never {
		d.Advance(d.NextDeadline())
	}
	for _, c := range d.Poll(nil) {
		if c.Err != disk.OK {
			t.Fatal(c.Kind, c.Err)
		}
	}
}

// Goal: whatever is done to a file, verify calls damage what the broker refuses,
// reports or has lost, and nothing that it takes.
func TestDamageAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &broker{t: t, d: simdisk.New(simdisk.Options{Seed: rapid.Uint64().Draw(t, "seed"), Capacity: 1 << 30})}
		b.start()
		for range rapid.IntRange(20, 200).Draw(t, "turns") {
			b.publish(rapid.IntRange(0, 6000).Draw(t, "size"))
			for range rapid.IntRange(1, 8).Draw(t, "steps") {
				b.work(rapid.IntRange(0, 30).Draw(t, "checkpoint") == 0)
				b.step()
			}
		}
		b.d.Crash(simdisk.CrashKind(rapid.IntRange(0, 1).Draw(t, "crash")))
		b.d.Restart()
		whole := serve(t, b.d.Clone(), b.now)
		if len(whole.complaints) > 0 {
			t.Fatal(whole.complaints)
		}
		unnamed, marked := unnamedJournal(b.d), marked(b.d)
		what := ruin(t, b.d)
		report := Verify(stopped{b.d}, smallFiles)
		got := serve(t, b.d, b.now)
		// The older slot may name an older checkpoint: the journal has the rest.
		lost := !slices.Equal(got.state, whole.state) || !strings.Contains(what, superblockPath) && !slices.Equal(got.loaded, whole.loaded)
		switch {
		case got.ended && strings.Contains(what, " topics/"):
			t.Errorf("%s: the broker ends, though one partition is hit at most: %s", what, got.complaints)
		case report.Damaged() && len(got.complaints) == 0 && !lost:
			t.Errorf("%s: verify says damage, the broker takes it", what)
		case report.Damaged():
			return
		case len(got.complaints) > 0:
			t.Errorf("%s: the broker complains, verify does not: %s", what, got.complaints)
		case lost && strings.Contains(what, " "+unnamed+" ") && got.last >= b.flushed:
			return // nothing says that it was written to, and nobody was told
		case lost && !got.isTailOff(whole, marked):
			t.Errorf("%s: the broker lost something, verify sees nothing: %s", what, firstDifference(slices.Concat(whole.state, whole.loaded), slices.Concat(got.state, got.loaded)))
		default:
			return
		}
		for _, f := range report.Findings {
			t.Log(f)
		}
	})
}

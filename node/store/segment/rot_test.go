package segment

import (
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/sim/simdisk"
	"pgregory.net/rapid"
)

// Goal: whatever rots or vanishes of one partition's files, a read gives the
// right record or says that it is damaged, and ends; the other partition does
// not notice; damage of indexes alone is no damage.
func TestRotAnywhere(t *testing.T) {
	world, at := filled(t, smallOptions())
	pristine := world.d
	rapid.Check(t, func(t *rapid.T) {
		w := *world
		w.t, w.d = t, pristine.Clone()
		var files []string
		onlyIndex := rapid.Bool().Draw(t, "only indexes")
		for _, path := range w.d.Files() {
			if strings.HasPrefix(path, "topics/1/0/") && (!onlyIndex || strings.HasSuffix(path, format.IndexSuffix)) {
				files = append(files, path)
			}
		}
		for range rapid.IntRange(1, 3).Draw(t, "faults") {
			path := rapid.SampledFrom(files).Draw(t, "path")
			size := w.d.Size(path)
			if size <= 0 {
				continue
			}
			switch rapid.IntRange(0, 3).Draw(t, "fault") {
			case 0:
				w.d.Lose(path)
			case 1:
				b := make([]byte, rapid.IntRange(1, 600).Draw(t, "length"))
				for i := range b {
					b[i] = 0xFF
				}
				off := rapid.Int64Range(0, size-1).Draw(t, "offset")
				w.d.Rot(path, off, b[:min(int64(len(b)), size-off)])
			default:
				w.d.Rot(path, rapid.Int64Range(0, size-1).Draw(t, "offset"), []byte{byte(rapid.IntRange(1, 255).Draw(t, "mask"))})
			}
		}
		report := w.verify(at)
		if onlyIndex && report.Damaged() {
			t.Fatalf("verify takes an index for damage: %v", report.Findings)
		}
		w.boot()
		w.recover(at)
		reads := rapid.SliceOfN(rapid.IntRange(1, 300), 1, 60).Draw(t, "reads")
		for _, n := range reads {
			seq := op.Sequence(n)
			want := record(1, 0, seq, 700)
			got, st := w.read(1, 0, seq)
			if st != Damaged && (st != Hit || !same(&got, &want)) || onlyIndex && st != Hit {
				t.Fatalf("sequence %d: status %d", n, st)
			}
			if st == Damaged && !report.Damaged() {
				t.Fatalf("sequence %d is damaged and verify does not know: %v", n, report.Findings)
			}
			other := record(1, 1, seq, 700)
			if got, st := w.read(1, 1, seq); st != Hit || !same(&got, &other) {
				t.Fatalf("the other partition: sequence %d, status %d", n, st)
			}
		}
		for _, ev := range w.events {
			if ev.Kind == EventFailed || ev.Kind == EventDamage && (onlyIndex || ev.Partition != 0) {
				t.Fatalf("%+v", ev)
			}
		}
		if !onlyIndex {
			w.keepsOn(at)
		} else {
			w.until(EventScrubbed, nil)
			w.crash(simdisk.PowerLoss, at)
			if d := w.s.Damage(1, 0); d != nil {
				t.Fatalf("%+v", d)
			}
		}
	})
}

// keepsOn checks that what comes behind the position, as the journal has it, is
// kept over the next start whatever is damaged before it; a life whose files were
// never named by a checkpoint lies between.
func (w *world) keepsOn(at []Position) {
	w.t.Helper()
	add := func(to op.Sequence) {
		for seq := op.Sequence(301); seq <= to; seq++ {
			r := record(1, 0, seq, 700)
			w.s.Append(1, 0, &r)
		}
	}
	add(400)
	w.flush(1)
	w.crash(simdisk.PowerLoss, at)
	add(450)
	at = w.flush(1)
	w.crash(simdisk.PowerLoss, at)
	w.until(EventScrubbed, nil)
	for seq := op.Sequence(301); seq <= 450; seq++ {
		want := record(1, 0, seq, 700)
		if got, st := w.read(1, 0, seq); st != Hit || !same(&got, &want) {
			w.t.Fatalf("sequence %d behind the damage: status %d, %+v", seq, st, w.s.Damage(1, 0))
		}
	}
}

// Goal: a read that fails once is tried again.
func TestReadErrorOnce(t *testing.T) {
	w, at := filled(t, smallOptions())
	w.recover(at)
	path, off, _ := offsetOf(w, 1, 30)
	w.d.FailReads(path, off, 1)
	if _, st := w.s.Read(1, 0, 30); st != Pending {
		t.Fatal(st)
	}
	for range 3 { // the index, the open, the first attempt
		w.pass(w.now.Add(clock.Second))
	}
	w.d.MendReads(path)
	if _, st := w.read(1, 0, 30); st != Hit || w.damages() != nil {
		t.Fatalf("status %d, %+v", st, w.damages())
	}
}

// Goal: a recovery that takes longer than the pause between two verifications does
// not leave a deadline behind that has passed and that no Tick moves.
func TestNoDeadlinePassesInRecovery(t *testing.T) {
	w, at := filled(t, smallOptions())
	w.s.Tick(w.now)
	w.s.Recover(at, true)
	w.now = w.now.Add(5 * w.o.ScrubPause)
	w.s.Tick(w.now)
	if d := w.s.NextDeadline(); d <= w.now {
		t.Fatalf("a deadline at %d, now is %d", d, w.now)
	}
	w.until(EventRecovered, nil)
	w.until(EventScrubbed, nil)
}

// Goal: what is stored is verified as soon as it is recovered: that time was told
// before there were partitions does not put it off by a pause.
func TestVerifiedFromTheStart(t *testing.T) {
	o := smallOptions()
	o.ScrubPause = 0 // as in production
	w, at := filled(t, o)
	path, _, _ := offsetOf(w, 1, 30)
	w.d.Rot(path, 2000, []byte{1})
	w.s.Tick(w.now)
	w.recover(at)
	start := w.now
	w.until(EventScrubbed, nil)
	if took := w.now.Sub(start); took > clock.Minute || len(w.damages()) != 1 {
		t.Fatalf("verified after %d ms, %+v", took.Millis(), w.damages())
	}
}

// Goal: a read that failed once is no damage: it is tried again before anything is
// said.
func TestReadIsTriedAgain(t *testing.T) {
	w, at := filled(t, smallOptions())
	w.recover(at)
	failed := 0
	for rec, st := w.s.Read(1, 0, 1); ; rec, st = w.s.Read(1, 0, 1) {
		if st == Hit {
			if want := record(1, 0, 1, 700); !same(&rec, &want) {
				t.Fatal("another record")
			}
			break
		}
		if st != Pending {
			t.Fatalf("status %d after %d failures", st, failed)
		}
		for _, r := range w.s.Take(nil) {
			if r.Kind == disk.KindRead && failed == 0 {
				failed++
				w.s.Complete(&disk.Completion{Tag: r.Tag, Kind: r.Kind, Handle: r.Handle, Buf: r.Buf, Err: disk.ErrIO})
				continue
			}
			w.d.Submit([]disk.Request{r})
		}
		w.now = w.now.Add(clock.Millisecond)
		w.d.Advance(w.now)
		for _, c := range w.d.Poll(nil) {
			w.s.Complete(&c)
		}
	}
	if failed == 0 || len(w.s.Damage(1, 0)) > 0 {
		t.Fatalf("%d failures, damage %v", failed, w.s.Damage(1, 0))
	}
}

// Goal: what Read gave stays as it is until Take, though its topic is dropped in
// the same turn.
func TestBorrowedUntilTake(t *testing.T) {
	w, at := filled(t, smallOptions())
	w.recover(at)
	if _, st := w.read(1, 0, 1); st != Hit { // from the disk
		t.Fatal(st)
	}
	r := record(1, 0, 301, 700)
	w.s.Append(1, 0, &r)
	cached, st := w.s.Read(1, 0, 1)
	tail, st2 := w.s.Read(1, 0, 301)
	if st != Hit || st2 != Hit {
		t.Fatal(st, st2)
	}
	w.s.DropTopic(1)
	first := record(1, 0, 1, 700)
	if !same(&cached, &first) || !same(&tail, &r) {
		t.Fatal("overwritten in the turn")
	}
	w.settle()
}

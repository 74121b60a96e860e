package segment

import (
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/sim/simdisk"
)

// filled gives a world with partitions 1/0 and 1/1, 300 records each, flushed
// and recovered: nothing is in memory.
func filled(t *testing.T, o Options) (*world, []Position) {
	t.Helper()
	w := newWorld(t, 7, o)
	w.recover(nil)
	w.s.CreatePartition(1, 0)
	w.s.CreatePartition(1, 1)
	for seq := op.Sequence(1); seq <= 300; seq++ {
		for part := range op.PartitionID(2) {
			r := record(1, part, seq, 700)
			w.s.Append(1, part, &r)
		}
		w.turn()
	}
	at := w.flush(1)
	w.settle()
	w.d.Crash(simdisk.PowerLoss)
	w.d.Restart()
	w.boot()
	return w, at
}

func (w *world) damages() []Damage {
	var all []Damage
	for _, ev := range w.events {
		if ev.Kind == EventDamage {
			all = append(all, ev.Damage)
		}
	}
	return all
}

// bases gives where the segments of 1/0 begin, as a healthy set sees it.
func bases(w *world) []op.Sequence {
	var all []op.Sequence
	for _, name := range w.d.Files() {
		if strings.HasPrefix(name, "topics/1/0/") && strings.HasSuffix(name, format.SegmentSuffix) {
			base, _, _ := format.ParseSegmentName(strings.TrimPrefix(name, "topics/1/0/"))
			all = append(all, base)
		}
	}
	for i := range all {
		for j := range i {
			if all[i] < all[j] {
				all[i], all[j] = all[j], all[i]
			}
		}
	}
	return all
}

// offsetOf gives where record seq of 1/0 lies in the segment base, by walking.
func offsetOf(w *world, base, seq op.Sequence) (string, int64, int) {
	path := "topics/1/0/" + format.SegmentName(base, format.SegmentSuffix)
	b := w.d.ReadFile(path)
	at := format.SegmentHeaderSize
	for {
		rec, n, err := format.DecodeRecord(b[at:])
		if err != nil {
			return path, -1, 0
		}
		if rec.Sequence == seq {
			return path, int64(at), n
		}
		at += n
	}
}

// Goal: each kind of planted damage is found when it is met, named by file,
// offset and sequence, hits what it has to and nothing else, and changes no
// file.
func TestPlantedDamage(t *testing.T) {
	type want struct {
		path     string
		offset   int64
		sequence op.Sequence
		readable []op.Sequence // of 1/0
		damaged  []op.Sequence
	}
	cases := map[string]func(w *world, at []Position) want{
		"value of a sealed record": func(w *world, at []Position) want {
			path, off, n := offsetOf(w, 1, 20)
			w.d.Rot(path, off+int64(n)-1, []byte{1})
			return want{path, off, 20, []op.Sequence{1, 19, 30, 60, 200, 300}, []op.Sequence{20}}
		},
		"length of a sealed record": func(w *world, at []Position) want {
			path, off, _ := offsetOf(w, 1, 21)
			w.d.Rot(path, off+1, []byte{0x40})
			return want{path, off, 21, []op.Sequence{1, 20, 30, 300}, []op.Sequence{21}}
		},
		"length beyond the limit": func(w *world, at []Position) want {
			path, off, _ := offsetOf(w, 1, 22)
			w.d.Rot(path, off, []byte{0xFF})
			return want{path, off, 22, []op.Sequence{1, 20, 30, 300}, []op.Sequence{22}}
		},
		"rot and no index": func(w *world, at []Position) want {
			path, off, n := offsetOf(w, 1, 20)
			w.d.Rot(path, off+int64(n)-1, []byte{1})
			w.d.Lose("topics/1/0/1.mqi")
			return want{path, off, 20, []op.Sequence{2, 19, 300}, []op.Sequence{20, 40}}
		},
		"unreadable sectors": func(w *world, at []Position) want {
			path, off, _ := offsetOf(w, 1, 30)
			w.d.FailReads(path, off, 1)
			return want{path, -1, 0, []op.Sequence{300}, []op.Sequence{30}}
		},
		"first segment lost": func(w *world, at []Position) want {
			w.d.Lose("topics/1/0/1.mqs")
			return want{"topics/1/0/1.mqs", 0, 1, []op.Sequence{300, bases(w)[0]}, []op.Sequence{1, 2, bases(w)[0] - 1}}
		},
		"middle segment and index lost": func(w *world, at []Position) want {
			b := bases(w)
			path := "topics/1/0/" + format.SegmentName(b[1], format.SegmentSuffix)
			w.d.Lose(path)
			w.d.Lose(strings.TrimSuffix(path, "s") + "i")
			return want{path, 0, b[1], []op.Sequence{1, b[1] - 1, b[2], 300}, []op.Sequence{b[1], b[2] - 1}}
		},
		"active segment lost": func(w *world, at []Position) want {
			path := "topics/1/0/" + format.SegmentName(at[0].Base, format.SegmentSuffix)
			w.d.Lose(path)
			return want{path, 0, at[0].Base, []op.Sequence{1, at[0].Base - 1}, []op.Sequence{at[0].Base, 300}}
		},
		"directory lost": func(w *world, at []Position) want {
			w.d.Lose("topics/1/0")
			return want{"topics/1/0/1.mqs", 0, 1, nil, []op.Sequence{1, at[0].Base, 300}}
		},
		"active segment's header": func(w *world, at []Position) want {
			path := "topics/1/0/" + format.SegmentName(at[0].Base, format.SegmentSuffix)
			w.d.Rot(path, 9, []byte{1})
			return want{path, 0, at[0].Base, []op.Sequence{1}, []op.Sequence{300}}
		},
		"active segment's last record": func(w *world, at []Position) want {
			path, off, _ := offsetOf(w, at[0].Base, 300)
			w.d.Rot(path, off+60, []byte{1})
			return want{path, off, 300, []op.Sequence{1}, []op.Sequence{300}}
		},
	}
	for name, plant := range cases {
		t.Run(name, func(t *testing.T) {
			w, at := filled(t, smallOptions())
			expect := plant(w, at)
			before := w.d.Clone()
			w.recover(at)
			for _, seq := range expect.readable {
				if rec, st := w.read(1, 0, seq); st != Hit || rec.Sequence != seq {
					t.Errorf("sequence %d: status %d", seq, st)
				}
			}
			for _, seq := range expect.damaged {
				if _, st := w.read(1, 0, seq); st != Damaged {
					t.Errorf("sequence %d: status %d, not damaged", seq, st)
				}
			}
			all := w.damages()
			if len(all) != 1 {
				t.Fatalf("%d damages: %+v", len(all), all)
			}
			d := all[0]
			if d.Path != expect.path || d.Offset != expect.offset && expect.offset >= 0 || d.Sequence != expect.sequence && expect.sequence > 0 || d.Topic != 1 || d.Partition != 0 {
				t.Errorf("damage %+v, want %+v", d, expect)
			}
			for seq := op.Sequence(1); seq <= 300; seq += 13 {
				if _, st := w.read(1, 1, seq); st != Hit {
					t.Fatalf("the other partition: %d", st)
				}
			}
			for _, path := range before.Files() {
				if string(before.ReadFile(path)) != string(w.d.ReadFile(path)) && strings.HasSuffix(path, format.SegmentSuffix) {
					t.Errorf("%s was changed", path)
				}
			}
			// Appends go on and are kept, whatever is damaged.
			for seq := op.Sequence(301); seq <= 400; seq++ {
				r := record(1, 0, seq, 700)
				w.s.Append(1, 0, &r)
			}
			then := w.flush(9)
			for _, path := range w.d.Files() {
				if then[0] == at[0] && strings.HasPrefix(path, "topics/1/0/") && before.Size(path) != w.d.Size(path) {
					t.Errorf("%s was written to", path)
				}
			}
			if _, st := w.read(1, 0, 400); st != Hit {
				t.Errorf("status %d of a new record", st)
			}
			w.crash(simdisk.PowerLoss, then)
			for seq := op.Sequence(301); seq <= 400; seq++ {
				if _, st := w.read(1, 0, seq); st != Hit {
					t.Fatalf("status %d of a new record after the next start: %+v", st, w.s.Damage(1, 0))
				}
			}
			if w.s.Last(1, 0) != 400 {
				t.Errorf("last is %d", w.s.Last(1, 0))
			}
		})
	}
}

// Goal: scrubbing finds planted rot that nobody reads, at its bounded rate, and
// nothing where nothing is wrong.
func TestScrubFindsRot(t *testing.T) {
	o := smallOptions()
	o.ScrubBytesPerSecond = 64 << 10
	w, at := filled(t, o)
	w.recover(at)
	begin := w.now
	w.until(EventScrubbed, nil)
	sealed := int64(0)
	for part := range op.PartitionID(2) {
		for _, seg := range w.s.find(1, part).segments {
			if seg.base < at[part].Base {
				sealed += seg.size
			}
		}
	}
	if took := w.now.Sub(begin); int64(took) < sealed*int64(clock.Second)/o.ScrubBytesPerSecond || w.damages() != nil {
		t.Fatalf("%d bytes in %d ms, damages %+v", sealed, took.Millis(), w.damages())
	}
	path, off, _ := offsetOf(w, 1, 11)
	w.d.Rot(path, off+100, []byte{4})
	w.until(EventScrubbed, nil)
	if all := w.damages(); len(all) != 1 || all[0].Path != path || all[0].Offset != off || all[0].Sequence != 11 {
		t.Fatalf("%+v", all)
	}
	if _, st := w.read(1, 0, 11); st != Damaged {
		t.Fatalf("status %d of a rotten record", st)
	}
	if _, st := w.read(1, 0, 20); st != Hit {
		t.Fatalf("status %d of a record behind the next index entry", st)
	}
}

// Goal: a failed sync or write ends the set, and nothing is reported flushed
// after it.
func TestFailedSync(t *testing.T) {
	for name, plant := range map[string]func(*simdisk.Disk){
		"sync":  func(d *simdisk.Disk) { d.FailNextSync("topics/1/0/") },
		"name":  func(d *simdisk.Disk) { d.FailNextSync("topics/1") },
		"write": func(d *simdisk.Disk) { d.FailNextWrite("topics/1/0/") },
	} {
		w := newWorld(t, 3, smallOptions())
		w.recover(nil)
		w.s.CreatePartition(1, 0)
		r := record(1, 0, 1, 100)
		w.s.Append(1, 0, &r)
		plant(w.d)
		w.s.Flush(1)
		ev := w.until(EventFailed, nil)
		w.settle()
		w.s.Flush(2)
		w.settle()
		for _, e := range w.events {
			if e.Kind == EventFlushed {
				t.Errorf("%s: flushed after %+v", name, ev)
			}
		}
		if ev.Err != disk.ErrIO || ev.Path == "" {
			t.Errorf("%s: %+v", name, ev)
		}
		if _, st := w.read(1, 0, 1); st != Hit {
			t.Errorf("%s: what is in memory is gone: %d", name, st)
		}
	}
}

// Goal: a full disk stalls, is reported once, keeps everything, and ends.
func TestFullDisk(t *testing.T) {
	w := newWorld(t, 3, smallOptions())
	w.recover(nil)
	w.s.CreatePartition(1, 0)
	w.d.SetCapacity(1)
	for seq := op.Sequence(1); seq <= 200; seq++ {
		r := record(1, 0, seq, 2000)
		w.s.Append(1, 0, &r)
		w.turn()
	}
	w.s.Flush(1)
	if ev := w.until(EventStalled, nil); ev.Err != disk.ErrNoSpace {
		t.Fatalf("%+v", ev)
	}
	for range 20 {
		w.pass(w.now.Add(clock.Second))
	}
	if len(w.events) > 0 {
		t.Fatalf("%+v", w.events)
	}
	if w.s.DirtyBytes() < 200*2000 {
		t.Fatalf("%d bytes are left", w.s.DirtyBytes())
	}
	w.d.SetCapacity(1 << 30)
	w.until(EventResumed, nil)
	w.until(EventFlushed, nil)
	if w.s.DirtyBytes() != 0 {
		t.Fatalf("%d bytes are left", w.s.DirtyBytes())
	}
	for seq := op.Sequence(1); seq <= 200; seq++ {
		if rec, st := w.read(1, 0, seq); st != Hit || len(rec.Value) != 2000 {
			t.Fatalf("sequence %d: %d", seq, st)
		}
	}
}

// Goal: a partition whose directory cannot be read is damaged as a whole, and its
// records are refused; a lack of descriptors or of rights, there or at the active
// segment, is no damage, and ends the start.
func TestCannotBeLookedAt(t *testing.T) {
	for _, c := range []struct {
		kind   disk.Kind
		err    disk.Errno
		damage bool
	}{
		{disk.KindList, disk.ErrIO, true},
		{disk.KindList, disk.ErrInvalid, true},
		{disk.KindList, disk.ErrPermission, false},
		{disk.KindList, disk.ErrTooManyFiles, false},
		{disk.KindOpen, disk.ErrIO, true},
		{disk.KindOpen, disk.ErrPermission, false},
		{disk.KindOpen, disk.ErrTooManyFiles, false},
	} {
		w := newWorld(t, 5, smallOptions())
		w.s.CreatePartition(2, 0)
		for seq := op.Sequence(1); seq <= 30; seq++ {
			r := record(2, 0, seq, 5000)
			w.s.Append(2, 0, &r)
		}
		at := w.flush(1)
		if at[0].Base == 1 {
			t.Fatal("one segment")
		}
		w.settle()
		w.boot()
		w.s.Tick(w.now)
		w.s.Recover(at, true)
		for refused := false; !refused; {
			for _, r := range w.s.Take(nil) {
				if r.Kind == c.kind && (r.Path == "topics/2/0" || strings.HasSuffix(r.Path, format.SegmentSuffix)) {
					w.s.Complete(&disk.Completion{Tag: r.Tag, Kind: r.Kind, Handle: r.Handle, Err: c.err})
					refused = true
					continue
				}
				w.d.Submit([]disk.Request{r})
			}
			w.now = w.now.Add(clock.Second)
			w.d.Advance(w.now)
			for _, done := range w.d.Poll(nil) {
				w.s.Complete(&done)
			}
		}
		if !c.damage {
			w.until(EventFailed, nil)
			continue
		}
		w.until(EventDamage, nil)
		w.until(EventRecovered, nil)
		for _, seq := range []op.Sequence{1, at[0].Base, at[0].Last} {
			want := Damaged
			if seq == 1 && c.kind == disk.KindOpen {
				want = Hit // it lies in a segment of its own
			}
			if _, st := w.read(2, 0, seq); st != want {
				t.Fatalf("%s %s: record %d: status %d", c.kind, c.err, seq, st)
			}
		}
	}
}

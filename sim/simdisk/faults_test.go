package simdisk

import (
	"bytes"
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
)

// synced gives a rig with a file "f" of 8 durable sectors of version 1 on handle 1.
func synced(t testing.TB, seed uint64) rig {
	r := rig{t, New(Options{Seed: seed})}
	r.ok(openReq(1, "f"), writeReq(1, 0, sectors(1, 8)), syncReq(1), syncRoot)
	return r
}

// Goal, invariant 5: after a failed sync the cache shows what was written, a later
// sync succeeds and does not save it, and writing it again does.
func TestFailNextSync(t *testing.T) {
	lost := 0
	for seed := range uint64(50) {
		r := synced(t, seed)
		r.FailNextSync("other")
		r.FailNextSync("f")
		r.ok(writeReq(1, 0, sectors(2, 2)))
		if c := r.do(syncReq(1))[0]; c.Err != disk.ErrIO {
			t.Fatalf("sync: %v", c.Err)
		}
		r.ok(syncReq(1))
		if !bytes.Equal(r.ReadFile("f")[:1024], sectors(2, 2)) {
			t.Fatal("the cache does not show what was written")
		}
		if r.Certain("f", 0, 512) || !bytes.Equal(r.Durable("f"), sectors(1, 8)) {
			t.Fatal("the second sync made it durable")
		}
		r.ok(writeReq(1, 512, sectors(3, 1)), syncReq(1))
		r.Crash(PowerLoss)
		got := r.ReadFile("f")
		if versionOf(t, got[512:1024]) != 3 {
			t.Fatal("what was written again and synced is lost")
		}
		if versionOf(t, got[:512]) == 1 {
			lost++
		}
	}
	if lost == 0 || lost == 50 {
		t.Errorf("lost %d times of 50", lost)
	}
}

// Goal: a lying sync says OK and saves nothing, as often as asked.
func TestLieSyncs(t *testing.T) {
	r := synced(t, 1)
	r.LieSyncs(2)
	r.ok(writeReq(1, 0, sectors(2, 1)), syncReq(1), syncReq(1))
	if r.Certain("f", 0, 512) {
		t.Error("a lying sync made something durable")
	}
	r.ok(syncReq(1))
	if !r.Certain("f", 0, 4096) {
		t.Error("the third sync lied too")
	}
	r.LieSyncs(-1)
	r.ok(openReq(2, "g"), syncRoot, syncReq(1), syncReq(1))
	if r.Durable("g") != nil {
		t.Error("a lying SyncDir made a name durable")
	}
	r.LieSyncs(0)
	r.ok(syncRoot)
	if r.Durable("g") == nil {
		t.Error("lying did not end")
	}
}

// Goal: rot changes what is on the medium, dirty sectors hide it.
func TestRot(t *testing.T) {
	r := synced(t, 1)
	r.ok(writeReq(1, 512, sectors(2, 1)))
	if !r.Rot("f", 511, []byte{0xff, 0x10}) || r.Rot("f", 4096, []byte{1}) || r.Rot("none", 0, []byte{1}) {
		t.Error("Rot does not know what there is to rot")
	}
	got, durable := r.ReadFile("f"), r.Durable("f")
	if got[511] != 0xff || got[512] != 2 {
		t.Errorf("the cache shows %x %x", got[511], got[512])
	}
	if durable[511] != 0xff || durable[512] != 1^0x10 {
		t.Errorf("the medium has %x %x", durable[511], durable[512])
	}
}

// Goal: unreadable bytes fail reads that touch them, and are readable once they are
// overwritten.
func TestFailReads(t *testing.T) {
	r := synced(t, 1)
	r.FailReads("f", 1000, 100)
	read := func(offset int64, n int) disk.Errno {
		return r.do(disk.Request{Kind: disk.KindRead, Lane: disk.LaneRead, Handle: 1, Offset: offset, Buf: make([]byte, n)})[0].Err
	}
	if read(0, 1000) != disk.OK || read(0, 1001) != disk.ErrIO || read(1099, 1) != disk.ErrIO || read(1100, 10) != disk.OK {
		t.Error("the bad range is not where it was put")
	}
	if _, err := r.Offline().ReadFile("f"); err != error(disk.ErrIO) {
		t.Errorf("offline: %v", err)
	}
	r.ok(writeReq(1, 1010, make([]byte, 20)))
	if read(1010, 20) != disk.OK || read(1009, 1) != disk.ErrIO || read(1030, 1) != disk.ErrIO {
		t.Error("overwriting does not mend just what it overwrites")
	}
	r.MendReads("f")
	if read(0, 4096) != disk.OK {
		t.Error("MendReads does not mend")
	}
}

// Goal: a misdirected write reports OK, is not where it belongs and is elsewhere.
func TestMisdirect(t *testing.T) {
	r := synced(t, 1)
	r.ok(openReq(2, "g"), writeReq(2, 0, sectors(1, 8)), syncReq(2))
	r.MisdirectNextWrite("f", "g", 1024)
	r.ok(writeReq(1, 0, sectors(9, 1)), syncReq(1))
	if v := versionOf(t, r.ReadFile("f")[:512]); v != 1 {
		t.Errorf("its place has version %d", v)
	}
	if v := versionOf(t, r.ReadFile("g")[1024:1536]); v != 9 {
		t.Errorf("the other place has version %d", v)
	}
}

// Goal: a lost file is gone for good, under every crash.
func TestLose(t *testing.T) {
	r := synced(t, 1)
	if !r.Lose("f") || r.Lose("f") {
		t.Error("Lose")
	}
	r.Crash(PowerLoss)
	if r.ReadFile("f") != nil || r.pages.used != 0 {
		t.Errorf("the file is back, or its %d pages", r.pages.used)
	}
}

// Goal: a full disk refuses what needs space, takes overwrites, and works again
// when there is space: raised, or given back by a removal once no handle is left.
func TestCapacity(t *testing.T) {
	r := synced(t, 1)
	r.SetCapacity(pageSize)
	if c := r.do(writeReq(1, 4096, []byte{1}))[0]; c.Err != disk.ErrNoSpace {
		t.Errorf("a write beyond the capacity: %v", c.Err)
	}
	if c := r.do(disk.Request{Kind: disk.KindZero, Handle: 1, Offset: 4096, Length: 1})[0]; c.Err != disk.ErrNoSpace {
		t.Errorf("a zero beyond the capacity: %v", c.Err)
	}
	r.ok(writeReq(1, 0, sectors(2, 8)))
	r.SetCapacity(2 * pageSize)
	r.ok(writeReq(1, 4096, []byte{1}))
	space := func() int64 { return r.do(disk.Request{Kind: disk.KindSpace})[0].N }
	if n := space(); n != 0 {
		t.Errorf("%d bytes free", n)
	}
	r.ok(disk.Request{Kind: disk.KindRemove, Path: "f"})
	if n := space(); n != 0 {
		t.Errorf("%d bytes free while a handle is open", n)
	}
	r.ok(disk.Request{Kind: disk.KindClose, Handle: 1})
	if n := space(); n != 2*pageSize {
		t.Errorf("%d bytes free after the removal", n)
	}
}

// Goal: a stalled lane completes nothing until its time, the others do; a slow
// disk takes longer.
func TestStallAndSlow(t *testing.T) {
	r := synced(t, 1)
	until := r.now.Add(3 * clock.Second)
	r.StallUntil(disk.LaneJournal, until)
	background := syncReq(1)
	background.Lane = disk.LaneBackground
	r.Submit([]disk.Request{syncReq(1), background})
	r.Advance(until - 1)
	if got := r.Poll(nil); len(got) != 1 || got[0].Lane != disk.LaneBackground {
		t.Errorf("during the stall: %+v", got)
	}
	if r.NextDeadline() != until {
		t.Errorf("the next deadline is %d, want %d", r.NextDeadline(), until)
	}
	r.Advance(until)
	if got := r.Poll(nil); len(got) != 1 {
		t.Errorf("after the stall: %+v", got)
	}
	r.SetSlow(1000 * 1000)
	r.Submit([]disk.Request{syncReq(1)})
	if took := r.NextDeadline().Sub(r.now); took < 100*clock.Millisecond {
		t.Errorf("a sync on a disk 1000 times slower takes %d ns", took)
	}
}

// Goal: a failing write leaves its range unspecified and nothing else.
func TestFailNextWrite(t *testing.T) {
	r := synced(t, 3)
	r.FailNextWrite("")
	if c := r.do(writeReq(1, 512, sectors(2, 4)))[0]; c.Err != disk.ErrIO {
		t.Fatalf("write: %v", c.Err)
	}
	got := r.ReadFile("f")
	if versionOf(t, got[:512]) != 1 || versionOf(t, got[5*512:6*512]) != 1 || len(got) != 4096 {
		t.Error("a failing write changed bytes outside its range")
	}
}

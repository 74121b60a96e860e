package simdisk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/sim/prng"
)

// rig drives a disk in a test.
type rig struct {
	testing.TB
	*Disk
}

// do submits reqs together and lets all of them complete.
func (r rig) do(reqs ...disk.Request) []disk.Completion {
	r.Helper()
	r.Submit(reqs)
	var got []disk.Completion
	for len(got) < len(reqs) {
		step(r, r.Disk)
		got = r.Poll(got)
	}
	return got
}

func (r rig) ok(reqs ...disk.Request) {
	r.Helper()
	for _, c := range r.do(reqs...) {
		if c.Err != disk.OK {
			r.Fatalf("%s: %v", c.Kind, c.Err)
		}
	}
}

func openReq(h disk.Handle, path string) disk.Request {
	return disk.Request{Kind: disk.KindOpen, Handle: h, Path: path, Flags: disk.FlagCreate}
}

func writeReq(h disk.Handle, offset int64, b []byte) disk.Request {
	return disk.Request{Kind: disk.KindWrite, Handle: h, Offset: offset, Buf: b}
}

func syncReq(h disk.Handle) disk.Request { return disk.Request{Kind: disk.KindSync, Handle: h} }

var syncRoot = disk.Request{Kind: disk.KindSyncDir}

// sectors gives n sectors, each filled with version.
func sectors(version uint64, n int) []byte {
	b := make([]byte, n*sectorSize)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], version)
	}
	return b
}

// versionOf reads a sector's version; it must be the same all over the sector.
func versionOf(t testing.TB, b []byte) uint64 {
	v := binary.LittleEndian.Uint64(b)
	if !bytes.Equal(b, sectors(v, 1)) {
		t.Fatalf("a sector is torn inside: %x", b)
	}
	return v
}

// Goal, invariants 1 and 2: over many power losses each sector shows one of the
// versions that it had since it was last synced, whole, and over all rounds
// losses, survivals, and a version between the two ends are seen.
func TestPowerLossVersions(t *testing.T) {
	const n = 64
	r := rig{t, New(Options{Seed: 5})}
	chance := prng.New(6)
	r.ok(openReq(1, "f"), disk.Request{Kind: disk.KindZero, Handle: 1, Length: n * sectorSize}, syncReq(1), syncRoot)
	var possible [n][]uint64
	for i := range possible {
		possible[i] = []uint64{0}
	}
	lost, kept, between, version := 0, 0, 0, uint64(0)
	for range 300 {
		for range 1 + chance.Intn(12) {
			version++
			at, length := chance.Intn(n), 1+chance.Intn(20)
			length = min(length, n-at)
			r.ok(writeReq(1, int64(at)*sectorSize, sectors(version, length)))
			for i := at; i < at+length; i++ {
				possible[i] = append(possible[i], version)
			}
			if chance.Bool(150) {
				r.ok(syncReq(1))
				for i := range possible {
					possible[i] = possible[i][len(possible[i])-1:]
				}
			}
		}
		certain := [n]bool{}
		for i := range certain {
			certain[i] = r.Certain("f", int64(i)*sectorSize, sectorSize)
			if certain[i] != (len(possible[i]) == 1) {
				t.Fatalf("sector %d has %d versions, Certain says %v", i, len(possible[i]), certain[i])
			}
		}
		r.Crash(PowerLoss)
		r.Restart()
		all := r.ReadFile("f")
		for i := range possible {
			v := versionOf(t, all[i*sectorSize:(i+1)*sectorSize])
			at := -1
			for j, p := range possible[i] {
				if p == v {
					at = j
				}
			}
			switch last := len(possible[i]) - 1; {
			case at < 0:
				t.Fatalf("sector %d shows version %d, possible are %v", i, v, possible[i])
			case last == 0:
			case at == 0:
				lost++
			case at == last:
				kept++
			default:
				between++
			}
			possible[i] = []uint64{v}
		}
		r.ok(openReq(1, "f"))
	}
	if lost == 0 || kept == 0 || between == 0 {
		t.Errorf("lost %d, kept %d, between %d: the power loss does not draw them all", lost, kept, between)
	}
}

// Goal, invariant 3: of what is under way in an ordered lane a crash carries out a
// prefix and a part of the next; nothing completes.
func TestCrashUnderWay(t *testing.T) {
	for _, kind := range []CrashKind{Kill, PowerLoss} {
		prefixes, parts := map[int]bool{}, 0
		for seed := range uint64(120) {
			r := rig{t, New(Options{Seed: seed})}
			r.ok(openReq(1, "f"), syncRoot)
			var reqs []disk.Request
			for i := range 5 {
				reqs = append(reqs, writeReq(1, int64(i)*2*sectorSize, sectors(uint64(i+1), 2)), syncReq(1))
			}
			r.Submit(reqs)
			r.Crash(kind)
			r.Submit(reqs)
			r.Restart()
			r.Advance(r.now.Add(1 << 40))
			if got := r.Poll(nil); len(got) != 0 {
				t.Fatalf("completions after a crash: %+v", got)
			}
			b := r.ReadFile("f")
			whole := 0
			for whole < 5 && len(b) >= (whole+1)*2*sectorSize && bytes.Equal(b[whole*2*sectorSize:(whole+1)*2*sectorSize], sectors(uint64(whole+1), 2)) {
				whole++
			}
			if len(b) > (whole+1)*2*sectorSize {
				t.Fatalf("seed %d: %d bytes, but only %d writes are whole", seed, len(b), whole)
			}
			prefixes[whole] = true
			if len(b) > whole*2*sectorSize {
				parts++
			}
		}
		if len(prefixes) != 6 || parts == 0 {
			t.Errorf("kind %d: prefixes %v, %d parts", kind, prefixes, parts)
		}
	}
}

// Goal: a kill keeps the page cache, synced or not, names included.
func TestKillKeepsTheCache(t *testing.T) {
	r := rig{t, New(Options{Seed: 1})}
	r.ok(openReq(1, "f"), writeReq(1, 0, []byte("unsynced")))
	r.Crash(Kill)
	r.Restart()
	if got := r.ReadFile("f"); string(got) != "unsynced" {
		t.Errorf("the file holds %q", got)
	}
	if got := r.do(syncReq(1)); got[0].Err != disk.ErrBadHandle {
		t.Errorf("a handle outlived its process: %v", got[0].Err)
	}
}

// Goal: a power loss draws all that may become of an unsynced create: gone, empty,
// short, zeros, whole.
func TestUnsyncedCreate(t *testing.T) {
	seen := map[string]bool{}
	want := sectors(7, 4)
	for seed := range uint64(300) {
		r := rig{t, New(Options{Seed: seed})}
		r.ok(openReq(1, "f"), writeReq(1, 0, want))
		r.Crash(PowerLoss)
		switch got := r.ReadFile("f"); {
		case got == nil:
			seen["gone"] = true
		case len(got) == 0:
			seen["empty"] = true
		case bytes.Equal(got, make([]byte, len(want))):
			seen["zeros"] = true
		case bytes.Equal(got, want):
			seen["whole"] = true
		case len(got) < len(want):
			seen["short"] = true
		default:
			seen["torn"] = true
		}
	}
	if len(seen) != 6 {
		t.Errorf("seen only %v", seen)
	}
}

// Goal: names go out of order and independently, and never back beyond a synced
// version.
func TestNamesOutOfOrder(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(200) {
		r := rig{t, New(Options{Seed: seed})}
		r.ok(openReq(1, "a"), openReq(2, "b"), syncRoot)
		r.ok(openReq(3, "c"), disk.Request{Kind: disk.KindRemove, Path: "a"}, disk.Request{Kind: disk.KindRename, Path: "b", Path2: "d"})
		r.Crash(PowerLoss)
		names := fmt.Sprint(r.Files())
		seen[names] = true
	}
	for _, names := range []string{"[a b]", "[a b c]", "[b]", "[b c]", "[a d]", "[a c d]", "[d]", "[c d]"} {
		if !seen[names] {
			t.Errorf("never saw %s", names)
		}
		delete(seen, names)
	}
	if len(seen) != 0 {
		t.Errorf("impossible: %v", seen)
	}
}

// Goal: a rename between directories is durable when both are synced, and one
// synced directory does not tear it.
func TestRenameBetweenDirectories(t *testing.T) {
	kept := 0
	for seed := range uint64(60) {
		r := rig{t, New(Options{Seed: seed})}
		r.ok(disk.Request{Kind: disk.KindMkdir, Path: "x"}, disk.Request{Kind: disk.KindMkdir, Path: "y"}, syncRoot, openReq(1, "x/f"), disk.Request{Kind: disk.KindSyncDir, Path: "x"})
		r.ok(disk.Request{Kind: disk.KindRename, Path: "x/f", Path2: "y/f"}, disk.Request{Kind: disk.KindSyncDir, Path: "y"})
		both := seed%2 == 0
		if both {
			r.ok(disk.Request{Kind: disk.KindSyncDir, Path: "x"})
		}
		r.Crash(PowerLoss)
		files := fmt.Sprint(r.Files())
		switch {
		case files == "[y/f]":
			kept++
		case files != "[x/f]" || both:
			t.Fatalf("seed %d: %s", seed, files)
		}
	}
	if kept == 30 || kept == 60 {
		t.Errorf("%d renames kept: half a sync decides", kept)
	}
}

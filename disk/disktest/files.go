package disktest

import (
	"bytes"
	"slices"
	"strings"

	"github.com/mortarmq/mortarmq/disk"
)

// Goal: Open creates, refuses and sizes as its flags say.
func testOpen(s *suite) {
	s.fails(disk.ErrNotExist, openFile(1, "a", 0))
	s.fails(disk.ErrNotExist, openFile(1, "no/a", disk.FlagCreate))
	if c := s.ok(openFile(1, "a", disk.FlagCreate|disk.FlagExclusive))[0]; c.N != 0 {
		s.Errorf("a new file has %d bytes", c.N)
	}
	s.fails(disk.ErrExist, openFile(2, "a", disk.FlagCreate|disk.FlagExclusive))
	s.ok(write(1, 0, pattern(1, 77)))
	if c := s.ok(openFile(2, "a", disk.FlagCreate))[0]; c.N != 77 {
		s.Errorf("N is %d, want the size 77", c.N)
	}
	s.ok(onPath(disk.KindMkdir, "d"))
	s.fails(disk.ErrInvalid, openFile(3, "d", 0))
	s.fails(disk.ErrInvalid, openFile(3, "d", disk.FlagReadOnly))
	s.fails(disk.ErrInvalid, openFile(3, "a/b", disk.FlagCreate))
}

// Goal, invariant 7: handles are bound by Open and freed by Close; what is not
// open answers ErrBadHandle; a bound handle is not bound again.
func testHandles(s *suite) {
	for _, r := range []disk.Request{closeFile(5), read(5, 0, make([]byte, 1)), write(5, 0, []byte{1}), zero(5, 0, 1), sync(5), truncate(5, 0)} {
		s.fails(disk.ErrBadHandle, r)
	}
	s.ok(openFile(5, "a", disk.FlagCreate), openFile(6, "a", 0), openFile(1<<31, "b", disk.FlagCreate))
	s.fails(disk.ErrInvalid, openFile(5, "b", 0))
	s.ok(write(5, 0, []byte("through 5")), write(1<<31, 0, []byte("b")))
	if got := s.content(6); string(got) != "through 5" {
		s.Errorf("the other handle of the file sees %q", got)
	}
	s.ok(closeFile(5))
	s.fails(disk.ErrBadHandle, write(5, 0, []byte("x")))
	s.fails(disk.ErrBadHandle, closeFile(5))
	s.fails(disk.ErrNotExist, openFile(5, "none", 0))
	s.fails(disk.ErrBadHandle, sync(5))
	s.ok(openFile(5, "b", 0))
	if got := s.content(5); string(got) != "b" {
		s.Errorf("the handle bound again sees %q", got)
	}
	if got := s.content(6); string(got) != "through 5" {
		s.Errorf("after the other's Close the handle sees %q", got)
	}
}

// Goal, invariant 9: a handle follows its file through rename, replacement and
// removal.
func testHandleOutlivesName(s *suite) {
	s.ok(openFile(1, "a", disk.FlagCreate), openFile(2, "b", disk.FlagCreate), write(1, 0, []byte("A")), write(2, 0, []byte("B")))
	s.ok(rename("a", "b"), write(1, 1, []byte("1")), write(2, 1, []byte("2")))
	if a, b := s.content(1), s.content(2); string(a) != "A1" || string(b) != "B2" {
		s.Errorf("after the rename the handles see %q and %q", a, b)
	}
	s.ok(openFile(3, "b", 0), onPath(disk.KindRemove, "b"), write(3, 2, []byte("3")), sync(3))
	if a := s.content(1); string(a) != "A13" {
		s.Errorf("after the removal the handle sees %q", a)
	}
	s.fails(disk.ErrNotExist, openFile(4, "b", 0))
	s.ok(openFile(4, "b", disk.FlagCreate))
	if got := s.content(4); len(got) != 0 {
		s.Errorf("the new file of that name holds %q", got)
	}
}

// Goal, invariant 9: a handle for reading alone reads and refuses the rest.
func testReadOnly(s *suite) {
	s.ok(openFile(1, "a", disk.FlagCreate), write(1, 0, []byte("abc")), openFile(2, "a", disk.FlagReadOnly))
	for _, r := range []disk.Request{write(2, 0, []byte("x")), zero(2, 0, 1), truncate(2, 0)} {
		s.fails(disk.ErrPermission, r)
	}
	s.ok(sync(2))
	if got := s.content(2); string(got) != "abc" {
		s.Errorf("read %q", got)
	}
}

// Goal, invariant 8: no path leaves the root.
func testPaths(s *suite) {
	s.ok(openFile(1, "ok", disk.FlagCreate))
	for _, p := range []string{"", ".", "..", "/abs", "../x", "a/../b", "a//b", "a/", "./a", "x\x00y"} {
		s.fails(disk.ErrInvalid, openFile(2, p, disk.FlagCreate))
		s.fails(disk.ErrInvalid, onPath(disk.KindRemove, p))
		s.fails(disk.ErrInvalid, onPath(disk.KindMkdir, p))
		s.fails(disk.ErrInvalid, rename(p, "ok2"))
		s.fails(disk.ErrInvalid, rename("ok", p))
		if p != "" {
			s.fails(disk.ErrInvalid, onPath(disk.KindList, p))
			s.fails(disk.ErrInvalid, onPath(disk.KindSyncDir, p))
		}
	}
	s.ok(onPath(disk.KindList, ""), onPath(disk.KindSyncDir, ""))
}

// Goal: directories are made with their parents, listed sorted, and removed only
// when they are empty.
func testDirectories(s *suite) {
	if got := s.ok(onPath(disk.KindList, ""))[0].Entries; len(got) != 0 {
		s.Fatalf("a fresh disk lists %+v", got)
	}
	s.ok(onPath(disk.KindMkdir, "a/b/c"), onPath(disk.KindMkdir, "a/b"), onPath(disk.KindMkdir, "a/b/c"))
	s.ok(openFile(1, "a/z", disk.FlagCreate), openFile(2, "a/B", disk.FlagCreate), write(1, 0, pattern(1, 9)))
	got := s.ok(onPath(disk.KindList, "a"))[0].Entries
	for i := range got {
		if got[i].Dir {
			got[i].Size = 0
		}
	}
	if want := []disk.Entry{{Name: "B"}, {Name: "b", Dir: true}, {Name: "z", Size: 9}}; !slices.Equal(got, want) {
		s.Errorf("listed %+v, want %+v", got, want)
	}
	s.fails(disk.ErrNotEmpty, onPath(disk.KindRemove, "a/b"))
	s.fails(disk.ErrExist, onPath(disk.KindMkdir, "a/z"))
	s.fails(disk.ErrNotExist, onPath(disk.KindList, "none"))
	s.fails(disk.ErrNotExist, onPath(disk.KindSyncDir, "none"))
	s.fails(disk.ErrInvalid, onPath(disk.KindList, "a/z"))
	s.fails(disk.ErrNotExist, onPath(disk.KindRemove, "none"))
	s.ok(onPath(disk.KindRemove, "a/b/c"), onPath(disk.KindRemove, "a/b"), onPath(disk.KindSyncDir, "a"), onPath(disk.KindSyncDir, ""))
	if got := s.ok(onPath(disk.KindList, "a"))[0].Entries; len(got) != 2 {
		s.Errorf("after the removal: %+v", got)
	}
}

// Goal: Rename moves, replaces and refuses.
func testRename(s *suite) {
	s.ok(onPath(disk.KindMkdir, "d/e"), openFile(1, "a", disk.FlagCreate), write(1, 0, []byte("A")), openFile(2, "d/b", disk.FlagCreate), write(2, 0, []byte("B")))
	s.fails(disk.ErrNotExist, rename("none", "x"))
	s.fails(disk.ErrNotExist, rename("a", "none/x"))
	s.ok(rename("a", "a"))
	s.ok(rename("a", "d/b"), openFile(3, "d/b", 0))
	if got := s.content(3); string(got) != "A" {
		s.Errorf("the renamed file holds %q", got)
	}
	s.fails(disk.ErrNotExist, openFile(4, "a", 0))
	s.ok(rename("d/e", "f"), rename("d", "g"), openFile(4, "g/b", 0))
	if got := s.content(4); string(got) != "A" {
		s.Errorf("the file in the renamed directory holds %q", got)
	}
}

// Goal: Truncate cuts and extends with zeros, Zero writes zeros and extends.
func testTruncateAndZero(s *suite) {
	data := pattern(1, 20000)
	s.ok(openFile(1, "a", disk.FlagCreate), write(1, 0, data), truncate(1, 6000))
	model := slices.Clone(data[:6000])
	check := func(what string) {
		s.Helper()
		if got := s.content(1); !bytes.Equal(got, model) {
			s.Errorf("%s: %d bytes, want %d, or others", what, len(got), len(model))
		}
	}
	check("cut")
	s.ok(truncate(1, 15000))
	model = append(model, make([]byte, 9000)...)
	check("cut and extended: what was cut off must not come back")
	s.ok(write(1, 14000, data[:3000]), zero(1, 5000, 10000))
	model = overlay(model, 14000, data[:3000])
	clear(model[5000:15000])
	check("zeroed")
	s.ok(zero(1, 16000, 3<<20+5))
	model = overlay(model, 16000, make([]byte, 3<<20+5))
	check("extended by zeros")
	s.ok(truncate(1, 0))
	model = nil
	check("emptied")
	for _, r := range []disk.Request{truncate(1, -1), zero(1, -1, 5), zero(1, 0, -5)} {
		s.fails(disk.ErrInvalid, r)
	}
}

// Goal: a handle opened with FlagDirect works for aligned requests, at the end of
// a file too, and sees the same bytes as an ordinary one.
func testDirect(s *suite) {
	b := disk.AlignedBuffer(3 * disk.Alignment)
	copy(b, pattern(1, len(b)))
	s.ok(openFile(1, "a", disk.FlagCreate|disk.FlagDirect), zero(1, 0, 8*disk.Alignment), write(1, disk.Alignment, b), sync(1), openFile(2, "a", 0))
	want := make([]byte, 8*disk.Alignment)
	copy(want[disk.Alignment:], b)
	if got := s.content(2); !bytes.Equal(got, want) {
		s.Error("the ordinary handle sees other bytes")
	}
	in := disk.AlignedBuffer(4 * disk.Alignment)
	if c := s.ok(read(1, 6*disk.Alignment, in))[0]; c.N != 2*disk.Alignment {
		s.Errorf("N is %d at the end of the file, want %d", c.N, 2*disk.Alignment)
	}
	s.ok(truncate(1, 6000), read(1, 4096, in))
	if !bytes.Equal(in[:1904], b[:1904]) {
		s.Error("read other bytes at an end that is not aligned")
	}
}

// Goal: free space is told, and the counters rise by what was done.
func testSpaceAndCounters(s *suite) {
	if c := s.ok(disk.Request{Kind: disk.KindSpace})[0]; c.N <= 0 || c.Total < c.N {
		s.Errorf("%d of %d bytes are free", c.N, c.Total)
	}
	before := s.Disk.Counters()
	s.ok(openFile(1, "a", disk.FlagCreate), write(1, 0, pattern(1, 1000)), sync(1), read(1, 0, make([]byte, 400)))
	after := s.Disk.Counters()
	if after.Writes != before.Writes+1 || after.WriteBytes != before.WriteBytes+1000 || after.Syncs != before.Syncs+1 ||
		after.Reads != before.Reads+1 || after.ReadBytes != before.ReadBytes+400 {
		s.Errorf("counters went from %+v to %+v", before, after)
	}
}

// Goal: a long random sequence on one lane leaves what it leaves on a map of
// byte slices.
func testModel(s *suite) {
	model := map[string][]byte{}
	names := strings.Fields("a b c d e")
	for i, n := range names {
		s.ok(openFile(disk.Handle(i), n, disk.FlagCreate))
		model[n] = nil
	}
	x := uint32(99)
	draw := func(n int) int { x = x*1664525 + 1013904223; return int(x>>8) % n }
	for range 600 {
		i := draw(len(names))
		h, n := disk.Handle(i), names[i]
		switch offset := int64(draw(30000)); draw(6) {
		case 0, 1, 2:
			b := pattern(draw(1000), 1+draw(9000))
			s.ok(write(h, offset, b))
			model[n] = overlay(model[n], offset, b)
		case 3:
			s.ok(truncate(h, offset))
			if int(offset) <= len(model[n]) {
				model[n] = slices.Clone(model[n][:offset])
			} else {
				model[n] = append(model[n], make([]byte, int(offset)-len(model[n]))...)
			}
		case 4:
			length := int64(draw(9000))
			s.ok(zero(h, offset, length))
			model[n] = overlay(model[n], offset, make([]byte, length))
		case 5:
			s.ok(sync(h))
		}
		if got := s.content(h); !bytes.Equal(got, model[n]) {
			s.Fatalf("%s: %d bytes, the model has %d, or others", n, len(got), len(model[n]))
		}
	}
}

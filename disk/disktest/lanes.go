package disktest

import (
	"bytes"
	"slices"

	"github.com/mortarmq/mortarmq/disk"
)

// Goal, invariant 1: whatever mixture is submitted at once, on whatever lanes and
// with whatever outcome, each request completes once and nothing else does.
func testOnce(s *suite) {
	s.ok(openFile(1, "a", disk.FlagCreate), openFile(2, "b", disk.FlagCreate))
	var reqs []disk.Request
	for i := range 300 {
		r := []disk.Request{
			write(1, int64(i)*100, pattern(i, 100)), write(2, 0, pattern(i, 5000)), sync(1), sync(99), read(2, 0, make([]byte, 64)),
			onPath(disk.KindList, ""), onPath(disk.KindRemove, "nothing"), {Kind: disk.KindInvalid}, {Kind: disk.KindSpace},
			openFile(1, "c", disk.FlagCreate),
		}[i%10]
		r.Lane = disk.Lane(i % disk.LaneCount)
		reqs = append(reqs, r)
	}
	s.do(reqs...)
	s.do(sync(1))
	if extra := s.Disk.Poll(nil); len(extra) != 0 {
		s.Errorf("completions of nothing: %+v", extra)
	}
}

// Goal, invariant 2: requests of an ordered lane are carried out and completed in
// the order of submission, over several submissions, and each lane on its own.
func testLaneOrder(s *suite) {
	for _, lane := range []disk.Lane{disk.LaneJournal, disk.LaneBackground} {
		h := disk.Handle(lane) + 1
		s.ok(openFile(h, "f"+laneName(lane), disk.FlagCreate))
		var reqs []disk.Request
		for i := range 100 {
			r := write(h, int64(i%7), pattern(i, 2900))
			if i%10 == 9 {
				r = read(h, 0, make([]byte, 3000))
			}
			r.Lane = lane
			reqs = append(reqs, r)
		}
		s.ok(reqs...)
		if !slices.IsSorted(s.order) {
			s.Errorf("%s completed out of order: %v", laneName(lane), s.order)
		}
		checkReads(s, reqs)
	}
}

func laneName(l disk.Lane) string { return [...]string{"journal", "background", "read"}[l] }

// checkReads replays the writes before each read on a slice.
func checkReads(s *suite, reqs []disk.Request) {
	var model []byte
	for i, r := range reqs {
		switch r.Kind {
		case disk.KindWrite:
			model = overlay(model, r.Offset, r.Buf)
		case disk.KindRead:
			if want := model[r.Offset:]; !bytes.Equal(r.Buf[:min(len(want), len(r.Buf))], want[:min(len(want), len(r.Buf))]) {
				s.Errorf("read %d does not see the writes before it, or sees those behind it", i)
			}
		}
	}
}

// overlay writes b into a model of a file.
func overlay(model []byte, offset int64, b []byte) []byte {
	if end := int(offset) + len(b); len(b) > 0 && end > len(model) {
		model = append(model, make([]byte, end-len(model))...)
	}
	copy(model[min(int(offset), len(model)):], b)
	return model
}

// Goal, invariant 2: a request that fails neither stops its lane nor changes its
// order.
func testFailureKeepsLaneOrder(s *suite) {
	s.ok(openFile(1, "a", disk.FlagCreate))
	got := s.do(write(1, 0, pattern(1, 10)), sync(99), openFile(2, "no/such", 0), write(1, 10, pattern(2, 10)), onPath(disk.KindRemove, "gone"), sync(1))
	want := []disk.Errno{disk.OK, disk.ErrBadHandle, disk.ErrNotExist, disk.OK, disk.ErrNotExist, disk.OK}
	for i, c := range got {
		if c.Err != want[i] {
			s.Errorf("request %d: %v, want %v", i, c.Err, want[i])
		}
	}
	if !slices.IsSorted(s.order) {
		s.Errorf("completed out of order: %v", s.order)
	}
	if b := s.content(1); !bytes.Equal(b, append(pattern(1, 10), pattern(2, 10)...)) {
		s.Errorf("file holds %x", b)
	}
}

// Goal, invariant 2: far more reads than the pool is wide are all served, while
// the journal's lane goes on.
func testReadPool(s *suite) {
	data := pattern(3, 64<<10)
	s.ok(openFile(1, "a", disk.FlagCreate), write(1, 0, data), openFile(2, "j", disk.FlagCreate))
	var reqs []disk.Request
	for i := range 200 {
		r := read(1, int64(i)*300, make([]byte, 300))
		r.Lane = disk.LaneRead
		reqs = append(reqs, r)
		if i%20 == 0 {
			reqs = append(reqs, write(2, int64(i), []byte{1}))
		}
	}
	s.ok(reqs...)
	for _, r := range reqs {
		if r.Kind == disk.KindRead && !bytes.Equal(r.Buf, data[r.Offset:r.Offset+300]) {
			s.Errorf("read at %d gave other bytes", r.Offset)
		}
	}
}

// Goal, invariant 4: a write leaves its Buf as it was, a read fills its own and
// nothing beyond, and the completion names it.
func testBufIsBorrowed(s *suite) {
	data := pattern(4, 5000)
	kept := slices.Clone(data)
	arena := make([]byte, 300)
	c := s.ok(openFile(1, "a", disk.FlagCreate), write(1, 7, data), read(1, 7, arena[100:200]))
	if !bytes.Equal(data, kept) {
		s.Error("a write changed its Buf")
	}
	if c[1].N != 5000 || c[2].N != 100 {
		s.Errorf("N is %d and %d, want 5000 and 100", c[1].N, c[2].N)
	}
	if !bytes.Equal(arena[100:200], data[:100]) || !bytes.Equal(arena[:100], make([]byte, 100)) || !bytes.Equal(arena[200:], make([]byte, 100)) {
		s.Error("a read did not fill its Buf, or more")
	}
	if len(c[2].Buf) != 100 || &c[2].Buf[0] != &arena[100] {
		s.Error("the completion does not name the Buf")
	}
}

// Goal, invariant 5: reads are short at the end of the file alone; what was never
// written reads as zeros.
func testShortReads(s *suite) {
	s.ok(openFile(1, "a", disk.FlagCreate), write(1, 9000, pattern(5, 1000)))
	for _, c := range []struct{ offset, length, want int64 }{
		{0, 10000, 10000}, {0, 20000, 10000}, {9999, 10, 1}, {10000, 10, 0}, {50000, 10, 0}, {4096, 4096, 4096}, {3, 0, 0},
	} {
		b := slices.Repeat([]byte{0xee}, int(c.length))
		got := s.ok(read(1, c.offset, b))[0]
		if got.N != c.want {
			s.Errorf("read %d at %d: N %d, want %d", c.length, c.offset, got.N, c.want)
		}
		if hole := max(0, min(c.want, 9000-c.offset)); !bytes.Equal(b[:hole], make([]byte, hole)) {
			s.Errorf("read %d at %d: the hole is not zeros", c.length, c.offset)
		}
	}
	s.fails(disk.ErrInvalid, read(1, -1, make([]byte, 1)))
	s.fails(disk.ErrInvalid, write(1, -1, make([]byte, 1)))
}

package disktest

import (
	"testing"

	"github.com/mortarmq/mortarmq/disk"
)

// Harness is one fresh, empty disk under test.
type Harness struct {
	Disk disk.Disk
	// Step returns when something has completed that was not polled yet. It is
	// called only while requests are under way or unpolled.
	Step func()
	// PowerLoss, if the disk can do that, crashes it in the worst way that the
	// contract allows and brings it up again with no handle open. Nil otherwise.
	PowerLoss func()
}

// Run runs the whole suite; open gives each test a disk of its own.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := open(t)
			if c.power && h.PowerLoss == nil {
				t.Skip("this disk cannot lose power")
			}
			c.run(&suite{T: t, Harness: h})
		})
	}
}

type testCase struct {
	name  string
	power bool
	run   func(*suite)
}

var cases = []testCase{
	{"Once", false, testOnce},
	{"LaneOrder", false, testLaneOrder},
	{"FailureKeepsLaneOrder", false, testFailureKeepsLaneOrder},
	{"ReadPool", false, testReadPool},
	{"BufIsBorrowed", false, testBufIsBorrowed},
	{"ShortReads", false, testShortReads},
	{"Open", false, testOpen},
	{"Handles", false, testHandles},
	{"HandleOutlivesName", false, testHandleOutlivesName},
	{"ReadOnly", false, testReadOnly},
	{"Paths", false, testPaths},
	{"Directories", false, testDirectories},
	{"Rename", false, testRename},
	{"TruncateAndZero", false, testTruncateAndZero},
	{"Direct", false, testDirect},
	{"SpaceAndCounters", false, testSpaceAndCounters},
	{"Model", false, testModel},
	{"SyncIsDurable", true, testSyncIsDurable},
	{"SyncCoversItsLane", true, testSyncCoversItsLane},
	{"SyncDirIsDurable", true, testSyncDirIsDurable},
	{"RenameIsAtomic", true, testRenameIsAtomic},
	{"MkdirParents", true, testMkdirParents},
	{"TruncateIsDurable", true, testTruncateIsDurable},
}

// suite drives a harness: it submits, waits, and checks invariant 1 on the way.
type suite struct {
	*testing.T
	Harness
	slot  uint32
	order []uint32 // slots in the order in which they completed
}

// do submits reqs together and gives their completions in the same order.
func (s *suite) do(reqs ...disk.Request) []disk.Completion {
	s.Helper()
	first := s.slot
	for i := range reqs {
		reqs[i].Tag = disk.Tag{Owner: 7, Slot: s.slot, Gen: s.slot * 3}
		s.slot++
	}
	s.Disk.Submit(reqs)
	got := make([]disk.Completion, len(reqs))
	s.order = s.order[:0]
	for len(s.order) < len(reqs) {
		s.Step()
		for _, c := range s.Disk.Poll(nil) {
			i := int(c.Tag.Slot - first)
			if i < 0 || i >= len(reqs) || c.Tag != reqs[i].Tag {
				s.Fatalf("a completion with the tag %+v of no request under way", c.Tag)
			}
			if got[i].Tag == c.Tag {
				s.Fatalf("invariant 1: %s completed twice", c.Kind)
			}
			if c.Kind != reqs[i].Kind || c.Lane != reqs[i].Lane || c.Handle != reqs[i].Handle {
				s.Fatalf("request %s handle %d completed as %s handle %d", reqs[i].Kind, reqs[i].Handle, c.Kind, c.Handle)
			}
			got[i] = c
			s.order = append(s.order, c.Tag.Slot-first)
		}
	}
	return got
}

// ok is do for requests that must succeed.
func (s *suite) ok(reqs ...disk.Request) []disk.Completion {
	s.Helper()
	got := s.do(reqs...)
	for i, c := range got {
		if c.Err != disk.OK {
			s.Fatalf("%s %q handle %d: %v", c.Kind, reqs[i].Path, c.Handle, c.Err)
		}
	}
	return got
}

// fails asserts the outcome of one request.
func (s *suite) fails(want disk.Errno, r disk.Request) {
	s.Helper()
	if c := s.do(r)[0]; c.Err != want {
		s.Errorf("%s %q to %q handle %d: %v, want %v", r.Kind, r.Path, r.Path2, r.Handle, c.Err, want)
	}
}

// content reads the whole file of a handle.
func (s *suite) content(h disk.Handle) []byte {
	s.Helper()
	var all []byte
	for {
		b := make([]byte, 8192)
		n := s.ok(read(h, int64(len(all)), b))[0].N
		all = append(all, b[:n]...)
		if n < int64(len(b)) {
			return all
		}
	}
}

func openFile(h disk.Handle, path string, flags uint8) disk.Request {
	return disk.Request{Kind: disk.KindOpen, Handle: h, Path: path, Flags: flags}
}

func closeFile(h disk.Handle) disk.Request {
	return disk.Request{Kind: disk.KindClose, Handle: h}
}

func write(h disk.Handle, offset int64, b []byte) disk.Request {
	return disk.Request{Kind: disk.KindWrite, Handle: h, Offset: offset, Buf: b}
}

func read(h disk.Handle, offset int64, b []byte) disk.Request {
	return disk.Request{Kind: disk.KindRead, Handle: h, Offset: offset, Buf: b}
}

func sync(h disk.Handle) disk.Request { return disk.Request{Kind: disk.KindSync, Handle: h} }

func truncate(h disk.Handle, size int64) disk.Request {
	return disk.Request{Kind: disk.KindTruncate, Handle: h, Offset: size}
}

func zero(h disk.Handle, offset, length int64) disk.Request {
	return disk.Request{Kind: disk.KindZero, Handle: h, Offset: offset, Length: length}
}

func onPath(kind disk.Kind, path string) disk.Request { return disk.Request{Kind: kind, Path: path} }

func rename(from, to string) disk.Request {
	return disk.Request{Kind: disk.KindRename, Path: from, Path2: to}
}

// pattern gives n bytes that follow from seed, none of them zero.
func pattern(seed, n int) []byte {
	b := make([]byte, n)
	x := uint32(seed)*2654435761 + 12345
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x>>24) | 1
	}
	return b
}

package osdisk

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/disk/disktest"
)

// Goal: no test leaves a worker behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// opened is a disk and the channel of its wake calls.
func opened(t testing.TB, root string) (*Disk, chan struct{}) {
	t.Helper()
	woken := make(chan struct{}, 1)
	d, err := Open(root, func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, woken
}

// wait polls until n completions are there.
func wait(d *Disk, woken chan struct{}, n int) []disk.Completion {
	var got []disk.Completion
	for len(got) < n {
		<-woken
		got = d.Poll(got)
	}
	return got
}

// Goal: the real disk keeps the contract of package disk.
func TestConformance(t *testing.T) {
	disktest.Run(t, func(t *testing.T) disktest.Harness {
		d, woken := opened(t, t.TempDir())
		return disktest.Harness{Disk: d, Step: func() { <-woken }}
	})
}

// Goal: readers share a directory and keep brokers off it, and a broker them.
func TestLockShared(t *testing.T) {
	root := t.TempDir()
	broker, _ := opened(t, root)
	if _, err := LockShared(root); !errors.Is(err, ErrInUse) {
		t.Fatalf("beside a broker: %v", err)
	}
	if err := broker.Close(); err != nil {
		t.Fatal(err)
	}
	var unlocks []func()
	for range 2 {
		unlock, err := LockShared(root)
		if err != nil {
			t.Fatal(err)
		}
		unlocks = append(unlocks, unlock)
	}
	if _, err := Open(root, nil); !errors.Is(err, ErrInUse) {
		t.Fatalf("beside readers: %v", err)
	}
	for _, unlock := range unlocks {
		unlock()
	}
	broker, _ = opened(t, root)
	if err := broker.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := LockShared(root + "/nowhere"); err == nil {
		t.Fatal("a directory that is not there is locked")
	}
}

// Goal: a directory has one broker, the second is told which directory it is and
// what to do, and gets it once the first has closed.
func TestLock(t *testing.T) {
	root := filepath.Join(t.TempDir(), "not", "there", "yet")
	first, _ := opened(t, root)
	_, err := Open(root, nil)
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), root) || !strings.Contains(err.Error(), "stop it") {
		t.Fatalf("the second Open: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := Open(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
}

// Goal: the directory stays its broker's when the lock file is unlinked, replaced
// or renamed, and when it is reached by another path.
func TestLockFileGone(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(lock string) error
	}{
		{"unlinked", os.Remove},
		{"renamed", func(lock string) error { return os.Rename(lock, lock+".old") }},
		{"replaced", func(lock string) error {
			if err := os.WriteFile(lock+".new", nil, 0o644); err != nil {
				return err
			}
			return os.Rename(lock+".new", lock)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			first, _ := opened(t, root)
			if err := c.lose(filepath.Join(root, lockName)); err != nil {
				t.Fatal(err)
			}
			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(root, link); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{root, link} {
				if d, err := Open(path, nil); !errors.Is(err, ErrInUse) {
					if err == nil {
						d.Close()
					}
					t.Fatalf("the second Open of %s: %v", path, err)
				}
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			again, err := Open(root, nil)
			if err != nil {
				t.Fatal(err)
			}
			again.Close()
		})
	}
}

// Goal: a broker that locks the file alone keeps this one out too.
func TestLockFileHeld(t *testing.T) {
	root := t.TempDir()
	f, err := os.Create(filepath.Join(root, lockName))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(root, nil); !errors.Is(err, ErrInUse) {
		t.Fatal(err)
	}
}

// Goal: a directory that cannot be made or written is refused with its name.
func TestUnusable(t *testing.T) {
	dir := t.TempDir()
	inFile := filepath.Join(dir, "file", "data")
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	roots := []string{inFile, filepath.Join(dir, "file"), "/proc/self/fdinfo"}
	if os.Getuid() != 0 {
		locked := filepath.Join(dir, "locked")
		if err := os.Mkdir(locked, 0o500); err != nil {
			t.Fatal(err)
		}
		roots = append(roots, locked)
	}
	for _, root := range roots {
		if d, err := Open(root, nil); !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), root) {
			t.Errorf("Open(%s): %v, %v", root, d, err)
		}
	}
}

// Goal: what is queued when the disk is closed completes with ErrClosed, what
// comes later too, and each once.
func TestClose(t *testing.T) {
	d, _ := opened(t, t.TempDir())
	const n = 400
	reqs := []disk.Request{{Kind: disk.KindOpen, Handle: 1, Path: "a", Flags: disk.FlagCreate}}
	for i := 1; i < n; i++ {
		r := disk.Request{Kind: disk.KindWrite, Lane: disk.Lane(i % 3), Handle: 1, Buf: make([]byte, 64), Tag: disk.Tag{Slot: uint32(i)}}
		if i%4 == 0 {
			r.Kind = disk.KindSync
		}
		reqs = append(reqs, r)
	}
	d.Submit(reqs)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d.Submit(reqs[:1])
	got := d.Poll(nil)
	if len(got) != n+1 || got[n].Err != disk.ErrClosed {
		t.Fatalf("%d completions of %d, the last %v", len(got), n+1, got[len(got)-1].Err)
	}
	seen := map[uint32]int{}
	for _, c := range got {
		seen[c.Tag.Slot]++
	}
	if len(seen) != n || seen[0] != 2 {
		t.Errorf("%d different completions of %d", len(seen), n)
	}
	if d.ClaimInline(nil) {
		t.Error("a closed disk runs inline")
	}
}

// Goal: requests run inline only while nothing of their lane is on its way, so
// that the lane's order is kept; otherwise nothing happens.
func TestRunInline(t *testing.T) {
	d, woken := opened(t, t.TempDir())
	open := []disk.Request{{Kind: disk.KindOpen, Handle: 1, Path: "a", Flags: disk.FlagCreate}}
	d.Submit(open)
	pair := []disk.Request{
		{Kind: disk.KindWrite, Handle: 1, Buf: []byte("inline"), Tag: disk.Tag{Slot: 1}},
		{Kind: disk.KindSync, Handle: 1, Tag: disk.Tag{Slot: 2}},
	}
	if d.ClaimInline(pair) {
		t.Fatal("ran inline before an unpolled completion of its lane")
	}
	wait(d, woken, 1)
	got, ok := runInline(d, pair, make([]disk.Completion, 1, 8))
	if !ok || len(got) != 3 || got[1].Tag.Slot != 1 || got[2].Tag.Slot != 2 || got[1].Err != disk.OK || got[2].Err != disk.OK {
		t.Fatalf("inline: %v %+v", ok, got)
	}
	if extra := d.Poll(nil); len(extra) != 0 {
		t.Errorf("what ran inline is polled again: %+v", extra)
	}
	pair[0].Lane = disk.LaneBackground
	if d.ClaimInline(pair) {
		t.Error("ran another lane's request inline")
	}
	if b, err := os.ReadFile(filepath.Join(d.root, "a")); err != nil || string(b) != "inline" {
		t.Errorf("the file holds %q, %v", b, err)
	}
}

// runInline runs reqs inline and keeps the completions, if the lane is idle.
func runInline(d *Disk, reqs []disk.Request, into []disk.Completion) ([]disk.Completion, bool) {
	if !d.ClaimInline(reqs) {
		return into, false
	}
	return d.RunInline(reqs, into, func() bool { return true })
}

// Goal, invariant 3: when the caller has left an inline run, what is submitted
// meanwhile waits for it, nothing else runs inline, and the completions are polled
// in the lane's order.
func TestRunInlineLeft(t *testing.T) {
	d, woken := opened(t, t.TempDir())
	write := func(i uint32) []disk.Request {
		return []disk.Request{
			{Kind: disk.KindWrite, Handle: 1, Buf: []byte{byte(i)}, Tag: disk.Tag{Slot: i}},
			{Kind: disk.KindSync, Handle: 1, Tag: disk.Tag{Slot: i + 1}},
		}
	}
	open := []disk.Request{{Kind: disk.KindOpen, Handle: 1, Path: "a", Flags: disk.FlagCreate}}
	if _, ok := runInline(d, open, nil); !ok {
		t.Fatal("an idle lane was refused")
	}
	inside, release, left := make(chan struct{}), make(chan struct{}), make(chan bool)
	if !d.ClaimInline(write(10)) {
		t.Fatal("an idle lane was refused")
	}
	go func() {
		_, kept := d.RunInline(write(10), nil, func() bool {
			close(inside)
			<-release
			return false
		})
		left <- kept
	}()
	<-inside
	if d.ClaimInline(write(20)) {
		t.Error("two inline runs at once")
	}
	d.Submit(write(20))
	d.Submit([]disk.Request{{Kind: disk.KindSpace, Lane: disk.LaneBackground}})
	if got := wait(d, woken, 1); got[0].Kind != disk.KindSpace {
		t.Fatalf("%+v passed the inline run", got)
	}
	close(release)
	if <-left {
		t.Error("the completions were kept by who had left")
	}
	var slots []uint32
	for _, c := range wait(d, woken, 4) {
		slots = append(slots, c.Tag.Slot)
	}
	if !slices.Equal(slots, []uint32{10, 11, 20, 21}) {
		t.Errorf("the lane's order was %v", slots)
	}
	if b, err := os.ReadFile(filepath.Join(d.root, "a")); err != nil || string(b) != "\x14" {
		t.Errorf("the file holds %q, %v", b, err)
	}
	// The worker lets go of the lane just after it has told what it did.
	for idle := false; !idle; {
		if _, idle = runInline(d, write(30), nil); !idle && t.Context().Err() != nil {
			t.Fatal("the lane is not idle again")
		}
	}
}

// Goal: the disk's own files cannot be reached through it.
func TestOwnFiles(t *testing.T) {
	d, woken := opened(t, t.TempDir())
	d.Submit([]disk.Request{
		{Kind: disk.KindOpen, Handle: 1, Path: lockName}, {Kind: disk.KindRemove, Path: lockName},
		{Kind: disk.KindRename, Path: lockName, Path2: "x"}, {Kind: disk.KindRename, Path: "x", Path2: lockName},
	})
	for _, c := range wait(d, woken, 4) {
		if c.Err != disk.ErrInvalid {
			t.Errorf("%s: %v", c.Kind, c.Err)
		}
	}
}

// Goal: a pipe, a link and a socket are listed as what they are, and opened by
// nobody: no open waits for a pipe's other end.
func TestIrregular(t *testing.T) {
	dir := t.TempDir()
	d, woken := opened(t, dir)
	do := func(r disk.Request) disk.Completion {
		d.Submit([]disk.Request{r})
		return wait(d, woken, 1)[0]
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Mkfifo(filepath.Join(dir, "pipe"), 0o644), os.Symlink("file", filepath.Join(dir, "link")), os.Symlink("none", filepath.Join(dir, "dangling"))); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, name := range []string{"pipe", "link", "dangling", "socket"} {
		for _, flags := range []uint8{0, disk.FlagReadOnly, disk.FlagCreate, disk.FlagDirect} {
			if c := do(disk.Request{Kind: disk.KindOpen, Handle: 1, Path: name, Flags: flags}); c.Err != disk.ErrNotRegular {
				t.Errorf("%s, flags %d: %v", name, flags, c.Err)
			}
		}
	}
	for _, e := range do(disk.Request{Kind: disk.KindList}).Entries {
		if e.Irregular != (e.Name != "file") || e.Dir {
			t.Errorf("%+v", e)
		}
	}
}

// Goal: a file whose direct requests the file system refuses goes on through the
// page cache, with the same bytes. (An address off alignment is refused in the
// way in which such a file system refuses everything.)
func TestDirectFallsBack(t *testing.T) {
	d, _ := opened(t, t.TempDir())
	off := disk.AlignedBuffer(3 * disk.Alignment)[8:]
	want := bytes.Repeat([]byte("01234567"), 1024)
	copy(off, want)
	in := disk.AlignedBuffer(2*disk.Alignment + 8)[8:]
	reqs := []disk.Request{
		{Kind: disk.KindOpen, Handle: 1, Path: "a", Flags: disk.FlagCreate | disk.FlagDirect},
		{Kind: disk.KindWrite, Handle: 1, Buf: off[:len(want)]},
		{Kind: disk.KindRead, Handle: 1, Buf: in[:2*disk.Alignment]},
	}
	got, _ := runInline(d, reqs, nil)
	for _, c := range got {
		if c.Err != disk.OK {
			t.Errorf("%s: %v", c.Kind, c.Err)
		}
	}
	if !bytes.Equal(in[:len(want)], want) {
		t.Error("read other bytes")
	}
}

// Goal: a file system that is full, read-only and so on is told apart from a
// broken device.
func TestErrno(t *testing.T) {
	for e, want := range map[error]disk.Errno{
		nil: disk.OK, unix.ENOSPC: disk.ErrNoSpace, unix.EDQUOT: disk.ErrNoSpace, unix.EIO: disk.ErrIO, unix.EROFS: disk.ErrPermission,
		unix.EMFILE: disk.ErrTooManyFiles, unix.ENOENT: disk.ErrNotExist, errors.New("other"): disk.ErrIO,
		&os.PathError{Err: unix.EEXIST}: disk.ErrExist,
	} {
		if got := errno(e); got != want {
			t.Errorf("%v: %v, want %v", e, got, want)
		}
	}
}

// Goal: wake is called when the list was empty, and a Write with its Sync wakes
// once.
func TestWakeOnce(t *testing.T) {
	wakes := make(chan struct{}, 100)
	d, err := Open(t.TempDir(), func() { wakes <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.Submit([]disk.Request{{Kind: disk.KindOpen, Handle: 1, Path: "a", Flags: disk.FlagCreate}})
	<-wakes
	d.Poll(nil)
	d.Submit([]disk.Request{{Kind: disk.KindWrite, Handle: 1, Buf: []byte("x")}, {Kind: disk.KindSync, Handle: 1}})
	<-wakes
	kinds := []disk.Kind{}
	for _, c := range d.Poll(nil) {
		kinds = append(kinds, c.Kind)
	}
	if !slices.Equal(kinds, []disk.Kind{disk.KindWrite, disk.KindSync}) {
		t.Errorf("one wake brought %v", kinds)
	}
}

package osdisk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/mortarmq/mortarmq/disk"
)

// readWorkers is the width of the read pool.
const readWorkers = 4

// The disk's own files in its root.
const (
	lockName  = "mortarmq.lock"
	probeName = "mortarmq.probe"
)

// ErrInUse is what Open's error wraps when another process has the directory.
var ErrInUse = errors.New("data directory in use")

// ErrUnusable is what Open's error wraps when the directory cannot be made or
// written.
var ErrUnusable = errors.New("data directory not usable")

// Disk implements disk.Disk on the files below a directory. One goroutine at
// a time submits and polls; Counters and Close may be called from others.
type Disk struct {
	root     string
	rootFD   int
	lockFD   int
	wake     func()
	lanes    [disk.LaneCount]*lane
	workers  sync.WaitGroup
	files    files
	direct   directProbe
	counters counters

	mu   sync.Mutex
	done []disk.Completion
	// unpolled counts the journal lane's requests from submission to Poll, or from
	// RunInline's beginning to its end.
	unpolled int
	// inline is held by who works on the journal's lane: its worker, RunInline, and
	// Close when they have left.
	inline sync.Mutex
	closed atomic.Bool
}

type counters struct {
	reads, readBytes, writes, writeBytes, syncs atomic.Uint64
}

// Open takes the directory root, made if it is missing, for this process. wake is
// called from any goroutine when completions are there to be polled and none were
// before; it must not block.
func Open(root string, wake func()) (*Disk, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, fmt.Errorf("%w: cannot create %s (%w): create it, or choose another data_dir", ErrUnusable, root, err)
	}
	absolute, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUnusable, root, err)
	}
	rootFD, err := unix.Open(absolute, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: cannot open the directory %s (%w)", ErrUnusable, absolute, err)
	}
	lockFD, err := lock(rootFD, absolute)
	if err != nil {
		unix.Close(rootFD)
		return nil, err
	}
	d := &Disk{root: absolute, rootFD: rootFD, lockFD: lockFD, wake: wake}
	d.files.open = make(map[disk.Handle]*file)
	for i := range d.lanes {
		d.lanes[i] = newLane()
	}
	d.startWorkers()
	return d, nil
}

// lock takes the directory for this process, until it ends in whatever way: the
// directory itself, which nobody can unlink from under a broker, and the file in
// it, which shows that the directory can be written and is all that there is on a
// network file system, where a directory cannot be locked.
func lock(rootFD int, root string) (int, error) {
	switch err := flock(rootFD, unix.LOCK_EX); err {
	case nil, unix.EBADF, unix.EINVAL, unix.ENOLCK, unix.EOPNOTSUPP, unix.ENOSYS:
	case unix.EWOULDBLOCK:
		return -1, inUse(root)
	default:
		return -1, fmt.Errorf("%w: cannot lock the directory %s (%w)", ErrUnusable, root, err)
	}
	fd, err := unix.Openat(rootFD, lockName, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return -1, fmt.Errorf("%w: cannot write in %s (%w): give the broker's user write permission to it, or choose another data_dir", ErrUnusable, root, err)
	}
	err = flock(fd, unix.LOCK_EX)
	if err == nil {
		return fd, nil
	}
	unix.Close(fd)
	if err == unix.EWOULDBLOCK {
		return -1, inUse(root)
	}
	return -1, fmt.Errorf("%w: cannot lock %s/%s (%w)", ErrUnusable, root, lockName, err)
}

// flock takes a lock, exclusive or shared, or fails at once.
func flock(fd, how int) error {
	_, err := retry(func() (int, error) { return 0, unix.Flock(fd, how|unix.LOCK_NB) })
	return err
}

func inUse(root string) error {
	return fmt.Errorf("%w: another broker runs on %s, or mortarmq verify reads it: stop it, or give this one another data_dir", ErrInUse, root)
}

func (d *Disk) startWorkers() {
	var alone sync.Mutex // nobody else works on the background lane
	d.workers.Go(func() { d.workOrdered(d.lanes[disk.LaneJournal], &d.inline) })
	d.workers.Go(func() { d.workOrdered(d.lanes[disk.LaneBackground], &alone) })
	for range readWorkers {
		d.workers.Go(func() { d.workReads(d.lanes[disk.LaneRead]) })
	}
}

// Submit queues the requests of each lane.
func (d *Disk) Submit(reqs []disk.Request) {
	journal := 0
	for i := range reqs {
		if reqs[i].Lane == disk.LaneJournal {
			journal++
		}
	}
	if journal > 0 {
		d.mu.Lock()
		d.unpolled += journal
		d.mu.Unlock()
	}
	// Runs of one lane are queued together, so that its worker sees a Write and
	// the Sync behind it at once.
	for len(reqs) > 0 {
		l, n := reqs[0].Lane, 1
		for n < len(reqs) && reqs[n].Lane == l {
			n++
		}
		run := reqs[:n]
		reqs = reqs[n:]
		switch {
		case l >= disk.LaneCount:
			d.refuse(run, disk.ErrInvalid)
		case !d.lanes[l].push(run):
			d.refuse(run, disk.ErrClosed)
		}
	}
}

// refuse completes requests that are not carried out.
func (d *Disk) refuse(reqs []disk.Request, err disk.Errno) {
	if len(reqs) == 0 {
		return
	}
	done := make([]disk.Completion, len(reqs))
	for i := range reqs {
		done[i] = completion(&reqs[i], err)
	}
	d.post(done)
}

func completion(r *disk.Request, err disk.Errno) disk.Completion {
	return disk.Completion{Tag: r.Tag, Kind: r.Kind, Handle: r.Handle, Buf: r.Buf, Err: err, Lane: r.Lane}
}

// post hands completions to the next Poll.
func (d *Disk) post(done []disk.Completion) {
	if len(done) == 0 {
		return
	}
	d.mu.Lock()
	first := len(d.done) == 0
	d.done = append(d.done, done...)
	d.mu.Unlock()
	if first && d.wake != nil {
		d.wake()
	}
}

// Poll appends what has completed.
func (d *Disk) Poll(into []disk.Completion) []disk.Completion {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.done {
		if d.done[i].Lane == disk.LaneJournal {
			d.unpolled--
		}
	}
	into = append(into, d.done...)
	clear(d.done)
	d.done = d.done[:0]
	return into
}

// ClaimInline takes the journal's lane for a RunInline of reqs, which must follow.
// It reports false when the lane is not idle (invariant 3), the disk is closed or a
// request is of another lane: then they are to be submitted. It does not wait.
func (d *Disk) ClaimInline(reqs []disk.Request) bool {
	for i := range reqs {
		if reqs[i].Lane != disk.LaneJournal {
			return false
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unpolled > 0 || d.closed.Load() || !d.inline.TryLock() {
		return false
	}
	d.unpolled = len(reqs)
	return true
}

// RunInline carries out the requests that the lane was claimed for, on the caller's
// goroutine. The caller is the one that submits and polls, and may hand that on to
// another goroutine meanwhile: keep is asked when all is done, and says whether the
// caller takes the completions, appended to into, or Poll does. The lane waits
// until then.
func (d *Disk) RunInline(reqs []disk.Request, into []disk.Completion, keep func() bool) (done []disk.Completion, kept bool) {
	defer d.inline.Unlock()
	before := len(into)
	for i := range reqs {
		into = append(into, d.execute(&reqs[i]))
	}
	if !keep() {
		d.post(into[before:])
		return into[:before], false
	}
	d.mu.Lock()
	d.unpolled -= len(reqs)
	d.mu.Unlock()
	return into, true
}

// Counters reports what was done so far.
func (d *Disk) Counters() disk.Counters {
	c := &d.counters
	return disk.Counters{
		Reads: c.reads.Load(), ReadBytes: c.readBytes.Load(),
		Writes: c.writes.Load(), WriteBytes: c.writeBytes.Load(),
		Syncs: c.syncs.Load(),
	}
}

// Close ends the disk's work and gives the directory back. It is safe to call
// twice.
func (d *Disk) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	for _, l := range d.lanes {
		d.refuse(l.close(), disk.ErrClosed)
	}
	d.workers.Wait()
	d.inline.Lock() // who runs inline has left
	defer d.inline.Unlock()
	d.files.closeAll()
	return errors.Join(unix.Close(d.rootFD), unix.Close(d.lockFD))
}

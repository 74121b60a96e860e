package osdisk

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/mortarmq/mortarmq/disk"
)

// zeroPiece is how much KindZero writes in one call.
const zeroPiece = 1 << 20

var zeros = disk.AlignedBuffer(zeroPiece)

// file is an open descriptor. It is closed when it has no handle and no call is
// on it (invariant 2).
type file struct {
	fd       int
	readOnly bool
	direct   atomic.Bool
	refs     int // the handle and the calls under way; guarded by files.mu
}

// files binds handles.
type files struct {
	mu   sync.Mutex
	open map[disk.Handle]*file
}

func (fs *files) bind(h disk.Handle, f *file) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.open[h] != nil {
		return false
	}
	f.refs = 1
	fs.open[h] = f
	return true
}

func (fs *files) isBound(h disk.Handle) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.open[h] != nil
}

func (fs *files) acquire(h disk.Handle) *file {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.open[h]
	if f != nil {
		f.refs++
	}
	return f
}

func (fs *files) release(f *file) disk.Errno {
	fs.mu.Lock()
	f.refs--
	last := f.refs == 0
	fs.mu.Unlock()
	if !last {
		return disk.OK
	}
	return errno(unix.Close(f.fd))
}

func (fs *files) close(h disk.Handle) disk.Errno {
	fs.mu.Lock()
	f := fs.open[h]
	delete(fs.open, h)
	fs.mu.Unlock()
	if f == nil {
		return disk.ErrBadHandle
	}
	return fs.release(f)
}

func (fs *files) closeAll() {
	for h := range fs.open {
		fs.close(h)
	}
}

// open opens a regular file, past the page cache if that is asked and possible.
func (d *Disk) open(r *disk.Request) (int64, disk.Errno) {
	if !disk.ValidPath(r.Path) || own(r.Path) || d.files.isBound(r.Handle) {
		return 0, disk.ErrInvalid
	}
	// Nothing waits for the other end of a pipe.
	flags := unix.O_RDWR | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK
	f := &file{readOnly: r.Flags&disk.FlagReadOnly != 0}
	if f.readOnly {
		flags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK
	}
	if r.Flags&disk.FlagCreate != 0 {
		flags |= unix.O_CREAT
		if r.Flags&disk.FlagExclusive != 0 {
			flags |= unix.O_EXCL
		}
	}
	f.direct.Store(r.Flags&disk.FlagDirect != 0 && d.direct.works(d.rootFD))
	if err := f.openat(d.rootFD, r.Path, flags); err != disk.OK {
		return 0, err
	}
	var stat unix.Stat_t
	err := errno(unix.Fstat(f.fd, &stat))
	switch {
	case err != disk.OK:
	case irregular(&stat):
		err = disk.ErrNotRegular
	case stat.Mode&unix.S_IFMT == unix.S_IFDIR || !d.files.bind(r.Handle, f):
		err = disk.ErrInvalid
	}
	if err != disk.OK {
		unix.Close(f.fd)
		return 0, err
	}
	return stat.Size, disk.OK
}

func (f *file) openat(rootFD int, path string, flags int) disk.Errno {
	try := flags
	if f.direct.Load() {
		try |= unix.O_DIRECT
	}
	fd, err := retry(func() (int, error) { return unix.Openat(rootFD, path, try, 0o644) })
	if err == unix.EINVAL && f.direct.Swap(false) {
		fd, err = retry(func() (int, error) { return unix.Openat(rootFD, path, flags&^unix.O_EXCL, 0o644) })
	}
	if err == unix.ELOOP || err == unix.ENXIO {
		var stat unix.Stat_t
		if unix.Fstatat(rootFD, path, &stat, unix.AT_SYMLINK_NOFOLLOW) == nil && irregular(&stat) {
			return disk.ErrNotRegular
		}
	}
	f.fd = fd
	return errno(err)
}

// irregular says that it is neither a file nor a directory.
func irregular(stat *unix.Stat_t) bool {
	kind := stat.Mode & unix.S_IFMT
	return kind != unix.S_IFREG && kind != unix.S_IFDIR
}

// onFile carries out a request on an open file.
func (d *Disk) onFile(f *file, r *disk.Request) (int64, disk.Errno) {
	switch r.Kind {
	case disk.KindRead:
		return d.read(f, r)
	case disk.KindSync:
		d.counters.syncs.Add(1)
		_, err := retry(func() (int, error) { return 0, unix.Fdatasync(f.fd) })
		return 0, errno(err)
	}
	if f.readOnly {
		return 0, disk.ErrPermission
	}
	switch r.Kind {
	case disk.KindWrite:
		d.counters.writes.Add(1)
		err := d.write(f, r.Buf, r.Offset)
		if err != nil {
			return 0, errno(err)
		}
		return int64(len(r.Buf)), disk.OK
	case disk.KindZero:
		return 0, d.zero(f, r)
	}
	if r.Offset < 0 {
		return 0, disk.ErrInvalid
	}
	_, err := retry(func() (int, error) { return 0, unix.Ftruncate(f.fd, r.Offset) })
	return 0, errno(err)
}

func (d *Disk) read(f *file, r *disk.Request) (int64, disk.Errno) {
	if r.Offset < 0 {
		return 0, disk.ErrInvalid
	}
	d.counters.reads.Add(1)
	total := 0
	for total < len(r.Buf) {
		direct := f.direct.Load()
		n, err := retry(func() (int, error) { return unix.Pread(f.fd, r.Buf[total:], r.Offset+int64(total)) })
		if err == unix.EINVAL && direct && f.forgetDirect() {
			continue
		}
		if err != nil {
			return 0, errno(err)
		}
		total += n
		// A direct read that ends off a block met the end of the file; going on
		// from there would be refused.
		if n == 0 || direct && n%512 != 0 {
			break
		}
	}
	d.counters.readBytes.Add(uint64(total))
	return int64(total), disk.OK
}

// write writes all of b, or fails.
func (d *Disk) write(f *file, b []byte, offset int64) error {
	if offset < 0 {
		return unix.EINVAL
	}
	for len(b) > 0 {
		direct := f.direct.Load()
		n, err := retry(func() (int, error) { return unix.Pwrite(f.fd, b, offset) })
		if err == unix.EINVAL && direct && f.forgetDirect() {
			continue
		}
		if err != nil {
			return err
		}
		d.counters.writeBytes.Add(uint64(n))
		b, offset = b[n:], offset+int64(n)
	}
	return nil
}

func (d *Disk) zero(f *file, r *disk.Request) disk.Errno {
	if r.Offset < 0 || r.Length < 0 {
		return disk.ErrInvalid
	}
	d.counters.writes.Add(1)
	for at, end := r.Offset, r.Offset+r.Length; at < end; {
		n := min(zeroPiece, end-at)
		if err := d.write(f, zeros[:n], at); err != nil {
			return errno(err)
		}
		at += n
	}
	return disk.OK
}

// forgetDirect lets a file whose direct requests are refused go on through the
// page cache. It reports whether that worked; two calls at once do no harm.
func (f *file) forgetDirect() bool {
	flags, err := unix.FcntlInt(uintptr(f.fd), unix.F_GETFL, 0)
	if err != nil {
		return false
	}
	_, err = unix.FcntlInt(uintptr(f.fd), unix.F_SETFL, flags&^unix.O_DIRECT)
	f.direct.Store(false)
	return err == nil
}

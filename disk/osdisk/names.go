package osdisk

import (
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mortarmq/mortarmq/disk"
)

// own reports whether path is one of the disk's own files (invariant 4).
func own(path string) bool { return path == lockName || path == probeName }

func (d *Disk) rename(from, to string) disk.Errno {
	if !disk.ValidPath(from) || !disk.ValidPath(to) || own(from) || own(to) {
		return disk.ErrInvalid
	}
	_, err := retry(func() (int, error) { return 0, unix.Renameat(d.rootFD, from, d.rootFD, to) })
	return errno(err)
}

func (d *Disk) remove(path string) disk.Errno {
	if !disk.ValidPath(path) || own(path) {
		return disk.ErrInvalid
	}
	_, err := retry(func() (int, error) { return 0, unix.Unlinkat(d.rootFD, path, 0) })
	if err == unix.EISDIR || err == unix.EPERM {
		_, err = retry(func() (int, error) { return 0, unix.Unlinkat(d.rootFD, path, unix.AT_REMOVEDIR) })
		if err == unix.EEXIST {
			err = unix.ENOTEMPTY
		}
	}
	return errno(err)
}

// mkdir makes the directories that are missing, and syncs the name of each but
// the last.
func (d *Disk) mkdir(name string) disk.Errno {
	if !disk.ValidPath(name) {
		return disk.ErrInvalid
	}
	unsynced := false
	for end := 0; end < len(name); {
		if i := strings.IndexByte(name[end+1:], '/'); i >= 0 {
			end += 1 + i
		} else {
			end = len(name)
		}
		dir := name[:end]
		_, err := retry(func() (int, error) { return 0, unix.Mkdirat(d.rootFD, dir, 0o755) })
		switch err {
		case nil:
			if unsynced {
				if err := d.fsyncDir(path.Dir(path.Dir(dir))); err != disk.OK {
					return err
				}
			}
			unsynced = true
		case unix.EEXIST:
			var stat unix.Stat_t
			if err := unix.Fstatat(d.rootFD, dir, &stat, 0); err != nil {
				return errno(err)
			}
			if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
				return disk.ErrExist
			}
		default:
			return errno(err)
		}
	}
	return disk.OK
}

func (d *Disk) syncDir(path string) disk.Errno {
	if path != "" && !disk.ValidPath(path) {
		return disk.ErrInvalid
	}
	d.counters.syncs.Add(1)
	return d.fsyncDir(path)
}

func (d *Disk) fsyncDir(path string) disk.Errno {
	fd, err := d.openDir(path)
	if err != nil {
		return errno(err)
	}
	defer unix.Close(fd)
	_, err = retry(func() (int, error) { return 0, unix.Fsync(fd) })
	return errno(err)
}

func (d *Disk) openDir(path string) (int, error) {
	if path == "" {
		path = "."
	}
	return retry(func() (int, error) {
		return unix.Openat(d.rootFD, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
}

func (d *Disk) list(path string) ([]disk.Entry, disk.Errno) {
	if path != "" && !disk.ValidPath(path) {
		return nil, disk.ErrInvalid
	}
	fd, err := d.openDir(path)
	if err != nil {
		return nil, errno(err)
	}
	dir := os.NewFile(uintptr(fd), path)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, errno(err)
	}
	slices.Sort(names)
	entries := make([]disk.Entry, 0, len(names))
	for _, name := range names {
		if path == "" && own(name) {
			continue
		}
		var stat unix.Stat_t
		switch err := unix.Fstatat(fd, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err {
		case nil:
		case unix.ENOENT:
			continue // removed in the meantime
		default:
			return nil, errno(err)
		}
		e := disk.Entry{Name: name, Dir: stat.Mode&unix.S_IFMT == unix.S_IFDIR, Irregular: irregular(&stat)}
		if !e.Dir {
			e.Size = stat.Size
		}
		entries = append(entries, e)
	}
	return entries, disk.OK
}

func (d *Disk) space() (free, total int64, err disk.Errno) {
	var stat unix.Statfs_t
	if err := unix.Fstatfs(d.rootFD, &stat); err != nil {
		return 0, 0, errno(err)
	}
	unit := int64(stat.Frsize)
	if unit == 0 {
		unit = int64(stat.Bsize)
	}
	return int64(stat.Bavail) * unit, int64(stat.Blocks) * unit, disk.OK
}

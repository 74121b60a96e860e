package osdisk

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/mortarmq/mortarmq/disk"
)

// retry repeats a call that a signal interrupted.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}

// errno gives the contract's name for a system call's error.
func errno(err error) disk.Errno {
	if err == nil {
		return disk.OK
	}
	if e, ok := errors.AsType[unix.Errno](err); ok {
		return named(e)
	}
	return disk.ErrIO
}

func named(e unix.Errno) disk.Errno {
	switch e {
	case unix.ENOSPC, unix.EDQUOT, unix.EFBIG:
		return disk.ErrNoSpace
	case unix.ENOENT:
		return disk.ErrNotExist
	case unix.EEXIST:
		return disk.ErrExist
	case unix.EBADF:
		return disk.ErrBadHandle
	case unix.EACCES, unix.EPERM, unix.EROFS:
		return disk.ErrPermission
	case unix.ENOTEMPTY:
		return disk.ErrNotEmpty
	case unix.EINVAL, unix.ENOTDIR, unix.EISDIR, unix.ENAMETOOLONG, unix.ELOOP, unix.EXDEV:
		return disk.ErrInvalid
	case unix.EMFILE, unix.ENFILE:
		return disk.ErrTooManyFiles
	}
	return disk.ErrIO
}

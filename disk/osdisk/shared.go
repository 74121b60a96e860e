package osdisk

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// LockShared keeps brokers off the directory root until unlock, for who only reads
// it; any number may. It fails with ErrInUse while a broker runs there, and changes
// nothing. Where the file system has no locks it keeps nobody off.
func LockShared(root string) (unlock func(), err error) {
	var held []int
	unlock = func() {
		for _, fd := range held {
			unix.Close(fd)
		}
	}
	for _, path := range []string{root, filepath.Join(root, lockName)} {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil && path != root {
			continue // not there, or not ours to open: the directory's lock is all
		}
		if err != nil {
			unlock()
			return nil, fmt.Errorf("cannot open %s (%w)", path, err)
		}
		held = append(held, fd)
		if flock(fd, unix.LOCK_SH) == unix.EWOULDBLOCK {
			unlock()
			return nil, fmt.Errorf("%w: a broker runs on it: stop it first", ErrInUse)
		}
	}
	return unlock, nil
}

package osdisk

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/mortarmq/mortarmq/disk"
)

// directProbe finds out once whether the root's file system takes direct writes:
// some accept O_DIRECT when a file is opened and refuse every request.
type directProbe struct {
	once sync.Once
	ok   bool
}

func (p *directProbe) works(rootFD int) bool {
	p.once.Do(func() { p.ok = probeDirect(rootFD) })
	return p.ok
}

func probeDirect(rootFD int) bool {
	fd, err := unix.Openat(rootFD, probeName, unix.O_RDWR|unix.O_CREAT|unix.O_DIRECT|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	defer unix.Unlinkat(rootFD, probeName, 0)
	n, err := retry(func() (int, error) { return unix.Pwrite(fd, zeros[:disk.Alignment], 0) })
	return err == nil && n == disk.Alignment
}

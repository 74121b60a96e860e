package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// deviceFileBytes is the size of the file that the device's limit is measured
// on: it is written whole first, then overwritten from its start again and
// again, as a recycled journal file is.
const deviceFileBytes = 64 << 20

// device measures what the file system of a directory can do by itself: 4 KiB
// overwrites of a prewritten file, each followed by fdatasync, one after
// another.
type device struct {
	file   *os.File
	offset int64
}

func openDevice(dir string) (*device, error) {
	f, err := os.CreateTemp(dir, ".mortarmq-bench-*")
	if err != nil {
		return nil, usagef("--device-dir: %v", err)
	}
	// The name is not needed any more; the file goes when it is closed.
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	zeros := make([]byte, 1<<20)
	for off := int64(0); off < deviceFileBytes; off += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros, off); err != nil {
			f.Close()
			return nil, fmt.Errorf("prewriting %s in %s: %w", filepath.Base(f.Name()), dir, err)
		}
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return nil, err
	}
	return &device{file: f}, nil
}

// measure gives overwrites per second over d.
func (d *device) measure(span time.Duration) (float64, error) {
	page := make([]byte, 4096)
	n := 0
	begin := time.Now()
	for time.Since(begin) < span {
		page[0]++
		if _, err := d.file.WriteAt(page, d.offset); err != nil {
			return 0, err
		}
		if err := unix.Fdatasync(int(d.file.Fd())); err != nil {
			return 0, err
		}
		d.offset = (d.offset + 4096) % deviceFileBytes
		n++
	}
	if n == 0 {
		return 0, errors.New("the device took no write in time")
	}
	return float64(n) / time.Since(begin).Seconds(), nil
}

func (d *device) close() { d.file.Close() }

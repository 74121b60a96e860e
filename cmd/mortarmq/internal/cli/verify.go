package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/disk/osdisk"
	"github.com/mortarmq/mortarmq/node/format/verify"
)

// dataDir is a data directory as verify reads it.
type dataDir struct{ root string }

func (d dataDir) List(dir string) ([]verify.Entry, error) {
	names, err := os.ReadDir(filepath.Join(d.root, filepath.FromSlash(dir)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var entries []verify.Entry
	for _, n := range names {
		info, err := n.Info()
		if err != nil {
			return nil, err
		}
		entries = append(entries, verify.Entry{Name: n.Name(), Size: info.Size(), Dir: n.IsDir(), Irregular: !n.IsDir() && !n.Type().IsRegular()})
	}
	return entries, nil
}

func (d dataDir) Open(path string) (verify.File, error) {
	return openFile(filepath.Join(d.root, filepath.FromSlash(path)), syscall.O_NOFOLLOW)
}

// plainFile is a file of known size. It stays open until the program ends or
// close; a check opens one at a time.
type plainFile struct {
	*os.File
	size int64
}

func (f plainFile) Size() int64 { return f.size }

// openFile opens a regular file, without waiting for the other end of a pipe.
func openFile(path string, flags int) (plainFile, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|flags, 0)
	if errors.Is(err, syscall.ELOOP) {
		err = disk.ErrNotRegular
	}
	if err != nil {
		return plainFile{}, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = disk.ErrNotRegular
	}
	if err != nil {
		f.Close()
		return plainFile{}, err
	}
	return plainFile{f, info.Size()}, nil
}

// verifyDir checks a data directory and ends with a summary; damage is exit
// code 4.
func verifyDir(_ context.Context, c *call) error {
	dir := c.args[0]
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return usagef("%s is not a directory", dir)
	}
	unlock, err := osdisk.LockShared(dir)
	if err != nil {
		return usagef("%s: %v", dir, err)
	}
	defer unlock()
	r := verify.Verify(dataDir{dir}, verify.Options{})
	t := c.table()
	for _, f := range r.Findings {
		t.row(f.Level.String(), f.Path, f.Offset, f.Sequence, f.What)
	}
	if err := t.print(); err != nil {
		return err
	}
	fmt.Fprintf(c.Stderr, "%d files, %d bytes, %d records in segments, %d entries in the journal\n", r.Files, r.Bytes, r.Records, r.Entries)
	if r.Damaged() {
		return errors.New("the directory is damaged")
	}
	return nil
}

// dumpFile prints a file of a data directory.
func dumpFile(_ context.Context, c *call) error {
	f, err := openFile(c.args[0], 0)
	if err != nil {
		return usagef("%v", err)
	}
	defer f.Close()
	out := bufio.NewWriterSize(c.Stdout, 1<<16)
	if err := verify.Dump(out, f, verify.DumpOptions{}); err != nil {
		return errors.Join(out.Flush(), err)
	}
	return out.Flush()
}

package verify

import (
	"errors"
	"io"
)

// Entry is one name in a directory.
type Entry struct {
	Name string
	Size int64
	Dir  bool
	// Irregular: a link, a pipe, a socket or a device.
	Irregular bool
}

const notRegular = "not a regular file"

// FS is a data directory. Paths are relative to it, slash-separated.
type FS interface {
	// List gives what is in a directory, in any order; nothing and no error if it
	// does not exist. The empty path is the data directory itself.
	List(dir string) ([]Entry, error)
	// Open opens a file for reading. It does not follow a link, nor wait for a pipe.
	Open(path string) (File, error)
}

// File is an open file.
type File interface {
	// ReadAt is io.ReaderAt: short with io.EOF at the end of the file.
	io.ReaderAt
	Size() int64
	Close() error
}

// chunkBytes is how much is read at a time.
const chunkBytes = 256 << 10

// window reads a file front to back, a chunk at a time. It grows to what is
// asked for, and no further.
type window struct {
	f   File
	buf []byte
	off int64
	n   int
	err error // the first failed read
}

// need gives n bytes at off, fewer at the end of the file or after an error.
// They are borrowed until the next call.
func (w *window) need(off int64, n int) []byte {
	if off >= w.off && off+int64(n) <= w.off+int64(w.n) {
		return w.buf[off-w.off:][:n]
	}
	if size := w.f.Size() - off; int64(n) > size {
		n = int(max(size, 0))
	}
	if want := max(n, chunkBytes); len(w.buf) < want {
		w.buf = make([]byte, want)
	}
	w.off, w.n = off, 0
	got, err := w.f.ReadAt(w.buf, off)
	if err != nil && !errors.Is(err, io.EOF) {
		if w.err == nil {
			w.err = err
		}
		return nil
	}
	w.n = got
	return w.buf[:min(n, got)]
}

package flight

import "github.com/mortarmq/mortarmq/disk"

// Window is a file that is read in chunks of bounded size, from front to back
// for the most part.
//
// Invariants:
//
//  1. What Need gave is borrowed until the next call of Need or Open.
//  2. The window grows beyond Chunk only to what a caller asks for at once.
type Window struct {
	Flight
	Queue  *Queue
	Handle disk.Handle
	Chunk  int

	// Size of the file in bytes, known once it is open.
	Size int64

	state windowState
	buf   []byte // buf[:n] is the file from base on
	base  int64
	n     int
}

type windowState uint8

const (
	windowClosed windowState = iota
	windowOpening
	windowOpen
	windowClosing
)

// Open begins to open the file at path.
func (w *Window) Open(path string) {
	if w.state != windowClosed {
		panic("flight: Open of a window that is not closed")
	}
	w.state, w.base, w.n, w.Size = windowOpening, 0, 0, 0
	w.Submit(w.Queue, disk.Request{Kind: disk.KindOpen, Lane: disk.LaneRead, Flags: disk.FlagReadOnly, Handle: w.Handle, Path: path})
}

// Close begins to close the file.
func (w *Window) Close() {
	if w.state != windowOpen || w.Busy() {
		panic("flight: Close of a window that is not open, or reads")
	}
	w.state = windowClosing
	w.Submit(w.Queue, disk.Request{Kind: disk.KindClose, Lane: disk.LaneRead, Handle: w.Handle})
}

// Closed says whether no file is open, or being opened or closed.
func (w *Window) Closed() bool { return w.state == windowClosed }

// Took takes in what the last request brought, after Land. Err has its failure.
func (w *Window) Took() {
	switch w.state {
	case windowOpening:
		w.Size, w.state = w.N, windowOpen
		if w.Err != disk.OK {
			w.state = windowClosed
		}
	case windowClosing:
		w.state = windowClosed
	case windowOpen:
		if w.Err != disk.OK {
			return
		}
		w.n += int(w.N)
		if w.N == 0 && w.base+int64(w.n) < w.Size {
			w.Size = w.base + int64(w.n) // the file is shorter than it was
		}
	}
}

// Need gives n bytes from pos on, fewer at the end of the file. false means
// that a read is under way.
func (w *Window) Need(pos int64, n int) ([]byte, bool) {
	if rest := w.Size - pos; int64(n) > rest {
		n = int(max(rest, 0))
	}
	if n == 0 {
		return nil, true
	}
	if pos >= w.base && pos+int64(n) <= w.base+int64(w.n) {
		at := int(pos - w.base)
		return w.buf[at : at+n : at+n], true
	}
	from := pos &^ (disk.Alignment - 1)
	want := int((pos + int64(n) - from + disk.Alignment - 1) &^ (disk.Alignment - 1))
	keep := 0
	if from >= w.base && from < w.base+int64(w.n) {
		keep = w.n - int(from-w.base)
	}
	buf := w.buf
	if want > len(buf) {
		buf = disk.AlignedBuffer(max(want, w.Chunk))
	}
	copy(buf, w.buf[w.n-keep:w.n])
	w.buf, w.base, w.n = buf, from, keep
	to := min(int64(len(buf)), w.Size-from)
	w.Submit(w.Queue, disk.Request{Kind: disk.KindRead, Lane: disk.LaneRead, Handle: w.Handle, Offset: from + int64(keep), Buf: buf[keep:to]})
	return nil, false
}

// Forget clears a failure, so that the window can be closed.
func (w *Window) Forget() { w.Err = disk.OK }

// Release gives the window's memory back.
func (w *Window) Release() { w.buf, w.base, w.n = nil, 0, 0 }

// Package disk is the contract between the broker and its files: a submission
// queue.
//
// The life of a request: the broker fills a Request, the driver submits it when
// the turn has ended, the disk carries it out, and its Completion comes back as
// a later input with the request's Tag. A submission never blocks, never calls
// back and never fails on the spot; every failure is a completion.
//
// Invariants that every implementation keeps (package disktest checks them on
// the real one and on the simulator's):
//
//  1. Every submitted request is completed exactly once.
//  2. Requests of one ordered lane are carried out, and completed, one after
//     another in the order of submission, whatever their outcome. Requests of
//     LaneRead are carried out in any order. Between lanes nothing is promised:
//     who needs an order waits for a completion.
//  3. A Sync that completes with OK makes durable every Write, Zero and
//     Truncate of that file whose completion came before the Sync was
//     submitted, and those that precede it in its own lane. It promises nothing
//     about the file's name: a created or renamed file is durable by name after
//     a SyncDir of its directory.
//  4. Buf is borrowed by the disk from submission to completion. A Write does
//     not change it, a Read fills it.
//  5. A Read is short only at the end of the file (N says by how much); bytes
//     that were never written inside the file read as zeros.
//  6. After a failed Write, Zero or Truncate the bytes of its range are
//     unspecified. After a failed Sync nothing is known of what was written
//     since the last one that succeeded, and a later Sync that succeeds does
//     not change that.
//  7. Handles are chosen by the submitter: Open binds one, Close frees it (also
//     when it fails). A request on a handle that is not open completes with
//     ErrBadHandle. Different files never share a handle at one time.
//  8. Paths are relative to the disk's root, slash-separated, without empty, "."
//     and ".." elements (ValidPath). The empty path is the root itself, which
//     can be listed and synced, not removed or renamed.
//  9. A handle stays bound to its file when that is renamed, replaced or
//     removed. A Write, Zero or Truncate on a handle opened with FlagReadOnly
//     completes with ErrPermission, an Open of a handle that is bound already
//     with ErrInvalid and leaves it as it was.
//
// It does not cache, retry, or interpret a byte.
package disk

import "strconv"

// Kind says what a request asks for.
type Kind uint8

// The kinds of request. Fields not named are ignored.
const (
	KindInvalid Kind = iota
	// KindOpen binds Handle to the file at Path. Flags say how. It completes
	// with N = the file's size in bytes.
	KindOpen
	// KindClose frees Handle.
	KindClose
	// KindRead fills Buf from Offset. N is the number of bytes read.
	KindRead
	// KindWrite writes Buf at Offset. N is len(Buf) when it succeeds.
	KindWrite
	// KindZero writes Length zero bytes at Offset, really written and not only
	// reserved, so that a later overwrite finds its blocks allocated.
	KindZero
	// KindSync makes the file's data and size durable (fdatasync).
	KindSync
	// KindTruncate sets the file's size to Offset.
	KindTruncate
	// KindRename renames Path to Path2, replacing what is there. Handles stay
	// bound to the renamed file. It happens as a whole or not at all, and is
	// durable after a SyncDir of both parents.
	KindRename
	// KindRemove removes the file at Path, or the directory if it is empty. It
	// is durable after a SyncDir of its parent.
	KindRemove
	// KindMkdir makes the directory Path and its parents; none is an error if
	// it exists. Parents that it creates are synced by the disk itself except
	// the last, whose name is durable after a SyncDir of its parent.
	KindMkdir
	// KindSyncDir makes the names in the directory Path durable.
	KindSyncDir
	// KindList completes with Entries = what is in the directory Path, sorted
	// by name.
	KindList
	// KindSpace completes with N = free bytes for the broker and Total = size
	// of the file system in bytes.
	KindSpace
)

var kindNames = [...]string{"invalid", "open", "close", "read", "write", "zero", "sync", "truncate", "rename", "remove", "mkdir", "syncdir", "list", "space"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

// Flags of KindOpen.
const (
	// FlagCreate creates the file if it does not exist.
	FlagCreate uint8 = 1 << iota
	// FlagExclusive, with FlagCreate, fails with ErrExist if it does.
	FlagExclusive
	// FlagReadOnly opens for reading alone.
	FlagReadOnly
	// FlagDirect asks for writes past the page cache. The submitter promises
	// that Offset, Length, len(Buf) and Buf's address are multiples of Alignment
	// for every Read, Write and Zero of the handle (AlignedBuffer makes such a
	// Buf). A disk that cannot do it opens the file in the ordinary way.
	FlagDirect
)

// Alignment is the unit of direct requests and of the journal's writes, in
// bytes.
const Alignment = 4096

// Lane names the queue that a request waits in.
type Lane uint8

// The lanes. LaneJournal is never kept waiting by the others; LaneBackground
// carries segments, checkpoints and the metadata log; LaneRead is the bounded
// read pool.
const (
	LaneJournal Lane = iota
	LaneBackground
	LaneRead
	LaneCount = 3
)

// Handle is the submitter's name for an open file.
type Handle uint32

// Tag comes back unchanged with the completion: who asked (Owner), for which of
// its slots, in which generation of that slot, so that a stale completion is
// recognised and dropped.
type Tag struct {
	Owner uint8
	Slot  uint32
	Gen   uint32
}

// Errno is the outcome of a request.
type Errno uint8

// The outcomes.
const (
	OK Errno = iota
	// ErrIO is an error of the device.
	ErrIO
	// ErrNoSpace: the file system or the quota is full.
	ErrNoSpace
	ErrNotExist
	ErrExist
	ErrBadHandle
	ErrPermission
	// ErrNotEmpty: a directory to be removed still holds something.
	ErrNotEmpty
	// ErrInvalid: the request contradicts the contract.
	ErrInvalid
	// ErrClosed: the disk was shut down before the request was carried out.
	ErrClosed
	// ErrTooManyFiles: the process has no file descriptor left; the file itself
	// is well.
	ErrTooManyFiles
	// ErrNotRegular: what has that name is a link, a pipe, a socket or a device. It
	// is not followed, and nothing waits for it.
	ErrNotRegular
)

var errnoNames = [...]string{"ok", "input/output error", "no space left on device", "no such file or directory", "file exists", "bad file handle", "permission denied", "directory not empty", "invalid request", "disk closed", "too many open files", "not a regular file"}

func (e Errno) String() string {
	if int(e) < len(errnoNames) {
		return errnoNames[e]
	}
	return "errno(" + strconv.Itoa(int(e)) + ")"
}

// Error makes an Errno usable as an error. OK is not an error: use Err.
func (e Errno) Error() string { return e.String() }

// Err gives nil for OK and e otherwise.
func (e Errno) Err() error {
	if e == OK {
		return nil
	}
	return e
}

// Request is one thing asked of the disk.
type Request struct {
	Kind   Kind
	Lane   Lane
	Flags  uint8
	Tag    Tag
	Handle Handle
	Offset int64
	Length int64
	Buf    []byte
	Path   string
	Path2  string
}

// Entry is one name in a directory.
type Entry struct {
	Name string
	Size int64
	Dir  bool
	// Irregular: neither a file nor a directory (ErrNotRegular).
	Irregular bool
}

// Completion is the outcome of one request: its Tag, Kind, Lane, Handle and Buf,
// and what came of it.
type Completion struct {
	Tag     Tag
	Kind    Kind
	Lane    Lane
	Err     Errno
	Handle  Handle
	N       int64
	Total   int64
	Buf     []byte
	Entries []Entry
}

// Counters are what a disk has done since it was opened, by its own account.
type Counters struct {
	Reads, ReadBytes   uint64
	Writes, WriteBytes uint64
	Syncs              uint64
}

// Disk is a submission queue for files. One goroutine at a time submits
// and polls.
type Disk interface {
	// Submit queues the requests. It copies the slice, not the buffers.
	Submit(reqs []Request)
	// Poll appends to into what has completed since the last call and returns
	// it. It never blocks; how a driver learns that there is something to poll
	// is the implementation's affair (a wake function, virtual time).
	Poll(into []Completion) []Completion
	// Counters reports what was done so far.
	Counters() Counters
}

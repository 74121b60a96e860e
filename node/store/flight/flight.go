// Package flight keeps account of the disk requests that one procedure has
// under way.
//
// The life of a flight: Submit a few requests, hand every completion of the
// owner to Land, and go on when it says that the last of them has landed, with
// the first failure in Err. Abandon makes what is still under way stale.
//
// Invariants:
//
//  1. Land is true exactly once per flight, with the last completion.
//  2. Err is that of the first request, in the order of landing, that failed; but
//     a sync that failed goes before everything else. A full disk is waited for
//     and what it refused is done again: a sync never is.
//
// It does not order anything: lanes do.
package flight

import "github.com/mortarmq/mortarmq/disk"

// Queue collects requests until the node takes them.
type Queue struct{ requests []disk.Request }

// Take appends what was queued since the last call to out.
func (q *Queue) Take(out []disk.Request) []disk.Request {
	out = append(out, q.requests...)
	clear(q.requests)
	q.requests = q.requests[:0]
	return out
}

// Empty says whether nothing is queued.
func (q *Queue) Empty() bool { return len(q.requests) == 0 }

// Flight is the requests of one procedure that are under way.
type Flight struct {
	// Owner and Slot name the procedure in the tags of its requests.
	Owner uint8
	Slot  uint32

	gen     uint32
	waiting int

	// Err is the first failure, ErrKind and ErrHandle what failed; OK while nothing
	// has.
	Err       disk.Errno
	ErrKind   disk.Kind
	ErrHandle disk.Handle
	// N, Total and Entries are the last completion's.
	N, Total int64
	Entries  []disk.Entry
}

// Submit queues r as part of the flight. The first request after all landed
// begins a new one.
func (f *Flight) Submit(q *Queue, r disk.Request) {
	if f.waiting == 0 {
		f.gen++
		f.Err, f.ErrKind, f.ErrHandle = disk.OK, 0, 0
		f.Entries = nil
	}
	f.waiting++
	r.Tag = disk.Tag{Owner: f.Owner, Slot: f.Slot, Gen: f.gen}
	q.requests = append(q.requests, r)
}

// Land takes a completion of the owner. It is true when c was the last one of
// this flight; false for the others and for those of other slots and flights.
func (f *Flight) Land(c *disk.Completion) bool {
	if c.Tag.Slot != f.Slot || c.Tag.Gen != f.gen || f.waiting == 0 {
		return false
	}
	f.waiting--
	if c.Err != disk.OK && f.Err == disk.OK || FailedSync(c.Kind, c.Err) && !f.SyncFailed() {
		f.Err, f.ErrKind, f.ErrHandle = c.Err, c.Kind, c.Handle
	}
	f.N, f.Total = c.N, c.Total
	if c.Kind == disk.KindList {
		f.Entries = c.Entries
	}
	return f.waiting == 0
}

// SyncFailed says that a sync of the flight failed: nothing is known of what it
// covered, and a later one that succeeds does not change that.
func (f *Flight) SyncFailed() bool { return FailedSync(f.ErrKind, f.Err) }

// FailedSync says whether a request was a sync that was carried out and failed,
// and not one that never began because its file or directory could not be opened.
func FailedSync(k disk.Kind, e disk.Errno) bool {
	if k != disk.KindSync && k != disk.KindSyncDir {
		return false
	}
	switch e {
	case disk.OK, disk.ErrBadHandle, disk.ErrNotExist, disk.ErrTooManyFiles, disk.ErrClosed:
		return false
	default:
		return true
	}
}

// Busy says whether something is under way.
func (f *Flight) Busy() bool { return f.waiting > 0 }

// Abandon makes what is under way stale.
func (f *Flight) Abandon() {
	f.gen++
	f.waiting = 0
}

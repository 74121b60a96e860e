// Package osdisk is the real disk: files under one directory of the operating
// system, behind the contract of package disk.
//
// The life of a disk: Open locks the directory and the lock file in it and starts
// the workers, one for each ordered lane and a few for reads; Submit queues and
// returns; a worker makes the system calls and puts the completions where Poll
// finds them, calling wake when there was nothing to be polled before; Close lets
// the calls under way end, completes the rest with ErrClosed, joins the workers
// and gives the locks back. Poll still works after that.
//
// Invariants:
//
//  1. A submission takes a mutex for some instructions and never waits for the
//     device.
//  2. A descriptor is closed when its handle is, and the last call on it has
//     returned: no call ever meets a descriptor that was given to another file.
//  3. RunInline carries requests out only while nothing of the journal's lane is
//     queued, under way or unpolled, and what is submitted meanwhile waits for it:
//     the lane's order is kept.
//  4. The lock file and the probe are the disk's own and are never listed.
//  5. No error is retried, but for EINTR and a file system that refuses direct
//     requests, whose file goes on through the page cache.
//
// A completion of a Write waits for that of a Sync right behind it, so that the
// pair wakes the submitter once.
//
// It does not cache, order lanes among each other, or judge what it reads.
package osdisk

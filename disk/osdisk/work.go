package osdisk

import (
	"sync"

	"github.com/mortarmq/mortarmq/disk"
)

// workOrdered carries an ordered lane's requests out one after another, while it
// holds busy.
func (d *Disk) workOrdered(l *lane, busy *sync.Mutex) {
	var used []disk.Request
	for {
		reqs := l.takeAll(used)
		if reqs == nil {
			return
		}
		busy.Lock()
		d.workAll(reqs)
		busy.Unlock()
		used = reqs
	}
}

func (d *Disk) workAll(reqs []disk.Request) {
	var buf [2]disk.Completion
	held := buf[:0]
	for i := range reqs {
		if d.closed.Load() {
			d.post(held)
			d.refuse(reqs[i:], disk.ErrClosed)
			return
		}
		held = append(held, d.execute(&reqs[i]))
		if reqs[i].Kind == disk.KindWrite && i+1 < len(reqs) && reqs[i+1].Kind == disk.KindSync {
			continue // the pair wakes the submitter once
		}
		d.post(held)
		held = held[:0]
	}
}

// workReads carries out reads, in no order, one of readWorkers at a time.
func (d *Disk) workReads(l *lane) {
	for {
		r, ok := l.takeOne()
		if !ok {
			return
		}
		done := [1]disk.Completion{d.execute(&r)}
		d.post(done[:])
	}
}

// execute makes the system calls of one request.
func (d *Disk) execute(r *disk.Request) disk.Completion {
	c := completion(r, disk.OK)
	switch r.Kind {
	case disk.KindOpen:
		c.N, c.Err = d.open(r)
	case disk.KindClose:
		c.Err = d.files.close(r.Handle)
	case disk.KindRead, disk.KindWrite, disk.KindZero, disk.KindSync, disk.KindTruncate:
		f := d.files.acquire(r.Handle)
		if f == nil {
			c.Err = disk.ErrBadHandle
			break
		}
		c.N, c.Err = d.onFile(f, r)
		d.files.release(f)
	case disk.KindRename:
		c.Err = d.rename(r.Path, r.Path2)
	case disk.KindRemove:
		c.Err = d.remove(r.Path)
	case disk.KindMkdir:
		c.Err = d.mkdir(r.Path)
	case disk.KindSyncDir:
		c.Err = d.syncDir(r.Path)
	case disk.KindList:
		c.Entries, c.Err = d.list(r.Path)
	case disk.KindSpace:
		c.N, c.Total, c.Err = d.space()
	default:
		c.Err = disk.ErrInvalid
	}
	return c
}

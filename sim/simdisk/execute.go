package simdisk

import (
	"strings"

	"github.com/mortarmq/mortarmq/disk"
)

// execute carries one request out, faults included.
func (d *Disk) execute(o *op) disk.Completion {
	r := &o.req
	var c disk.Completion
	path := r.Path
	switch r.Kind {
	case disk.KindOpen:
		c.N, c.Err = d.open(r)
	case disk.KindClose, disk.KindRead, disk.KindWrite, disk.KindZero, disk.KindSync, disk.KindTruncate:
		h := d.handles[r.Handle]
		if h == nil {
			c.Err = disk.ErrBadHandle
			break
		}
		path = ""
		if d.options.Observe != nil || d.faults.any() {
			path = h.node.path() // costs an allocation, and nobody else asks
		}
		c.N, c.Err = d.onHandle(o, h, path)
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
		c.N, c.Total = max(0, d.options.Capacity-d.pages.used*pageSize), d.options.Capacity
	default:
		c.Err = disk.ErrInvalid
	}
	d.observe(Effect{What: r.Kind.String(), Lane: r.Lane, Path: path, Offset: r.Offset, Length: max(r.Length, int64(len(r.Buf))), Err: c.Err})
	return c
}

func (d *Disk) onHandle(o *op, h *open, path string) (int64, disk.Errno) {
	r, file := &o.req, &h.node.file
	switch r.Kind {
	case disk.KindClose:
		d.unbind(h)
		return 0, disk.OK
	case disk.KindRead:
		return d.read(file, r)
	case disk.KindSync:
		return 0, d.sync(file, o.started, path)
	}
	if h.readOnly {
		return 0, disk.ErrPermission
	}
	switch r.Kind {
	case disk.KindWrite:
		return d.write(file, r, path)
	case disk.KindZero:
		return 0, d.zero(file, r)
	}
	if r.Offset < 0 {
		return 0, disk.ErrInvalid
	}
	d.pages.truncate(file, r.Offset)
	return 0, disk.OK
}

func (d *Disk) open(r *disk.Request) (int64, disk.Errno) {
	if !disk.ValidPath(r.Path) || d.handles[r.Handle] != nil {
		return 0, disk.ErrInvalid
	}
	create := r.Flags&disk.FlagCreate != 0
	node, err := d.tree.lookup(r.Path)
	switch {
	case err == disk.ErrNotExist && create:
		parent, err := d.tree.lookupDir(disk.Parent(r.Path))
		if err != disk.OK {
			return 0, err
		}
		node = d.tree.newInode(false)
		d.tree.apply(nameChange{parent, base(r.Path), node})
	case err != disk.OK:
		return 0, err
	case create && r.Flags&disk.FlagExclusive != 0:
		return 0, disk.ErrExist
	case node.dir:
		return 0, disk.ErrInvalid
	}
	h := &open{handle: r.Handle, node: node, readOnly: r.Flags&disk.FlagReadOnly != 0}
	node.opens++
	d.handles[r.Handle] = h
	d.opened = append(d.opened, h)
	return node.file.size, disk.OK
}

func (d *Disk) unbind(h *open) {
	delete(d.handles, h.handle)
	for i, other := range d.opened {
		if other == h {
			last := len(d.opened) - 1
			d.opened[i] = d.opened[last]
			d.opened[last] = nil
			d.opened = d.opened[:last]
			break
		}
	}
	h.node.opens--
	d.reclaim(h.node)
}

// reclaim gives back the space of a file that has neither name nor handle.
func (d *Disk) reclaim(node *inode) {
	if node.parent == nil && node.opens == 0 {
		d.pages.used -= node.file.allocated
		node.file.allocated = 0
	}
}

func (d *Disk) read(file *content, r *disk.Request) (int64, disk.Errno) {
	if r.Offset < 0 {
		return 0, disk.ErrInvalid
	}
	d.counters.Reads++
	if file.unreadable(r.Offset, int64(len(r.Buf))) {
		return 0, disk.ErrIO
	}
	n := d.pages.read(file, r.Offset, r.Buf)
	d.counters.ReadBytes += uint64(n)
	return int64(n), disk.OK
}

func (d *Disk) write(file *content, r *disk.Request, path string) (int64, disk.Errno) {
	offset, length := r.Offset, int64(len(r.Buf))
	if offset < 0 || offset > fileBytesMax-length {
		return 0, disk.ErrInvalid
	}
	if d.faults.takeWrite(path) {
		part := d.rand.Range(0, length)
		d.pages.write(file, offset, r.Buf[:part], part)
		return 0, disk.ErrIO
	}
	if m, ok := d.faults.takeMisdirect(path); ok {
		d.misdirect(m, r.Buf)
		return length, disk.OK
	}
	if err := d.reserve(file, offset, length); err != disk.OK {
		return 0, err
	}
	d.pages.write(file, offset, r.Buf, length)
	file.mend(offset, length)
	d.counters.Writes++
	d.counters.WriteBytes += uint64(length)
	return length, disk.OK
}

// reserve looks whether the range still fits the capacity.
func (d *Disk) reserve(file *content, offset, length int64) disk.Errno {
	if (d.pages.used+file.missing(offset, length))*pageSize > d.options.Capacity {
		return disk.ErrNoSpace
	}
	return disk.OK
}

func (d *Disk) zero(file *content, r *disk.Request) disk.Errno {
	if r.Offset < 0 || r.Length < 0 || r.Offset > fileBytesMax-r.Length {
		return disk.ErrInvalid
	}
	if err := d.reserve(file, r.Offset, r.Length); err != disk.OK {
		return err
	}
	d.pages.write(file, r.Offset, nil, r.Length)
	file.mend(r.Offset, r.Length)
	d.counters.Writes++
	d.counters.WriteBytes += uint64(r.Length)
	return disk.OK
}

func (d *Disk) sync(file *content, started uint64, path string) disk.Errno {
	d.counters.Syncs++
	if d.faults.takeSync(path) {
		d.pages.failSync(file)
		return disk.ErrIO
	}
	if !d.faults.takeLie(path) {
		d.pages.sync(file, started)
	}
	return disk.OK
}

func (d *Disk) syncDir(path string) disk.Errno {
	if path != "" && !disk.ValidPath(path) {
		return disk.ErrInvalid
	}
	dir, err := d.tree.lookupDir(path)
	if err != disk.OK {
		return err
	}
	d.counters.Syncs++
	if d.faults.takeSync(path) {
		return disk.ErrIO
	}
	if !d.faults.takeLie(path) {
		d.tree.syncDir(dir)
	}
	return disk.OK
}

func (d *Disk) rename(from, to string) disk.Errno {
	if !disk.ValidPath(from) || !disk.ValidPath(to) || strings.HasPrefix(to, from+"/") {
		return disk.ErrInvalid
	}
	node, err := d.tree.lookup(from)
	if err != disk.OK {
		return err
	}
	parent, err := d.tree.lookupDir(disk.Parent(to))
	if err != disk.OK {
		return err
	}
	old := get(parent.entries, base(to))
	switch {
	case old == node:
		return disk.OK
	case old == nil:
	case old.dir != node.dir:
		return disk.ErrInvalid
	case len(old.entries) > 0:
		return disk.ErrNotEmpty
	}
	d.tree.apply(nameChange{node.parent, node.name, nil}, nameChange{parent, base(to), node})
	if old != nil {
		d.reclaim(old)
	}
	return disk.OK
}

func (d *Disk) remove(path string) disk.Errno {
	if !disk.ValidPath(path) {
		return disk.ErrInvalid
	}
	node, err := d.tree.lookup(path)
	if err != disk.OK {
		return err
	}
	if len(node.entries) > 0 {
		return disk.ErrNotEmpty
	}
	d.tree.apply(nameChange{node.parent, node.name, nil})
	d.reclaim(node)
	return disk.OK
}

func (d *Disk) mkdir(path string) disk.Errno {
	if !disk.ValidPath(path) {
		return disk.ErrInvalid
	}
	dir := d.tree.root
	var created *inode // its name is not durable yet
	for rest, more := path, true; more; {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		next := get(dir.entries, name)
		if next == nil {
			if created != nil {
				d.tree.syncDir(created.parent)
			}
			next = d.tree.newInode(true)
			d.tree.apply(nameChange{dir, name, next})
			created = next
		} else if !next.dir {
			return disk.ErrExist
		}
		dir = next
	}
	return disk.OK
}

func (d *Disk) list(path string) ([]disk.Entry, disk.Errno) {
	if path != "" && !disk.ValidPath(path) {
		return nil, disk.ErrInvalid
	}
	dir, err := d.tree.lookupDir(path)
	if err != disk.OK {
		return nil, err
	}
	entries := make([]disk.Entry, len(dir.entries))
	for i, e := range dir.entries {
		entries[i] = disk.Entry{Name: e.name, Size: e.node.file.size, Dir: e.node.dir}
	}
	return entries, disk.OK
}

// base gives the last element of a path.
func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

package simdisk

import (
	"slices"

	"github.com/mortarmq/mortarmq/disk"
)

// Clone gives a second disk in the same state, for a branch: crash it, look, and
// throw it away. Both go on alone. Blocks are shared until one of the two changes
// them, so that a clone costs page tables and not contents. Reads under way fill
// memory of the clone's own. The clone has no observer.
func (d *Disk) Clone() *Disk {
	c := &Disk{}
	*c = *d
	c.options.Observe = nil
	c.rand = d.rand.Clone()
	c.pages.rand = d.pages.rand.Clone()
	// From here on no block has an owner: who writes first copies.
	d.pages.owner, d.pages.free = new(owner), nil
	c.pages.owner, c.pages.free = new(owner), nil
	for i := range c.lanes {
		c.lanes[i] = ordered{ops: slices.Clone(d.lanes[i].queued())}
		ownReads(c.lanes[i].ops)
	}
	c.reads.ops = slices.Clone(d.reads.ops)
	ownReads(c.reads.ops)
	c.done = slices.Clone(d.done)
	c.faults.syncs = slices.Clone(d.faults.syncs)
	c.faults.writes = slices.Clone(d.faults.writes)
	c.faults.misdirects = slices.Clone(d.faults.misdirects)
	c.cloneTree(d)
	return c
}

// Reseed gives a clone's crash and latencies another chance.
func (d *Disk) Reseed(seed uint64) {
	fresh := New(Options{Seed: seed})
	d.rand, d.pages.rand = fresh.rand, fresh.pages.rand
}

func ownReads(ops []op) {
	for i := range ops {
		if r := &ops[i].req; r.Kind == disk.KindRead {
			r.Buf = make([]byte, len(r.Buf))
		}
	}
}

// cloner copies inodes, each once. Its map is only looked into.
type cloner struct{ known map[*inode]*inode }

func (d *Disk) cloneTree(from *Disk) {
	k := cloner{make(map[*inode]*inode)}
	d.tree = &tree{root: k.inode(from.tree.root), lastID: from.tree.lastID, waiting: slices.Clone(from.tree.waiting)}
	for i := range d.tree.waiting {
		for j := range d.tree.waiting[i].changes {
			change := &d.tree.waiting[i].changes[j]
			change.dir, change.node = k.inode(change.dir), k.inode(change.node)
		}
	}
	d.handles = make(map[disk.Handle]*open, len(from.opened))
	d.opened = make([]*open, len(from.opened))
	for i, h := range from.opened {
		d.opened[i] = &open{handle: h.handle, node: k.inode(h.node), readOnly: h.readOnly}
		d.handles[h.handle] = d.opened[i]
	}
}

func (k *cloner) inode(n *inode) *inode {
	if n == nil {
		return nil
	}
	if c := k.known[n]; c != nil {
		return c
	}
	c := &inode{}
	*c = *n
	k.known[n] = c
	c.parent = k.inode(n.parent)
	c.entries, c.durable = k.entries(n.entries), k.entries(n.durable)
	c.file.pages = slices.Clone(n.file.pages)
	c.file.dirty = slices.Clone(n.file.dirty)
	c.file.stale = slices.Clone(n.file.stale)
	c.file.bad = slices.Clone(n.file.bad)
	return c
}

func (k *cloner) entries(list []dirent) []dirent {
	c := make([]dirent, len(list))
	for i, e := range list {
		c[i] = dirent{e.name, k.inode(e.node)}
	}
	return c
}

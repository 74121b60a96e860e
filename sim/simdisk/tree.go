package simdisk

import (
	"slices"
	"strings"

	"github.com/mortarmq/mortarmq/disk"
)

// inode is a file or a directory.
type inode struct {
	id     uint64
	dir    bool
	parent *inode // in the cache's tree; nil for the root and for what is unlinked
	name   string
	opens  int
	// Of a directory: its names as they are seen and as they are durable, sorted.
	entries, durable []dirent
	file             content
}

type dirent struct {
	name string
	node *inode
}

// nameOp is a change of names that is not durable yet. It happens as a whole.
type nameOp struct {
	changes  [2]nameChange
	n        int
	unsynced uint8 // bit i: the directory of change i was not synced since
}

// nameChange makes name in dir mean node; nil removes it.
type nameChange struct {
	dir  *inode
	name string
	node *inode
}

// tree is the name space.
type tree struct {
	root    *inode
	lastID  uint64
	waiting []nameOp // in the order in which they were done
}

// waitingMax bounds the list: a disk commits its names by itself in the end.
const waitingMax = 4096

func newTree() *tree { return &tree{root: &inode{dir: true}} }

func (t *tree) newInode(dir bool) *inode {
	t.lastID++
	return &inode{id: t.lastID, dir: dir}
}

func find(list []dirent, name string) (int, bool) {
	return slices.BinarySearchFunc(list, name, func(e dirent, name string) int { return strings.Compare(e.name, name) })
}

// set makes name mean node in a list of entries; nil removes it.
func set(list []dirent, name string, node *inode) []dirent {
	i, found := find(list, name)
	switch {
	case found && node == nil:
		return slices.Delete(list, i, i+1)
	case found:
		list[i].node = node
		return list
	case node == nil:
		return list
	}
	return slices.Insert(list, i, dirent{name, node})
}

func get(list []dirent, name string) *inode {
	if i, found := find(list, name); found {
		return list[i].node
	}
	return nil
}

// lookup walks the cache's tree. The error says why nothing is there.
func (t *tree) lookup(path string) (*inode, disk.Errno) {
	node := t.root
	for rest, more := path, path != ""; more; {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		if !node.dir {
			return nil, disk.ErrInvalid
		}
		if node = get(node.entries, name); node == nil {
			return nil, disk.ErrNotExist
		}
	}
	return node, disk.OK
}

// lookupDir is lookup for a directory.
func (t *tree) lookupDir(path string) (*inode, disk.Errno) {
	node, err := t.lookup(path)
	if err == disk.OK && !node.dir {
		return nil, disk.ErrInvalid
	}
	return node, err
}

// lookupDurable walks the names that every power loss leaves.
func (t *tree) lookupDurable(path string) *inode {
	node := t.root
	for rest, more := path, path != ""; more; {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		if !node.dir || t.isWaiting(node, name) {
			return nil
		}
		if node = get(node.durable, name); node == nil {
			return nil
		}
	}
	return node
}

func (t *tree) isWaiting(dir *inode, name string) bool {
	for i := range t.waiting {
		for _, c := range t.waiting[i].changes[:t.waiting[i].n] {
			if c.dir == dir && c.name == name {
				return true
			}
		}
	}
	return false
}

// path names node as the cache's tree does now.
func (n *inode) path() string {
	switch {
	case n.parent == nil:
		return n.name
	case n.parent.parent == nil:
		return n.name
	}
	return n.parent.path() + "/" + n.name
}

// apply does changes as one, in the cache now and in what is durable later.
func (t *tree) apply(changes ...nameChange) {
	o := nameOp{n: len(changes)}
	for i, c := range changes {
		o.changes[i] = c
		o.unsynced |= 1 << i
		if old := get(c.dir.entries, c.name); old != nil && old != c.node {
			old.parent, old.name = nil, old.path()
		}
		c.dir.entries = set(c.dir.entries, c.name, c.node)
	}
	for _, c := range changes {
		if c.node != nil {
			c.node.parent, c.node.name = c.dir, c.name
		}
	}
	t.waiting = append(t.waiting, o)
	if len(t.waiting) > waitingMax {
		t.commit(func(i int) bool { return i < waitingMax/2 })
	}
}

// syncDir makes the names in dir durable.
func (t *tree) syncDir(dir *inode) {
	for i := range t.waiting {
		o := &t.waiting[i]
		for j, c := range o.changes[:o.n] {
			if c.dir == dir {
				o.unsynced &^= 1 << j
			}
		}
	}
	t.commit(func(i int) bool { return t.waiting[i].unsynced == 0 })
}

// commit makes durable the waiting changes that chosen names, and with each the
// earlier ones of the same names, so that a name never goes back. Chosen is asked
// from the last to the first.
func (t *tree) commit(chosen func(i int) bool) {
	var names []nameChange
	take := make([]bool, len(t.waiting))
	for i := len(t.waiting) - 1; i >= 0; i-- {
		o := &t.waiting[i]
		needed := false
		for _, c := range o.changes[:o.n] {
			needed = needed || slices.ContainsFunc(names, func(n nameChange) bool { return n.dir == c.dir && n.name == c.name })
		}
		if take[i] = chosen(i) || needed; take[i] {
			names = append(names, o.changes[:o.n]...)
		}
	}
	left := t.waiting[:0]
	for i := range t.waiting {
		o := t.waiting[i]
		if !take[i] {
			left = append(left, o)
			continue
		}
		for _, c := range o.changes[:o.n] {
			c.dir.durable = set(c.dir.durable, c.name, c.node)
		}
	}
	clear(t.waiting[len(left):])
	t.waiting = left
}

// walk visits node and all below it, by name.
func walk(node *inode, path string, visit func(path string, node *inode)) {
	visit(path, node)
	for _, e := range node.entries {
		below := e.name
		if path != "" {
			below = path + "/" + e.name
		}
		walk(e.node, below, visit)
	}
}

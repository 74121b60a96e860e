package simdisk

import "github.com/mortarmq/mortarmq/disk"

// Files gives the paths of all files, sorted by directory and name.
func (d *Disk) Files() []string {
	var paths []string
	walk(d.tree.root, "", func(path string, node *inode) {
		if !node.dir {
			paths = append(paths, path)
		}
	})
	return paths
}

// Size gives the size of the file at path as the cache has it, -1 if there is
// none.
func (d *Disk) Size(path string) int64 {
	if file := d.fileAt(path); file != nil {
		return file.size
	}
	return -1
}

// Used is how many bytes of the capacity are taken.
func (d *Disk) Used() int64 { return int64(d.pages.used) * pageSize }

// ReadFile gives what the cache has of path, nil if there is no such file.
func (d *Disk) ReadFile(path string) []byte {
	file := d.fileAt(path)
	if file == nil {
		return nil
	}
	b := make([]byte, file.size)
	d.pages.read(file, 0, b)
	return b
}

// ReadAt is a part of ReadFile: how much of b it filled.
func (d *Disk) ReadAt(path string, offset int64, b []byte) int {
	file := d.fileAt(path)
	if file == nil {
		return 0
	}
	return d.pages.read(file, offset, b)
}

// List gives what is in the directory path, sorted by name.
func (d *Disk) List(path string) ([]disk.Entry, error) {
	entries, err := d.list(path)
	return entries, err.Err()
}

// Durable gives the bytes of path that a power loss now leaves: at least so many,
// under this name. Sectors that are not synced show an older version, which is
// not certain either: ask Certain. It is nil when the name itself is not certain.
func (d *Disk) Durable(path string) []byte {
	node := d.tree.lookupDurable(path)
	if node == nil || node.dir {
		return nil
	}
	b := make([]byte, node.file.certainSize())
	node.file.readDurable(0, b)
	return b
}

// ReadDurable is a part of Durable: how much of b it filled.
func (d *Disk) ReadDurable(path string, offset int64, b []byte) int {
	node := d.tree.lookupDurable(path)
	if node == nil || node.dir {
		return 0
	}
	return node.file.readDurable(offset, b)
}

// Certain reports whether every power loss leaves length bytes of path at offset
// as ReadAt gives them now.
func (d *Disk) Certain(path string, offset, length int64) bool {
	node := d.tree.lookupDurable(path)
	return node != nil && !node.dir && node.file.certain(offset, offset+length)
}

// Offline is a disk as a program sees it that opens the files of a stopped
// broker. It follows the disk; take it of a Clone to hold a state.
type Offline struct{ d *Disk }

// Offline gives that view.
func (d *Disk) Offline() Offline { return Offline{d} }

// ReadDir lists the directory path.
func (o Offline) ReadDir(path string) ([]disk.Entry, error) { return o.d.List(path) }

// ReadFile reads the file at path whole.
func (o Offline) ReadFile(path string) ([]byte, error) {
	node, err := o.d.tree.lookup(path)
	switch {
	case err != disk.OK:
		return nil, err
	case node.dir:
		return nil, disk.ErrInvalid
	case node.file.unreadable(0, node.file.size):
		return nil, disk.ErrIO
	}
	return o.d.ReadFile(path), nil
}

// ReadAt reads a part of the file at path: how much of b lies inside it.
func (o Offline) ReadAt(path string, offset int64, b []byte) (int, error) {
	node, err := o.d.tree.lookup(path)
	switch {
	case err != disk.OK:
		return 0, err
	case node.dir || offset < 0:
		return 0, disk.ErrInvalid
	case node.file.unreadable(offset, int64(len(b))):
		return 0, disk.ErrIO
	}
	return o.d.pages.read(&node.file, offset, b), nil
}

package simdisk

import (
	"strings"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
)

// faults are what was asked to go wrong and has not yet.
type faults struct {
	syncs, writes []string // path prefixes whose next sync, or write, fails
	misdirects    []misdirect
	lies          int // syncs that will lie; below 0 all of them
	lyingPrefix   string
}

type misdirect struct {
	prefix, to string
	offset     int64
}

// span is a range of bytes, end excluded.
type span struct{ from, to int64 }

// FailNextSync makes the next Sync of a file, or SyncDir of a directory, whose
// path begins with prefix fail with ErrIO. What a Sync should have written is
// given up (invariant 5).
func (d *Disk) FailNextSync(prefix string) { d.faults.syncs = append(d.faults.syncs, prefix) }

// FailNextWrite makes the next Write to a file whose path begins with prefix fail
// with ErrIO after a part of it.
func (d *Disk) FailNextWrite(prefix string) { d.faults.writes = append(d.faults.writes, prefix) }

// LieSyncs makes the next n Syncs and SyncDirs report OK and do nothing; all of
// them for n below 0, until LieSyncs(0).
func (d *Disk) LieSyncs(n int) { d.LieSyncsOf("", n) }

// LieSyncsOf is LieSyncs for paths that begin with prefix. The last call holds.
func (d *Disk) LieSyncsOf(prefix string, n int) { d.faults.lies, d.faults.lyingPrefix = n, prefix }

// MisdirectNextWrite makes the next Write to a file whose path begins with prefix
// report OK, leave its place as it was, and land in the file to at offset. It is
// durable there at once, as the drive wrote it.
func (d *Disk) MisdirectNextWrite(prefix, to string, offset int64) {
	d.faults.misdirects = append(d.faults.misdirects, misdirect{prefix, to, offset})
}

// FailReads makes reads that touch length bytes of path at offset fail with ErrIO
// until the bytes are overwritten or MendReads is called.
func (d *Disk) FailReads(path string, offset, length int64) bool {
	file := d.fileAt(path)
	if file == nil || length <= 0 {
		return false
	}
	file.bad = append(file.bad, span{offset, offset + length})
	d.observe(Effect{What: "fail reads", Path: path, Offset: offset, Length: length})
	return true
}

// MendReads makes all of path readable again.
func (d *Disk) MendReads(path string) {
	if file := d.fileAt(path); file != nil {
		file.bad = nil
	}
}

// Rot flips the bits of mask in what lies on the medium of path at offset. Dirty
// sectors of the cache hide it until they are lost. It reports whether the file
// has those bytes.
func (d *Disk) Rot(path string, offset int64, mask []byte) bool {
	file := d.fileAt(path)
	if file == nil || offset < 0 || offset+int64(len(mask)) > file.size {
		return false
	}
	for i, m := range mask {
		at := offset + int64(i)
		n := int(at / pageSize)
		if m == 0 || n >= len(file.pages) {
			continue
		}
		p := &file.pages[n]
		target := &p.cache
		if (p.dirty|p.stale)>>(at%pageSize/sectorSize)&1 != 0 {
			target = &p.durable
		}
		if *target != nil {
			*target = d.pages.own(*target)
			(*target).data[at%pageSize] ^= m
		}
	}
	d.observe(Effect{What: "rot", Path: path, Offset: offset, Length: int64(len(mask))})
	return true
}

// Lose makes the file or directory at path vanish, durably. Open handles still
// see it.
func (d *Disk) Lose(path string) bool {
	node, err := d.tree.lookup(path)
	if err != disk.OK || node.parent == nil {
		return false
	}
	dir, name := node.parent, node.name
	d.tree.apply(nameChange{dir, name, nil})
	last := len(d.tree.waiting) - 1
	d.tree.commit(func(i int) bool { return i == last })
	d.reclaim(node)
	d.observe(Effect{What: "lose", Path: path})
	return true
}

// SetCapacity sets the size of the file system; below what is used every write
// that needs space fails with ErrNoSpace until it is raised again.
func (d *Disk) SetCapacity(bytes int64) {
	d.options.Capacity = bytes
	d.observe(Effect{What: "capacity", Length: bytes})
}

// SetSlow makes what starts from now on take permille/1000 of its usual time.
func (d *Disk) SetSlow(permille int64) { d.slow = permille }

// StallUntil completes nothing of a lane before at.
func (d *Disk) StallUntil(lane disk.Lane, at clock.Instant) { d.stalled[lane] = at }

// ClearFaults takes back every fault that was asked for and has not happened,
// slowness and stalls included. Damage stays.
func (d *Disk) ClearFaults() {
	d.faults, d.slow, d.stalled = faults{}, 1000, [disk.LaneCount]clock.Instant{}
}

// any reports whether a fault waits for a path.
func (f *faults) any() bool {
	return len(f.syncs)+len(f.writes)+len(f.misdirects) > 0 || f.lies != 0
}

// take removes the first prefix that path has from list.
func take(list *[]string, path string) bool {
	for i, prefix := range *list {
		if strings.HasPrefix(path, prefix) {
			*list = append((*list)[:i], (*list)[i+1:]...)
			return true
		}
	}
	return false
}

func (f *faults) takeSync(path string) bool  { return take(&f.syncs, path) }
func (f *faults) takeWrite(path string) bool { return take(&f.writes, path) }

func (f *faults) takeLie(path string) bool {
	if f.lies == 0 || !strings.HasPrefix(path, f.lyingPrefix) {
		return false
	}
	f.lies = max(-1, f.lies-1)
	return true
}

func (f *faults) takeMisdirect(path string) (misdirect, bool) {
	for i, m := range f.misdirects {
		if strings.HasPrefix(path, m.prefix) {
			f.misdirects = append(f.misdirects[:i], f.misdirects[i+1:]...)
			return m, true
		}
	}
	return misdirect{}, false
}

// misdirect writes b where m says, if there is such a file.
func (d *Disk) misdirect(m misdirect, b []byte) {
	file := d.fileAt(m.to)
	if file == nil || m.offset < 0 || m.offset >= file.size {
		return
	}
	b = b[:min(int64(len(b)), file.size-m.offset)]
	waiting := len(file.dirty) > 0
	d.pages.write(file, m.offset, b, int64(len(b)))
	if !waiting {
		d.pages.sync(file, d.pages.version)
	}
	d.observe(Effect{What: "misdirected", Path: m.to, Offset: m.offset, Length: int64(len(b))})
}

// fileAt gives the content of the file at path, nil if there is none.
func (d *Disk) fileAt(path string) *content {
	node, err := d.tree.lookup(path)
	if err != disk.OK || node.dir {
		return nil
	}
	return &node.file
}

// unreadable reports whether a read of the range meets a bad one.
func (c *content) unreadable(offset, length int64) bool {
	for _, s := range c.bad {
		if offset < s.to && s.from < offset+length {
			return true
		}
	}
	return false
}

// mend makes an overwritten range readable: the drive has remapped it.
func (c *content) mend(offset, length int64) {
	if len(c.bad) == 0 {
		return
	}
	var left []span
	for _, s := range c.bad {
		if end := min(s.to, offset); s.from < end {
			left = append(left, span{s.from, end})
		}
		if start := max(s.from, offset+length); start < s.to {
			left = append(left, span{start, s.to})
		}
	}
	c.bad = left
}

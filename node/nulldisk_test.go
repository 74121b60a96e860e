package node

import (
	"github.com/mortarmq/mortarmq/disk"
)

// nullDisk completes everything at once and keeps no content: what the node
// itself costs, without a file system. A directory on it is always fresh.
type nullDisk struct {
	sizes   map[string]int64
	handles map[disk.Handle]string
}

func newNullDisk() *nullDisk {
	return &nullDisk{sizes: map[string]int64{}, handles: map[disk.Handle]string{}}
}

// carry carries the requests out and appends their completions as inputs.
func (d *nullDisk) carry(reqs []disk.Request, in []Input) []Input {
	for i := range reqs {
		in = append(in, Input{Kind: InputDisk, Disk: d.one(&reqs[i])})
	}
	return in
}

func (d *nullDisk) one(r *disk.Request) disk.Completion {
	c := disk.Completion{Tag: r.Tag, Kind: r.Kind, Lane: r.Lane, Handle: r.Handle, Buf: r.Buf, N: int64(len(r.Buf))}
	switch r.Kind {
	case disk.KindOpen:
		size, ok := d.sizes[r.Path]
		if !ok && r.Flags&disk.FlagCreate == 0 {
			c.Err = disk.ErrNotExist
			return c
		}
		d.sizes[r.Path] = size
		d.handles[r.Handle] = r.Path
		c.N = size
	case disk.KindClose:
		delete(d.handles, r.Handle)
	case disk.KindWrite:
		d.extend(r.Handle, r.Offset+int64(len(r.Buf)))
	case disk.KindZero:
		d.extend(r.Handle, r.Offset+r.Length)
	case disk.KindRename:
		d.sizes[r.Path2] = d.sizes[r.Path]
		delete(d.sizes, r.Path)
	case disk.KindRemove:
		delete(d.sizes, r.Path)
	case disk.KindSpace:
		c.N, c.Total = 1<<40, 1<<40
	}
	return c
}

func (d *nullDisk) extend(h disk.Handle, end int64) {
	path := d.handles[h]
	d.sizes[path] = max(d.sizes[path], end)
}

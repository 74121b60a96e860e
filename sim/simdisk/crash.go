package simdisk

import "github.com/mortarmq/mortarmq/disk"

// CrashKind says how a node dies.
type CrashKind uint8

// The kinds of crash.
const (
	// Kill ends the process: the page cache survives.
	Kill CrashKind = iota
	// PowerLoss ends the machine: only what is durable is sure to survive.
	PowerLoss
)

// Crash ends the life of whoever used the disk, now. Its Bufs must still hold
// what they held.
func (d *Disk) Crash(kind CrashKind) {
	for lane := range disk.LaneRead {
		d.abandonOrdered(d.lanes[lane].queued())
		d.lanes[lane] = ordered{}
	}
	for _, o := range d.reads.ops {
		if d.rand.Bool(500) {
			d.carryOut(o)
		}
	}
	d.reads = readHeap{}
	d.done = nil
	d.down = true
	for _, h := range d.opened {
		h.node.opens--
		d.reclaim(h.node)
	}
	clear(d.handles)
	d.opened = nil
	if kind == PowerLoss {
		d.losePower()
	}
	d.observe(Effect{What: [...]string{"kill", "power loss"}[kind]})
}

// Restart gives the disk to the next life of its node.
func (d *Disk) Restart() { d.down = false }

// abandonOrdered carries out a prefix of what was under way, and a part of the
// request after it.
func (d *Disk) abandonOrdered(ops []op) {
	if len(ops) == 0 {
		return
	}
	n := d.rand.Intn(len(ops) + 1)
	for i, o := range ops[:n] {
		if i > 0 {
			o.started = d.pages.version
		}
		d.carryOut(o)
	}
	if n == len(ops) {
		return
	}
	if r := &ops[n].req; r.Kind == disk.KindWrite {
		d.carryOutPart(ops[n])
	}
}

// carryOut executes a request whose completion nobody will see. Reads would fill
// memory of the dead: they are left out.
func (d *Disk) carryOut(o op) {
	if o.req.Kind != disk.KindRead {
		d.execute(&o)
	}
}

// carryOutPart writes a prefix of a write, cut at a sector or anywhere. (A power
// loss tears it further: its sectors are dirty.)
func (d *Disk) carryOutPart(o op) {
	cut := d.rand.Intn(len(o.req.Buf) + 1)
	if d.rand.Bool(700) {
		cut = cut / sectorSize * sectorSize
	}
	o.req.Buf = o.req.Buf[:cut]
	d.execute(&o)
}

// losePower draws what is left of names and of contents.
func (d *Disk) losePower() {
	t := d.tree
	switch mode := d.rand.Weighted(2, 2, 4); mode {
	case 0: // every name was committed
		t.commit(func(int) bool { return true })
	case 1: // none was
	default:
		t.commit(func(int) bool { return d.rand.Bool(500) })
	}
	clear(t.waiting)
	t.waiting = t.waiting[:0]
	d.pages.used = 0
	d.remount(t.root)
}

// remount makes a durable directory what is seen, and draws its files' contents.
func (d *Disk) remount(dir *inode) {
	dir.entries = append(dir.entries[:0:0], dir.durable...)
	for _, e := range dir.entries {
		e.node.parent, e.node.name = dir, e.name
		if e.node.dir {
			d.remount(e.node)
			continue
		}
		d.pages.powerLoss(&e.node.file, d.rand)
		d.pages.used += e.node.file.allocated
	}
}

package sim

import (
	"strings"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/sim/prng"
	"github.com/mortarmq/mortarmq/sim/simdisk"
	"github.com/mortarmq/mortarmq/sim/simnet"
)

// strike carries out a fault.
//
//	kill, power      down= midturn=0|1 on= loops=  the node dies - in the next turn, or when the disk
//	                                            has done something - and again while it recovers
//	stop             down=                      it is asked to stop
//	pause            for=                       it gets no turns
//	disk_slow        permille= for=
//	disk_stall       lane= for=
//	sync_fail, write_fail  area=                the next one fails with EIO
//	read_fail        area=                      a range of a file fails with EIO until it is overwritten
//	enospc           free= for=                 bytes left
//	lie              n=                         syncs that do nothing; -1: all from now on
//	rot              area= n=                   bits flipped in n files at rest
//	lose             area=                      a file vanishes
//	misdirect        area=                      the next write lands elsewhere
//	wall             step=                      the wall clock jumps
//	rate             permille=                  the monotonic clock runs slow or fast
//	cut, halfopen    client=                    its connections break, or fall silent
//	partition        client= dir= for=
//	slow_link        client= delay= for=
//	client_crash     client= for=
//	client_leave     client= for=               it leaves its group in good order, and comes back
//	client_stall     client= for=
//	storm                                       every connection breaks at once
func (w *world) strike(e *Event) {
	w.faults++
	switch e.Kind {
	case "kill", "power", "stop", "pause":
		w.strikeNode(e)
	case "wall":
		w.host.clock.StepWall(e.Span("step", 0).Millis())
	case "rate":
		w.host.clock.Advance(w.now)
		w.host.clock.SetRate(e.Int("permille", 1000))
		if w.host.node != nil {
			w.host.deadline = w.host.clock.WorldAt(w.host.out.Deadline)
		}
	case "client_crash", "client_leave", "client_stall", "cut", "halfopen", "partition", "slow_link", "storm":
		w.strikeClient(e)
	default:
		w.strikeDisk(e)
	}
}

func (w *world) strikeNode(e *Event) {
	h := w.host
	if h.node == nil {
		return
	}
	c := crash{down: e.Span("down", 0), why: e.Kind}
	switch e.Kind {
	case "stop":
		h.stop(c.down)
		return
	case "pause":
		h.pausedUntil = w.now.Add(e.Span("for", clock.Second))
		return
	case "power":
		c.kind = simdisk.PowerLoss
	}
	h.crashBy = c
	h.loops = int(e.Int("loops", 0))
	if on := e.Int("on", 0); on > 0 && on < int64(len(triggers)) {
		h.trigger, h.armed = on, c
		return
	}
	if e.Int("midturn", 0) != 0 {
		h.midturn = &c
		return
	}
	h.crash(c)
}

func (w *world) strikeClient(e *Event) {
	if e.Kind == "storm" {
		w.breakAll()
		return
	}
	a := w.client(e)
	if a == nil || a.place() == nil {
		return
	}
	span := e.Span("for", clock.Second)
	name := a.place().Name()
	switch e.Kind {
	case "client_crash":
		a.crash(span)
	case "client_leave":
		a.depart(span)
	case "client_stall":
		a.stall(w.now.Add(span))
	case "cut":
		for _, id := range a.place().Conns() {
			a.place().Reset(id)
		}
	case "halfopen":
		for _, id := range a.place().Conns() {
			a.place().Silence(id)
		}
	case "slow_link":
		w.slowLink(a.place(), e.Span("delay", 50*clock.Millisecond))
		w.after(span, func() { w.resetLink(a.place()) })
	case "partition":
		dir := e.Int("dir", dirBoth)
		w.cutLink(name, dir, w.net.Cut)
		w.after(span, func() { w.cutLink(name, dir, w.net.Heal) })
	}
}

func (w *world) breakAll() {
	for _, id := range w.host.net.Conns() {
		w.host.net.Reset(id)
	}
}

func (w *world) cutLink(name string, dir int64, do func(from, to string)) {
	if dir != dirFromNode {
		do(name, nodeName)
	}
	if dir != dirToNode {
		do(nodeName, name)
	}
}

func (w *world) slowLink(h *simnet.Host, delay clock.Duration) {
	l := simnet.Link{DelayMin: delay / 2, DelayMax: delay * 2, BytesPerSecond: 1 << 20}
	w.net.SetLink(h.Name(), nodeName, l)
	w.net.SetLink(nodeName, h.Name(), l)
}

func (w *world) resetLink(h *simnet.Host) {
	if h != nil {
		w.net.ResetLink(h.Name(), nodeName)
		w.net.ResetLink(nodeName, h.Name())
	}
}

func (w *world) strikeDisk(e *Event) {
	h, d := w.host, w.host.disk
	r := prng.New(e.Seed)
	span := e.Span("for", clock.Second)
	area := e.Int("area", 0)
	switch e.Kind {
	case "disk_slow":
		d.SetSlow(e.Int("permille", 1000))
		w.after(span, func() { d.SetSlow(w.plan.Knob("slow")) })
	case "disk_stall":
		d.StallUntil(disk.Lane(e.Int("lane", 0)%disk.LaneCount), w.now.Add(span))
	case "sync_fail":
		w.atlas.ioFault()
		d.FailNextSync(areaPrefix(area))
	case "write_fail":
		w.atlas.ioFault()
		d.FailNextWrite(areaPrefix(area))
	case "enospc":
		d.SetCapacity(d.Used() + e.Int("free", 0))
		w.after(span, func() { d.SetCapacity(w.plan.Knob("capacity")) })
	case "lie":
		w.atlas.beyond("a lying disk", 0, true)
		d.LieSyncs(int(e.Int("n", 1)))
	case "rot", "lose", "misdirect", "read_fail":
		w.damage(e, r, h.files(area))
	}
}

// damage spoils files of an area.
func (w *world) damage(e *Event, r *prng.Rand, paths []string) {
	d := w.host.disk
	if len(paths) == 0 {
		return
	}
	spots := 1
	switch e.Kind {
	case "rot":
		spots = int(e.Int("n", 1))
	case "misdirect":
		spots = 2
	}
	w.atlas.beyond(e.Kind, spots, false)
	path := paths[r.Intn(len(paths))]
	size := d.Size(path)
	w.tell("%s of %s (%d bytes)", e.Kind, path, size)
	switch e.Kind {
	case "lose":
		d.Lose(path)
	case "misdirect":
		d.MisdirectNextWrite(areaPrefix(e.Int("area", 0)), path, r.Range(0, max(0, size-1)))
	case "read_fail":
		d.FailReads(path, r.Range(0, max(0, size-1)), r.Range(1, 8192))
	case "rot":
		recent := w.host.journal.marks
		for range e.Int("n", 1) {
			path := paths[r.Intn(len(paths))]
			size, from := d.Size(path), int64(0)
			// In the journal most of a file is old: mostly, what was written lately is hit.
			if strings.HasPrefix(path, "journal/") && len(recent) > 0 && r.Bool(800) {
				m := &recent[len(recent)-1-r.Intn(min(len(recent), 40))]
				path, from, size = m.path, m.offset, min(m.offset+m.bytes, d.Size(m.path))
			}
			if size > from {
				d.Rot(path, r.Range(from, size-1), []byte{1 << r.Intn(8)})
			}
		}
	}
}

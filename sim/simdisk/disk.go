package simdisk

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/sim/prng"
)

// Options are a disk's properties. The zero value works.
type Options struct {
	// Seed of the disk's latencies, crashes and choices.
	Seed uint64
	// Capacity in bytes; 0 means 1 TiB.
	Capacity int64
	// Latency of requests; the zero value means DefaultLatency.
	Latency Latency
	// Observe, when set, sees every effect in the order in which it happens: the
	// hook of the rolling hash and of the trace.
	Observe func(Effect)
}

// Latency bounds what a request takes, each drawn evenly between Min and Max
// plus PerMiB for its bytes, and in TailPermille of the requests TailFactor
// times that.
type Latency struct {
	ReadMin, ReadMax   clock.Duration
	WriteMin, WriteMax clock.Duration
	SyncMin, SyncMax   clock.Duration
	MetaMin, MetaMax   clock.Duration
	PerMiB             clock.Duration
	TailPermille       int
	TailFactor         int64
}

// DefaultLatency is that of a middling NVMe drive.
var DefaultLatency = Latency{
	ReadMin: 60 * clock.Microsecond, ReadMax: 300 * clock.Microsecond,
	WriteMin: 10 * clock.Microsecond, WriteMax: 80 * clock.Microsecond,
	SyncMin: 100 * clock.Microsecond, SyncMax: 2 * clock.Millisecond,
	MetaMin: 5 * clock.Microsecond, MetaMax: 100 * clock.Microsecond,
	PerMiB:       clock.Millisecond,
	TailPermille: 5, TailFactor: 20,
}

// Effect is one request carried out, or one fault, as the observer sees it.
type Effect struct {
	At     clock.Instant
	What   string // the kind of request, or the fault's name
	Lane   disk.Lane
	Path   string // of the file, as it is named now
	Offset int64
	Length int64
	Err    disk.Errno
}

// Disk implements disk.Disk in virtual time. One driver uses it.
type Disk struct {
	options Options
	rand    *prng.Rand
	now     clock.Instant
	down    bool // between Crash and Restart

	lanes    [disk.LaneRead]ordered
	reads    readHeap
	stalled  [disk.LaneCount]clock.Instant
	slow     int64 // factor in permille
	sequence uint64
	done     []disk.Completion
	counters disk.Counters

	tree    *tree
	handles map[disk.Handle]*open
	opened  []*open // the same in the order of opening: what may be walked
	pages   pageStore
	faults  faults
}

// open is a handle's binding.
type open struct {
	handle   disk.Handle
	node     *inode
	readOnly bool
}

const defaultCapacity = 1 << 40

// New gives an empty disk.
func New(options Options) *Disk {
	if options.Capacity == 0 {
		options.Capacity = defaultCapacity
	}
	if options.Latency == (Latency{}) {
		options.Latency = DefaultLatency
	}
	d := &Disk{
		options: options,
		rand:    prng.New(options.Seed),
		slow:    1000,
		tree:    newTree(),
		handles: make(map[disk.Handle]*open),
	}
	d.pages.owner, d.pages.rand = new(owner), d.rand.Fork("pages")
	return d
}

// Submit queues the requests at the disk's present time. Between Crash and
// Restart it does nothing: who submits then is dead.
func (d *Disk) Submit(reqs []disk.Request) {
	if d.down {
		return
	}
	for i := range reqs {
		d.sequence++
		o := op{req: reqs[i], sequence: d.sequence}
		switch lane := reqs[i].Lane; lane {
		case disk.LaneRead:
			o.started = d.pages.version
			o.due = d.now.Add(d.latency(&o.req))
			d.reads.push(o)
		case disk.LaneJournal, disk.LaneBackground:
			l := &d.lanes[lane]
			if l.empty() {
				d.start(&o)
			}
			l.push(o)
		default:
			d.finish(&o.req, disk.Completion{Err: disk.ErrInvalid})
		}
	}
}

// start begins an ordered lane's next request: from here on its time runs.
func (d *Disk) start(o *op) {
	o.started = d.pages.version
	o.due = d.now.Add(d.latency(&o.req))
}

// Poll appends what has completed.
func (d *Disk) Poll(into []disk.Completion) []disk.Completion {
	into = append(into, d.done...)
	clear(d.done)
	d.done = d.done[:0]
	return into
}

// Pending reports whether Poll would give something.
func (d *Disk) Pending() bool { return len(d.done) > 0 }

// Idle reports whether nothing is under way or unpolled.
func (d *Disk) Idle() bool {
	return d.NextDeadline() == clock.Never && len(d.done) == 0
}

// Counters reports what the disk did.
func (d *Disk) Counters() disk.Counters { return d.counters }

// NextDeadline is the instant at which the next request is due, or Never.
func (d *Disk) NextDeadline() clock.Instant {
	_, due := d.next()
	return due
}

// next finds the lane whose next request is due first; earlier submissions win
// ties.
func (d *Disk) next() (lane disk.Lane, due clock.Instant) {
	due = clock.Never
	var sequence uint64
	for l := range disk.Lane(disk.LaneCount) {
		head := d.head(l)
		if head == nil {
			continue
		}
		at := max(head.due, d.stalled[l])
		if at < due || at == due && head.sequence < sequence {
			lane, due, sequence = l, at, head.sequence
		}
	}
	return lane, due
}

func (d *Disk) head(lane disk.Lane) *op {
	if lane == disk.LaneRead {
		return d.reads.head()
	}
	return d.lanes[lane].head()
}

// Advance moves the disk's time to now and carries out all that is due by then.
// Time never goes back.
func (d *Disk) Advance(now clock.Instant) {
	for !d.down {
		lane, due := d.next()
		if due > now || due == clock.Never {
			break
		}
		d.now = max(d.now, due)
		d.complete(lane)
	}
	d.now = max(d.now, now)
}

// complete carries out a lane's first request and starts the one behind it.
func (d *Disk) complete(lane disk.Lane) {
	if lane == disk.LaneRead {
		o := d.reads.pop()
		d.finish(&o.req, d.execute(&o))
		return
	}
	l := &d.lanes[lane]
	o := l.pop()
	d.finish(&o.req, d.execute(&o))
	if next := l.head(); next != nil {
		d.start(next)
	}
}

// finish hands a completion to the next Poll.
func (d *Disk) finish(r *disk.Request, c disk.Completion) {
	c.Tag, c.Kind, c.Lane, c.Handle, c.Buf = r.Tag, r.Kind, r.Lane, r.Handle, r.Buf
	d.done = append(d.done, c)
}

// latency draws how long a request takes from its start.
func (d *Disk) latency(r *disk.Request) clock.Duration {
	l := &d.options.Latency
	low, high, bytes := l.MetaMin, l.MetaMax, int64(0)
	switch r.Kind {
	case disk.KindRead:
		low, high, bytes = l.ReadMin, l.ReadMax, int64(len(r.Buf))
	case disk.KindWrite:
		low, high, bytes = l.WriteMin, l.WriteMax, int64(len(r.Buf))
	case disk.KindZero:
		low, high, bytes = l.WriteMin, l.WriteMax, max(0, min(r.Length, defaultCapacity))
	case disk.KindSync, disk.KindSyncDir:
		low, high = l.SyncMin, l.SyncMax
	}
	t := d.rand.Range(int64(low), int64(high))
	t += bytes >> 10 * int64(l.PerMiB) >> 10
	if d.rand.Bool(l.TailPermille) {
		t *= l.TailFactor
	}
	return clock.Duration(t / 1000 * d.slow)
}

// observe reports an effect to whoever watches.
func (d *Disk) observe(e Effect) {
	if d.options.Observe != nil {
		e.At = d.now
		d.options.Observe(e)
	}
}

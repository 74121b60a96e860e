package replica

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/node/op"
)

// Log is where entries are kept. Its answers come back as OnFlushed and
// OnEpochsDurable.
type Log interface {
	// CanAppend says whether a batch may be given now: none is in flight.
	CanAppend() bool
	// Append writes and syncs a sealed batch, borrowed until OnFlushed names its
	// last entry.
	Append(b *op.Builder)
	// SetEpochs makes the epochs durable.
	SetEpochs(promised, installed op.Epoch, installedOp op.Number, installedHash op.Hash)
}

// Limits of a replica, in bytes.
const (
	// batchBytesMax is where a batch ends and the next one begins: what one
	// write of the journal carries, but for the last op.
	batchBytesMax = 2 << 20
	// PendingBytesMax bounds what is proposed and not yet flushed
	// (errors.md: BACKPRESSURE).
	PendingBytesMax = 256 << 20
	// batchesKept is how many emptied batches are kept for reuse.
	batchesKept = 4
)

// State is what recovery found (storage.md, "Recovery").
type State struct {
	Promised, Installed op.Epoch
	Last                op.Number
	LastHash            op.Hash
	LogTime             op.LogMillis
}

type phase uint8

const (
	phaseIdle phase = iota
	phasePromising
	phaseInstalling
	phaseStarting // EpochStart is on its way
	phaseLeading
	phaseEnding // leads, takes nothing new, stands again when all is flushed
	phaseHalted
)

// Replica is one node's half of the replicated log. The zero value is not
// usable; see New.
type Replica struct {
	log   Log
	phase phase
	marks *fault.Marks

	promised, installed op.Epoch
	last                op.Number // the highest sealed entry
	lastHash            op.Hash
	flushed, commit     op.Number
	applied             op.Number

	logBase op.LogMillis // log time at logFrom
	logFrom clock.Instant

	queue    []*op.Builder // collecting; the last one takes what is proposed
	inFlight *op.Builder
	out      *op.Builder // committed, being handed out
	outNext  int
	spare    []*op.Builder
	pending  int // bytes in queue and inFlight
}

// New gives a replica over log that knows of no entry yet. marks may be nil.
func New(log Log, marks *fault.Marks) *Replica {
	return &Replica{log: log, marks: marks}
}

// Start takes up what recovery found - all of it flushed, and committed because
// this node is its own majority - and stands for the next epoch. It reports
// false when the epochs are used up.
func (r *Replica) Start(now clock.Instant, s State) bool {
	if r.phase != phaseIdle {
		panic("replica: started twice")
	}
	if s.Promised < s.Installed {
		panic("replica: invariant 1: promised below installed")
	}
	r.promised, r.installed = s.Promised, s.Installed
	r.last, r.flushed, r.commit, r.applied = s.Last, s.Last, s.Last, s.Last
	r.lastHash = s.LastHash
	r.logBase, r.logFrom = s.LogTime, now
	return r.stand()
}

// stand promises the next epoch, if there is one.
func (r *Replica) stand() bool {
	if r.promised >= op.EpochMax {
		r.phase = phaseHalted
		return false
	}
	r.promised++
	r.phase = phasePromising
	r.log.SetEpochs(r.promised, r.installed, r.last, r.lastHash)
	return true
}

// EndEpoch ends the epoch that this node leads, in good order: nothing more is
// proposed in it, what was proposed is committed, then the node stands for the
// next one (broker.md, "Delivery": a leader that runs out of ids).
func (r *Replica) EndEpoch() {
	if r.phase != phaseLeading {
		panic("replica: EndEpoch by a node that does not lead")
	}
	r.phase = phaseEnding
}

// Ended says that no epoch is left to stand for, or that Halt was called.
func (r *Replica) Ended() bool { return r.phase == phaseHalted }

// OnEpochsDurable goes on once the superblock holds what SetEpochs said. start
// is the EpochStart op that opens the epoch; the result says whether it was
// proposed now.
func (r *Replica) OnEpochsDurable(start *op.Op) bool {
	switch r.phase {
	case phasePromising:
		r.installed = r.promised
		r.phase = phaseInstalling
		r.log.SetEpochs(r.promised, r.installed, r.last, r.lastHash)
	case phaseInstalling:
		r.phase = phaseStarting
		r.marks.Mark("replica.epoch_started")
		r.add(start)
		return true
	case phaseIdle, phaseStarting, phaseLeading, phaseEnding, phaseHalted:
	}
	return false
}

// Serving says whether the node leads: EpochStart of its epoch is committed and
// was handed out.
func (r *Replica) Serving() bool { return r.phase == phaseLeading }

// Epoch gives the installed epoch.
func (r *Replica) Epoch() op.Epoch { return r.installed }

// Commit gives the highest committed entry.
func (r *Replica) Commit() op.Number { return r.commit }

// Applied gives the highest entry that NextCommitted has handed out.
func (r *Replica) Applied() op.Number { return r.applied }

// Pending gives the bytes proposed and not yet flushed.
func (r *Replica) Pending() int { return r.pending }

// LogTime gives log time at now.
func (r *Replica) LogTime(now clock.Instant) op.LogMillis {
	if now < r.logFrom {
		return r.logBase
	}
	return r.logBase + op.LogMillis(now.Sub(r.logFrom).Millis())
}

// Propose encodes o into the batch being collected. It reports false when this
// node does not lead.
func (r *Replica) Propose(o *op.Op) bool {
	if r.phase != phaseLeading {
		return false
	}
	r.add(o)
	return true
}

func (r *Replica) add(o *op.Op) {
	n := len(r.queue)
	if n == 0 || r.queue[n-1].Len() >= batchBytesMax {
		r.queue = append(r.queue, r.takeSpare())
		n++
	}
	b := r.queue[n-1]
	before := b.Len()
	b.Add(o)
	r.pending += b.Len() - before
}

func (r *Replica) takeSpare() *op.Builder {
	if n := len(r.spare); n > 0 {
		b := r.spare[n-1]
		r.spare = r.spare[:n-1]
		return b
	}
	return new(op.Builder)
}

// Flush gives the next batch to the log if none is in flight. The driver calls
// it at the end of each turn.
func (r *Replica) Flush(now clock.Instant) {
	if r.phase == phaseEnding && r.inFlight == nil && len(r.queue) == 0 {
		r.stand()
		return
	}
	if r.phase == phaseHalted || r.inFlight != nil || len(r.queue) == 0 || !r.log.CanAppend() {
		return
	}
	b := r.queue[0]
	copy(r.queue, r.queue[1:])
	r.queue = r.queue[:len(r.queue)-1]
	r.inFlight = b
	r.last, r.lastHash = b.Seal(op.Header{
		Number:   r.last + 1,
		Epoch:    r.installed,
		PrevHash: r.lastHash,
		Commit:   r.commit,
		LogTime:  r.LogTime(now),
	})
	r.log.Append(b)
}

// OnFlushed notes that every entry up to n is synced here; with one voter that
// is the majority.
func (r *Replica) OnFlushed(n op.Number) {
	if r.phase == phaseHalted {
		return
	}
	if n < r.flushed || n > r.last {
		panic("replica: invariant 3: flushed falls or passes last")
	}
	r.flushed = n
	r.commit = n
	if b := r.inFlight; b != nil && b.Entry(b.Entries()-1).Header.Number <= n {
		if r.out != nil {
			panic("replica: invariant 4: a batch was not handed out before the next one")
		}
		r.pending -= b.Len()
		r.out, r.outNext, r.inFlight = b, 0, nil
	}
}

// NextCommitted hands out the next committed entry, borrowed until the next
// call. The caller takes all there are before the turn ends.
func (r *Replica) NextCommitted() (op.Entry, bool) {
	b := r.out
	if b == nil {
		return op.Entry{}, false
	}
	if r.outNext == b.Entries() {
		r.out = nil
		b.Reset()
		if len(r.spare) < batchesKept {
			r.spare = append(r.spare, b)
		}
		return op.Entry{}, false
	}
	e := b.Entry(r.outNext)
	r.outNext++
	if e.Header.Number != r.applied+1 || e.Header.Number > r.commit {
		panic("replica: invariant 4: entries out of order")
	}
	r.applied = e.Header.Number
	if r.phase == phaseStarting {
		r.phase = phaseLeading
	}
	return e, true
}

// Halt ends this replica's part for the rest of its life: a flush failed, or
// the node stops (cluster.md: "A sync that failed is never retried into a
// success").
func (r *Replica) Halt() { r.phase = phaseHalted }

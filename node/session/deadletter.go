package session

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// burialsMax is how many dead letters of one partition are on their way at once.
const burialsMax = 64

// burialPause is how long a twin that cannot be written is left alone.
const burialPause = 1 * clock.Second

// jobs is what the leader does by itself: dead letters, and what was refused and
// must be tried again.
type jobs struct {
	graves  []grave
	rejects []burial // whose source records are being read
	retryAt clock.Instant
	reading bool // a source record is being read
}

// grave is a partition of a group with messages whose attempts are used up.
type grave struct {
	group    op.GroupID
	part     op.PartitionID
	after    op.Sequence // everything dead up to it is on its way
	inFlight int
	reading  bool // its next record is being read
	paused   bool // it was refused: not before retryAt
}

// burial is a message that becomes a dead letter: attempts are used up, or a
// NACK rejected it and waits for the outcome.
type burial struct {
	ref      Ref
	group    op.GroupID
	part     op.PartitionID
	cause    uint8
	attempts uint16
	seq      op.Sequence
	id       op.DeliveryID
	epoch    op.OwnershipEpoch
}

// checkDead makes a grave where a partition has dead messages.
func (s *Sessions) checkDead(id op.GroupID, part op.PartitionID) {
	cv, ok := s.view.Cursor(id, part)
	if !ok || cv.Dead == 0 {
		return
	}
	for k := range s.jobs.graves {
		if g := &s.jobs.graves[k]; g.group == id && g.part == part {
			return
		}
	}
	s.jobs.graves = append(s.jobs.graves, grave{group: id, part: part})
}

// checkDeadGroup does so for all partitions of a group.
func (s *Sessions) checkDeadGroup(id op.GroupID) {
	v, ok := s.view.Group(id)
	if !ok {
		return
	}
	for p := range v.Partitions {
		s.checkDead(id, op.PartitionID(p))
	}
}

// findDead does so for all groups, at the start of an epoch.
func (s *Sessions) findDead() {
	for v, ok := s.view.NextGroup(0); ok; v, ok = s.view.NextGroup(v.ID) {
		s.checkDeadGroup(v.ID)
	}
}

// runJobs goes on with what can be gone on with.
func (s *Sessions) runJobs() {
	if s.now >= s.jobs.retryAt {
		s.jobs.retryAt = clock.Never
		for k := range s.jobs.graves {
			s.jobs.graves[k].paused = false
		}
		s.giveUpOrphans()
	}
	if len(s.jobs.rejects) > 0 && !s.jobs.reading {
		s.retryRejects()
	}
	for k := 0; k < len(s.jobs.graves); {
		if s.dig(&s.jobs.graves[k]) {
			last := len(s.jobs.graves) - 1
			s.jobs.graves[k] = s.jobs.graves[last]
			s.jobs.graves = s.jobs.graves[:last]
			continue
		}
		k++
	}
}

// dig proposes the dead letters of one partition; it says when there is nothing
// left to do.
func (s *Sessions) dig(g *grave) bool {
	if g.paused || g.reading && s.jobs.reading {
		return false
	}
	g.reading = false
	if g.inFlight == 0 {
		if cv, ok := s.view.Cursor(g.group, g.part); !ok || cv.Dead == 0 {
			return true
		}
	}
	for g.inFlight < burialsMax {
		d, ok := s.view.NextDelivery(g.group, g.part, g.after)
		for ok && d.State != machine.DeliveryDead {
			d, ok = s.view.NextDelivery(g.group, g.part, d.Sequence)
		}
		if !ok {
			if g.inFlight == 0 {
				g.after = 0
			}
			return false
		}
		b := burial{
			group: g.group, part: g.part, cause: op.CauseAttempts, attempts: d.Attempts,
			seq: d.Sequence, id: d.Delivery, epoch: d.Ownership,
		}
		switch s.bury(&b) {
		case wire.CodeOK:
			g.after = d.Sequence
			g.inFlight++
		case codePending:
			g.reading, s.jobs.reading = true, true
			return false
		default:
			s.pauseGrave(g)
			return false
		}
	}
	return false
}

// pauseGrave leaves a grave alone for a while.
func (s *Sessions) pauseGrave(g *grave) {
	g.paused = true
	s.jobs.retryAt = min(s.jobs.retryAt, s.now.Add(burialPause))
}

// codePending stands for a record that is being read.
const codePending wire.Code = 0xFFFF

// bury proposes the dead letter of one message.
func (s *Sessions) bury(b *burial) wire.Code {
	gv, ok := s.view.Group(b.group)
	if !ok {
		return wire.CodeUnknownGroup
	}
	t, ok := s.view.Topic(gv.Topic)
	if !ok {
		return wire.CodeUnknownTopic
	}
	s.o = op.Op{
		Kind: op.KindDeadLetter, Cause: b.cause, Topic: gv.Topic, Partition: b.part, Group: b.group,
		Sequence: b.seq, Delivery: b.id, Ownership: b.epoch,
	}
	if t.IsTwin { // it is settled as quarantined, and written nowhere
		return s.broker.Propose(&s.o, b.ref)
	}
	rec, found := s.broker.Record(gv.Topic, b.part, b.seq)
	switch found {
	case LookupHit:
	case LookupPending:
		return codePending
	default:
		return wire.CodeInternal
	}
	env := format.Envelope{
		Reason: b.cause, Topic: gv.Topic, Partition: b.part, Attempts: uint32(b.attempts), Sequence: b.seq,
		Time: uint64(s.wall), Group: b.group, GroupName: []byte(gv.Name),
	}
	s.envelope = env.Append(s.envelope[:0])
	s.o.Envelope, s.o.Key, s.o.Value = s.envelope, rec.Key, rec.Value
	s.o.ProducerID, s.o.ProducerSeq, s.o.Timestamp = rec.ProducerID, rec.ProducerSeq, rec.Timestamp
	if rec.Flags&format.RecordFlagKey != 0 {
		s.o.Flags = op.FlagKey
	}
	return s.broker.Propose(&s.o, b.ref)
}

// rejectDelivery carries out a NACK that makes its message a dead letter at once.
func (s *Sessions) rejectDelivery(i uint32, c *conn, n uint64, d *settling) {
	r := burial{
		ref: c.ref(i, n), group: d.u.group, part: d.ln.part, cause: op.CauseReject, attempts: d.en.attempts,
		seq: d.en.seq, id: d.en.delivery, epoch: d.ln.epoch,
	}
	d.en.flags |= entrySettling
	s.buryRejected(&r)
}

// buryRejected proposes the dead letter of a rejected message, or keeps it until
// its record was read.
func (s *Sessions) buryRejected(r *burial) {
	code := s.bury(r)
	switch code {
	case wire.CodeOK:
		return
	case codePending:
		s.jobs.reading = true
		s.jobs.rejects = append(s.jobs.rejects, *r)
		return
	}
	if l, _, ok := s.groups.laneOf(r.group, r.part); ok {
		if _, en, found := s.groups.find(l, r.seq); found && en.delivery == r.id {
			en.flags &^= entrySettling
		}
	}
	i, c, ok := s.waiting(r.ref)
	if !ok {
		return
	}
	switch code {
	case wire.CodeStorageHighWatermark, wire.CodeQuotaExceeded:
		s.refuse(i, c, r.ref.Arg, wire.CodeDLQUnavailable, "the dead-letter topic cannot be written now: nothing is lost, the source keeps the message")
	case wire.CodeInternal:
		gv, _ := s.view.Group(r.group)
		s.refuse(i, c, r.ref.Arg, code, s.broker.Unreadable(gv.Topic, r.part, r.seq))
	default:
		s.refuse(i, c, r.ref.Arg, code, "")
	}
}

// retryRejects goes on with the rejects whose records were being read.
func (s *Sessions) retryRejects() {
	pending := s.jobs.rejects
	s.jobs.rejects = nil
	for k := range pending {
		if _, _, ok := s.waiting(pending[k].ref); ok {
			s.buryRejected(&pending[k])
		}
	}
}

// forgetRejects answers those rejects when their epoch is over.
func (s *Sessions) forgetRejects() {
	for k := range s.jobs.rejects {
		i, c, ok := s.waiting(s.jobs.rejects[k].ref)
		switch n := s.jobs.rejects[k].ref.Arg; {
		case ok && s.leading:
			s.refuse(i, c, n, wire.CodeUnknownMember, textNoSub)
		case ok:
			s.refuse(i, c, n, wire.CodeStaleLeaderEpoch, s.staleText)
		}
	}
}

// buried takes note of an applied DeadLetter.
func (s *Sessions) buried(o *op.Op, res *machine.Result) {
	// DLQ_PATH_OVERFLOW settles too: as quarantined.
	done := res.Code == wire.CodeOK || res.Code == wire.CodeDLQPathOverflow
	s.settled(o, done)
	if o.Cause != op.CauseAttempts {
		return
	}
	for k := range s.jobs.graves {
		g := &s.jobs.graves[k]
		if g.group != o.Group || g.part != o.Partition {
			continue
		}
		g.inFlight = max(0, g.inFlight-1) // one of unknown fate is reported twice
		if !done {
			s.pauseGrave(g)
		}
		if g.inFlight == 0 {
			g.after = 0
		}
	}
}

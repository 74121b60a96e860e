package session

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// pull is a PULL that is not answered yet.
type pull struct {
	n        uint64 // in the connection's ring
	deadline clock.Instant
	look     clock.Instant // when something else may have become due
	ready    uint64        // bytes that may be due, counted up to minBytes
	minBytes uint32
	maxBytes uint32
	waitMs   uint16
	maxMsgs  uint16
	sub      uint16
	started  bool // its wait runs: it is the first
	must     bool // it is answered with what there is
	reading  bool // a record that it needs is being read
}

// pullQueue holds a connection's PULLs: the first one waits, the others wait for
// it.
type pullQueue struct {
	q [wire.MaxWaitingPulls]pull
	n int
}

func (p *pullQueue) wakeAt() clock.Instant {
	if p.n == 0 {
		return clock.Never
	}
	if p.q[0].must {
		return p.q[0].look
	}
	return min(p.q[0].deadline, p.q[0].look)
}

func (p *pullQueue) pop() {
	copy(p.q[:], p.q[1:p.n])
	p.n--
}

func (c *conn) trimPulls() {
	if c.pulls != nil && c.pulls.n == 0 {
		c.pulls = nil
	}
}

// pull carries out PULL.
func (s *Sessions) pull(i uint32, c *conn, n uint64, payload []byte) {
	var m wire.Pull
	if err := m.Decode(payload); err != nil {
		s.refuseBad(i, c, n, err)
		return
	}
	_, u, ok := s.member(i, c, n, m.SubscriptionID)
	switch {
	case !ok:
		return
	case u.member != op.MemberID(m.MemberID):
		s.refuse(i, c, n, wire.CodeUnknownMember, textNoSub)
		return
	case m.MembershipEpoch != u.membership || m.AssignmentEpoch != u.assignment:
		s.refuse(i, c, n, wire.CodeStaleGeneration, textStale)
		return
	case !s.ownsExactly(u, m.OwnershipEpochs):
		s.refuse(i, c, n, wire.CodeNotOwner, "ownership_epochs are not those of the partitions that this member owns: stop work on the others")
		return
	}
	if c.pulls == nil {
		c.pulls = new(pullQueue)
	}
	p := c.pulls
	if p.n == len(p.q) {
		s.refuse(i, c, n, wire.CodeMaxWaitingPulls, "8 PULLs of this connection wait: wait for them")
		return
	}
	p.q[p.n] = pull{
		n: n, sub: m.SubscriptionID, look: clock.Never, minBytes: m.MinBytes, maxBytes: m.MaxBytes,
		waitMs: m.WaitMs, maxMsgs: m.MaxMsgs,
	}
	p.n++
	if p.n == 1 {
		s.runPulls(i, c)
	}
}

// ownsExactly compares the epochs of a PULL with what the member was told.
func (s *Sessions) ownsExactly(u *sub, epochs wire.EpochList) bool {
	k := 0
	for _, l := range u.lanes {
		ln := s.groups.lanes.at(l)
		if !ln.told || ln.revoking {
			continue
		}
		if k == epochs.Len() || epochs.At(k) != uint64(ln.epoch) {
			return false
		}
		k++
	}
	return k == epochs.Len()
}

// behindPulls completes the PULLs before a request that is none.
func (s *Sessions) behindPulls(i uint32, c *conn, n uint64) {
	if c.pulls == nil || c.pulls.n == 0 {
		return
	}
	for k := range c.pulls.n {
		c.pulls.q[k].must = true
	}
	s.runPulls(i, c)
}

// runPulls answers the connection's PULLs as far as that can be done now.
func (s *Sessions) runPulls(i uint32, c *conn) {
	for c.pulls != nil && c.pulls.n > 0 {
		p := &c.pulls.q[0]
		if !p.started {
			p.started = true
			p.deadline = s.now.Add(min(clock.Duration(p.waitMs)*clock.Millisecond, s.cfg.PollMaxWait))
		}
		u, code, text := s.pullSub(c, p)
		if u != nil {
			if s.outputFull(c) {
				p.look = s.now.Add(retryPause)
				s.timers.lower(i, p.look)
				return
			}
			if s.serve(i, c, u, p) {
				s.timers.lower(i, c.pulls.wakeAt())
				return
			}
			code, text = s.serving.code, s.serving.text
			s.heard(u)
		}
		n := p.n
		c.pulls.pop()
		if code == wire.CodeOK {
			s.ok(i, c, n)
		} else {
			s.refuse(i, c, n, code, text)
		}
	}
}

// pullSub finds the subscription of a PULL whose turn it is.
func (s *Sessions) pullSub(c *conn, p *pull) (*sub, wire.Code, string) {
	_, u, ok := s.subOf(c, p.sub)
	switch {
	case !ok || u.leaving:
		return nil, wire.CodeUnknownMember, textNoSub
	case u.gone:
		return nil, wire.CodeUnknownTopic, textTopicGone
	}
	return u, wire.CodeOK, ""
}

// outputFull says that the connection has enough to send for now.
func (s *Sessions) outputFull(c *conn) bool {
	return c.queued > queuedBytesMax || len(c.out) > queuedBytesMax
}

// finishPulls answers all PULLs with nothing: the connection ends.
func (s *Sessions) finishPulls(i uint32, c *conn) {
	for c.pulls != nil && c.pulls.n > 0 {
		n := c.pulls.q[0].n
		c.pulls.pop()
		s.ok(i, c, n)
	}
}

// forgetPulls answers all PULLs when the epoch that their subscriptions belong
// to is over.
func (s *Sessions) forgetPulls(i uint32, c *conn) {
	for c.pulls != nil && c.pulls.n > 0 {
		n := c.pulls.q[0].n
		c.pulls.pop()
		if s.leading {
			s.refuse(i, c, n, wire.CodeUnknownMember, textNoSub)
		} else {
			s.refuse(i, c, n, wire.CodeStaleLeaderEpoch, s.staleText)
		}
	}
}

// subGone answers the PULLs of a subscription that is no member any more.
func (s *Sessions) subGone(i uint32, c *conn, id uint16, code wire.Code, text string) {
	if c.pulls == nil {
		return
	}
	for k := 0; k < c.pulls.n; {
		if p := c.pulls.q[k]; p.sub == id {
			copy(c.pulls.q[k:], c.pulls.q[k+1:c.pulls.n])
			c.pulls.n--
			s.refuse(i, c, p.n, code, text)
			continue
		}
		k++
	}
	s.wakePull(i, c)
}

// pullTimer looks at the waiting PULL when its wait is over or something is due.
func (s *Sessions) pullTimer(i uint32, c *conn) {
	p := c.pulls
	if p.n == 0 || s.now < p.wakeAt() {
		return
	}
	if s.now >= p.q[0].deadline {
		p.q[0].must = true
	}
	p.q[0].look = clock.Never
	s.wakePull(i, c)
}

// wakePull makes EndTurn look at the connection's waiting PULL.
func (s *Sessions) wakePull(i uint32, c *conn) {
	if c.pulls == nil || c.pulls.n == 0 {
		return
	}
	c.pulls.q[0].ready = uint64(c.pulls.q[0].minBytes)
	s.enqueueWake(i, c)
}

func (s *Sessions) enqueueWake(i uint32, c *conn) {
	if !c.waking {
		c.waking = true
		s.wake = append(s.wake, i)
	}
}

// wakeSub wakes the PULL that waits for a subscription, if one does.
func (s *Sessions) wakeSub(u *sub) {
	if u.conn == none {
		return
	}
	if c := s.conns.at(u.conn); c.pulls != nil && c.pulls.n > 0 && c.pulls.q[0].sub == u.id {
		s.wakePull(u.conn, c)
	}
}

// wakeLane wakes the PULL that waits for a lane's owner.
func (s *Sessions) wakeLane(ln *lane) {
	if ln.owner != 0 {
		s.wakeSub(s.groups.subs.at(ln.owner - 1))
	}
}

// appended wakes the PULLs that a new record may complete. It is on the path of
// every publish.
func (s *Sessions) appended(o *op.Op, res *machine.Result) {
	t := res.Append.Topic
	if int(t) >= len(s.topics) {
		return
	}
	g := &s.groups
	for k := s.topics[t].group; k != 0; {
		gr := g.groups.at(k - 1)
		k = gr.next
		ln := g.lanes.at(gr.lanes[res.Append.Partition])
		if ln.owner == 0 {
			continue
		}
		u := g.subs.at(ln.owner - 1)
		if u.conn == none {
			continue
		}
		c := s.conns.at(u.conn)
		if c.pulls == nil || c.pulls.n == 0 || c.pulls.q[0].sub != u.id {
			continue
		}
		p := &c.pulls.q[0]
		p.ready += max(1, uint64(len(o.Key)+len(o.Value)))
		if p.ready >= uint64(p.minBytes) {
			s.enqueueWake(u.conn, c)
		}
	}
}

// recordsCame wakes what waits for a record that was being read.
func (s *Sessions) recordsCame(t op.TopicID, part op.PartitionID) {
	s.jobs.reading = false
	if int(t) >= len(s.topics) {
		return
	}
	g := &s.groups
	for k := s.topics[t].group; k != 0; {
		gr := g.groups.at(k - 1)
		k = gr.next
		if int(part) >= len(gr.lanes) {
			continue
		}
		ln := g.lanes.at(gr.lanes[part])
		ln.reading = false
		s.wakeLane(ln)
	}
}

// wakeAll looks at the PULLs that something happened for.
func (s *Sessions) wakeAll() {
	for len(s.wake) > 0 {
		i := s.wake[len(s.wake)-1]
		s.wake = s.wake[:len(s.wake)-1]
		c := s.conns.at(i)
		if !c.waking {
			continue
		}
		c.waking = false
		if c.state == connOpen && s.leading {
			s.runPulls(i, c)
		}
	}
}

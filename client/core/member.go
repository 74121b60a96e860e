package core

import (
	"cmp"

	"github.com/mortarmq/mortarmq/wire"
)

// sendMembers sends what joins, keeps and ends memberships.
func (c *Core) sendMembers() {
	for _, s := range c.consumers {
		if c.fifo.len() >= requestsMax {
			return
		}
		switch {
		case s.state == stateJoining && c.now >= s.joinAt && !s.stopping:
			c.sendSub(s)
		case s.state == stateLeaving && s.leaveDue:
			s.leaveDue = false
			c.sendHeartbeat(s, wire.HeartbeatLeave)
		}
	}
}

// sendHeartbeats is called last of all: any other request of the subscription does as well.
func (c *Core) sendHeartbeats() {
	for _, s := range c.consumers {
		if s.state == stateMember && c.now >= s.lastSent.Add(s.opt.Heartbeat) && c.fifo.len() < requestsMax {
			c.sendHeartbeat(s, wire.HeartbeatActive)
		}
	}
}

func (c *Core) sendSub(s *consumer) {
	m := wire.Sub{Group: []byte(s.group), TopicID: s.topicID, Partition: wire.PartitionAny,
		CreditCount: s.opt.CreditCount, CreditBytes: s.opt.CreditBytes}
	if s.opt.Latest {
		m.StartPolicy = wire.StartLatest
	}
	if s.opt.GroupMustExist {
		m.Flags = wire.FlagSubMustExist
	}
	c.wbuf = m.Append(c.wbuf)
	s.state = stateSubscribing
	c.memberRequest(s, request{op: wire.OpSub})
}

func (c *Core) sendHeartbeat(s *consumer, state wire.HeartbeatState) {
	if c.conn.phase != phaseOpen {
		return
	}
	m := wire.Heartbeat{SubscriptionID: s.sub, MemberID: s.member, MembershipEpoch: s.membership, AssignmentEpoch: s.assignment, State: state}
	c.wbuf = m.Append(c.wbuf)
	c.memberRequest(s, request{op: wire.OpHeartbeat, leave: state == wire.HeartbeatLeave})
}

// memberRequest notes a request of a membership.
func (c *Core) memberRequest(s *consumer, r request) {
	r.member, r.generation, r.epochs = s, s.generation, s.told
	s.lastSent = c.now
	c.request(r)
}

// onMemberOK takes the OKs of what consumers send.
func (c *Core) onMemberOK(r *request, result []byte) error {
	if r.op != wire.OpSub && r.op != wire.OpCredit && len(result) > 0 {
		c.unanswered(*r)
		return errResult
	}
	switch r.op {
	case wire.OpSub:
		var res wire.SubResult
		if err := res.Decode(result); err != nil {
			return err
		}
		if r.generation == r.member.generation && r.member.state == stateSubscribing {
			c.joined(r.member, &res)
		}
	case wire.OpAck, wire.OpNack, wire.OpControlAck:
		c.replyOK(r.slot)
	case wire.OpPull:
		c.pullDone(r)
	case wire.OpCredit:
		var res wire.CreditResult
		if err := res.Decode(result); err != nil {
			return err
		}
		c.creditOK(r, &res)
	case wire.OpHeartbeat:
		if r.current() {
			r.member.stale = 0
			c.left(r)
		}
	}
	return nil
}

const errResult = protocolError("an OK that has no result has one")

// current says whether the membership that the request was sent for still is.
func (r *request) current() bool {
	return r.member.state != stateEnded && r.generation == r.member.generation
}

func (c *Core) joined(s *consumer, res *wire.SubResult) {
	s.state, s.everJoined = stateMember, true
	s.sub, s.member, s.membership, s.assignment = res.SubscriptionID, res.MemberID, res.MembershipEpoch, res.AssignmentEpoch
	s.told++
	s.joinFails, s.stale = 0, 0
	s.credit.open(s.opt.CreditCount, s.opt.CreditBytes)
	s.pulls = pulls{at: c.now}
	s.renewAt = c.now.Add(s.opt.Lease / 6)
	c.event(Event{Kind: EventJoined, Handle: s.handle, Member: s.member})
	c.checkStop(s)
}

// left ends a stop when LEAVE has been answered, however.
func (c *Core) left(r *request) {
	if s := r.member; r.leave && s.state == stateLeaving {
		c.dropMembership(s)
		s.state = stateJoining
		c.checkStop(s)
	}
}

// onMemberErr takes the refusals of what consumers send.
func (c *Core) onMemberErr(r *request, err Err, info wire.CodeInfo) {
	switch r.op {
	case wire.OpAck, wire.OpNack, wire.OpControlAck:
		c.replyErr(r.slot, err, info)
		return
	case wire.OpSub:
		if r.generation == r.member.generation && r.member.state == stateSubscribing {
			c.subErr(r.member, err, info)
		}
		return
	case wire.OpCredit:
		c.creditRefused(r)
	case wire.OpPull:
		c.pullRefused(r, err.Code)
	}
	if !r.current() {
		return
	}
	if r.leave {
		c.left(r)
		return
	}
	c.memberErr(r.member, r.epochs, err, info)
}

func (c *Core) subErr(s *consumer, err Err, info wire.CodeInfo) {
	s.state = stateJoining
	again := info.Retry != wire.RetryNever
	// A member that comes back may find its own ghost in its place until the broker has missed it.
	again = again || s.everJoined && err.Code == wire.CodeGroupMemberLimit
	if s.stopping || again {
		s.joinFails++
		s.joinAt = c.now.Add(c.backoff(s.joinFails))
		c.checkStop(s)
		return
	}
	c.consumerFailed(s, err)
}

// memberErr acts on a refusal of HEARTBEAT, CREDIT or PULL by its retry column.
func (c *Core) memberErr(s *consumer, epochs uint64, err Err, info wire.CodeInfo) {
	switch {
	case info.Retry == wire.RetryContinue, info.Retry == wire.RetryBackoff, info.Retry == wire.RetryLeader:
	case err.Code == wire.CodeStaleGeneration || err.Code == wire.CodeNotOwner:
		// A NOTICE was under way, and has come before this answer: the next request carries its epochs.
		if s.told != epochs {
			s.stale = 0
			return
		}
		if s.stale++; s.stale < staleMax {
			return
		}
		if s.state == stateMember {
			c.sendHeartbeat(s, wire.HeartbeatLeave)
		}
		c.rejoin(s)
	case info.Retry == wire.RetryRejoin:
		c.rejoin(s)
	case err.Code == wire.CodeInternal:
		c.trouble(s, err)
	default:
		c.consumerFailed(s, err)
	}
}

// trouble tells of a fault on the broker's side. The request is not repeated, as the registry says: whoever owns partitions
// asks again in time, for what lies behind the fault, or is mended, or comes with a rebalance, is to be had as soon as it can be.
func (c *Core) trouble(s *consumer, err Err) {
	text := cmp.Or(err.Message, err.Code.String())
	if s.trouble != text {
		c.event(Event{Kind: EventConsumerTrouble, Handle: s.handle, Err: err})
	}
	s.trouble = text
}

// staleMax is how many refusals for epochs that nothing newer was heard of end a membership.
const staleMax = 8

// rejoin joins again after a pause.
func (c *Core) rejoin(s *consumer) {
	c.memberLost(s)
	if s.state == stateJoining {
		s.joinFails++
		s.joinAt = c.now.Add(c.backoff(s.joinFails))
	}
}

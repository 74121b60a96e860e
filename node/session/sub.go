package session

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// sub is one subscription: a member of a group on one connection.
//
// Invariants:
//
//  1. lanes are exactly the lanes whose owner it is, in rising order of partition.
//  2. balance = max(0, window - taken), for messages and for bytes.
//  3. outLen and outSize count the out entries of its lanes.
type sub struct {
	conn  uint32 // none: the connection is gone, Leave is on its way
	id    uint16 // subscription_id
	group op.GroupID
	topic op.TopicID

	member     op.MemberID
	membership uint32 // as last told
	assignment uint32
	installed  uint32 // last assignment epoch confirmed

	ready   bool // SUB's OK was written
	leaving bool // Leave is in the log's queue
	gone    bool // its topic was deleted: no member any more

	lastSeen clock.Instant // patient
	lanes    []uint32
	served   int // partition served last, -1 before

	window      credit
	taken       credit // sent and not given back by CREDIT
	creditEpoch uint64
	sent        total // ever
	outLen      uint32
	outSize     uint64
}

// own adds a lane.
func (u *sub) own(l uint32, p op.PartitionID, lanes *slab[lane]) {
	at := len(u.lanes)
	for at > 0 && lanes.at(u.lanes[at-1]).part > p {
		at--
	}
	u.lanes = append(u.lanes, 0)
	copy(u.lanes[at+1:], u.lanes[at:])
	u.lanes[at] = l
}

// disown takes a lane away.
func (u *sub) disown(l uint32) {
	for k, v := range u.lanes {
		if v == l {
			u.lanes = append(u.lanes[:k], u.lanes[k+1:]...)
			return
		}
	}
}

// subOf finds a connection's subscription, by the id that a request names.
func (s *Sessions) subOf(c *conn, id uint16) (uint32, *sub, bool) {
	for _, cs := range c.subs {
		if cs.id == id {
			return cs.sub, s.groups.subs.at(cs.sub), true
		}
	}
	return none, nil, false
}

// heard takes note that a member is alive.
func (s *Sessions) heard(u *sub) { u.lastSeen = s.watch.now }

const (
	textNoSub     = "this connection has no such subscription: join again"
	textTopicGone = "the topic of this subscription was deleted: declare it and subscribe again"
	textStale     = "the epochs are not those last told to this member: wait for the NOTICE, then go on with the new epochs"
)

// member finds the subscription that a request names; where there is none, or
// its topic is gone, it refuses the request.
func (s *Sessions) member(i uint32, c *conn, n uint64, id uint16) (uint32, *sub, bool) {
	k, u, ok := s.subOf(c, id)
	switch {
	case !ok || u.leaving:
		s.refuse(i, c, n, wire.CodeUnknownMember, textNoSub)
		return none, nil, false
	case u.gone:
		s.refuse(i, c, n, wire.CodeUnknownTopic, textTopicGone)
		return none, nil, false
	}
	s.heard(u)
	return k, u, true
}

package session

import (
	"math"

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

// total is what a subscription was ever sent.
type total struct{ count, bytes uint64 }

// credit counts messages and their values' bytes.
type credit struct {
	count uint32
	bytes uint64
}

// balance is what may be sent now.
func (u *sub) balance() credit {
	return credit{
		count: u.window.count - min(u.window.count, u.taken.count),
		bytes: u.window.bytes - min(u.window.bytes, u.taken.bytes),
	}
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

// credit carries out CREDIT, which is volatile and decided at once. SET says how
// large the window is; ADD gives back what was taken, and widens the window by
// what is beyond that. The balance is what the window leaves over what is taken,
// so SET (0, 0) pauses until the next SET, whatever is given back meanwhile.
func (s *Sessions) credit(i uint32, c *conn, n uint64, payload []byte) {
	var m wire.Credit
	if err := m.Decode(payload); err != nil {
		s.refuseBad(i, c, n, err)
		return
	}
	_, u, ok := s.member(i, c, n, m.SubscriptionID)
	if !ok {
		return
	}
	if m.MembershipEpoch != u.membership {
		s.refuse(i, c, n, wire.CodeStaleGeneration, textStale)
		return
	}
	window, taken := u.applyCredit(&m)
	pause := m.Mode == wire.CreditSet && m.CreditCount == 0 && m.CreditBytes == 0
	if !pause && window != u.window && s.exceeds(u, window) {
		s.refuse(i, c, n, wire.CodeMessageExceedsCredit, "the message that is next due is larger than the window: raise credit_bytes")
		return
	}
	if window.bytes > u.window.bytes {
		for _, l := range u.lanes {
			s.groups.lanes.at(l).oversized = 0
		}
	}
	u.window, u.taken = window, taken
	u.creditEpoch++
	b := u.balance()
	r := c.ring.at(n)
	r.kind, r.small = answerCredit, u.id
	r.a, r.b, r.c = uint64(b.count)+u.sent.count, b.bytes+u.sent.bytes, u.creditEpoch
	s.decided(i, c, n)
}

// writeCredit writes CREDIT's OK. MSGs that went out since it was carried out are
// taken off the balance: the client has them before this answer.
func (s *Sessions) writeCredit(b []byte, c *conn, r *request) []byte {
	m := wire.CreditResult{CreditEpoch: r.c}
	if _, u, ok := s.subOf(c, r.small); ok {
		m.GrantedCount = uint16(r.a - min(r.a, u.sent.count))
		m.GrantedBytes = uint32(r.b - min(r.b, u.sent.bytes))
		m.OutstandingCount = uint16(min(u.outLen, math.MaxUint16))
		m.OutstandingBytes = uint32(min(u.outSize, math.MaxUint32))
	}
	return m.AppendOK(b)
}

// exceeds says whether the message that is next due is larger than a window.
func (s *Sessions) exceeds(u *sub, window credit) bool {
	first := u.nextLane(&s.groups.lanes)
	for k := range u.lanes {
		ln := s.groups.lanes.at(u.lanes[(first+k)%len(u.lanes)])
		if size, ok := s.peek(u, ln); ok {
			return uint64(size) > window.bytes
		}
	}
	return false
}

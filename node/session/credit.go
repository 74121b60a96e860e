package session

import (
	"math"

	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/wire"
)

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

// applyCredit gives the window and what is taken of it after a CREDIT.
func (u *sub) applyCredit(m *wire.Credit) (window, taken credit) {
	by := credit{uint32(m.CreditCount), uint64(m.CreditBytes)}
	if m.Mode == wire.CreditSet {
		return by, u.taken
	}
	if fault.On("credit_leak") && by.count > 0 {
		by.count--
	}
	window, taken = u.window, u.taken
	back := min(by.count, taken.count)
	taken.count -= back
	window.count = min(window.count+by.count-back, math.MaxUint16)
	size := min(by.bytes, taken.bytes)
	taken.bytes -= size
	window.bytes = min(window.bytes+by.bytes-size, math.MaxUint32)
	return window, taken
}

// firstWindow is the window that SUB asks for; (0, 0) stands for the default.
func (s *Sessions) firstWindow(count uint16, bytes uint32) credit {
	if count == 0 && bytes == 0 {
		return credit{uint32(s.cfg.CreditCount), uint64(s.cfg.CreditBytes)}
	}
	return credit{uint32(count), uint64(bytes)}
}

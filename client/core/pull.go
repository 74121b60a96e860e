package core

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
)

// pulls are the PULLs of a membership. at is when the next may be sent.
type pulls struct {
	inFlight int
	at       clock.Instant
	msgs     int // MSGs since the last answer
	empty    int // answers in a row that brought nothing although nothing ended their wait
}

// got is a MSG.
func (p *pulls) got() {
	p.msgs++
	p.empty = 0
}

// fresh is credit that has come: what held PULLs back may be over.
func (p *pulls) fresh(now clock.Instant) {
	p.empty = 0
	p.at = min(p.at, now)
}

const (
	// pullsMax is how many PULLs of a lone consumer are under way: one waits, the next is there when it is answered.
	pullsMax = 2
	// pullBytesMax bounds what one PULL brings, so that answers behind it are not long in coming.
	pullBytesMax = 1 << 20
	// sharedWait is how long the PULLs of several consumers on one connection wait, all together: each waits only when those
	// before it are answered.
	sharedWait    = 100 * clock.Millisecond
	sharedWaitMin = 5 * clock.Millisecond
	// pullPauseMax is the longest pause between PULLs that are answered at once with nothing.
	pullPauseMax = 250 * clock.Millisecond
)

// mayPull says whether a PULL would be sent, were it time.
func (c *Core) mayPull(s *consumer) bool {
	if s.state != stateMember || s.paused || s.stopping || s.pulls.inFlight >= c.pullsEach() {
		return false
	}
	a := s.credit.available()
	return a.count > 0 && a.bytes > 0 && s.owns()
}

func (s *consumer) owns() bool {
	for i := range s.parts {
		if p := &s.parts[i]; p.owned && !p.revoking {
			return true
		}
	}
	return false
}

// pullsEach shares the PULLs that may wait on one connection.
func (c *Core) pullsEach() int {
	if len(c.consumers) == 1 {
		return pullsMax
	}
	return 1
}

func (c *Core) pullWait(s *consumer) clock.Duration {
	if n := len(c.consumers); n > 1 {
		return min(s.opt.PullWait, max(sharedWait/clock.Duration(n), sharedWaitMin))
	}
	return s.opt.PullWait
}

// sendPulls goes round the consumers, since no more than wire.MaxWaitingPulls may be under way.
func (c *Core) sendPulls() {
	total := 0
	for _, s := range c.consumers {
		total += s.pulls.inFlight
	}
	for k := range c.consumers {
		s := c.consumers[(c.pullTurn+k)%len(c.consumers)]
		for c.mayPull(s) && c.now >= s.pulls.at && c.fifo.len() < requestsMax {
			if total >= wire.MaxWaitingPulls {
				c.pullTurn = (c.pullTurn + k) % len(c.consumers)
				return
			}
			c.sendPull(s)
			total++
		}
	}
}

func (c *Core) sendPull(s *consumer) {
	c.epochs = c.epochs[:0]
	for i := range s.parts {
		if p := &s.parts[i]; p.owned && !p.revoking {
			c.epochs = wire.AppendEpochs(c.epochs, p.epoch)
		}
	}
	m := wire.Pull{SubscriptionID: s.sub, MemberID: s.member, MembershipEpoch: s.membership, AssignmentEpoch: s.assignment,
		OwnershipEpochs: c.epochs, MaxMsgs: uint16(min(s.credit.available().count, 1<<16-1)), MaxBytes: pullBytesMax,
		WaitMs: uint16(min(max(c.pullWait(s).Millis(), 1), 1<<16-1))}
	c.wbuf = m.Append(c.wbuf)
	s.pulls.inFlight++
	c.memberRequest(s, request{op: wire.OpPull})
}

// pullDone takes a PULL's OK. One that brought nothing, and that neither time nor a request behind it ended, must not be
// repeated at once for ever.
func (c *Core) pullDone(r *request) {
	if !r.current() {
		return
	}
	s := r.member
	s.pulls.inFlight--
	s.stale = 0
	msgs := s.pulls.msgs
	s.pulls.msgs = 0
	if msgs > 0 || r.n < c.conn.lastOther || c.now.Sub(r.sentAt) >= c.pullWait(s)/2 {
		s.pulls.empty = 0
		return
	}
	s.pulls.empty++
	s.pulls.at = c.now.Add(min(clock.Millisecond<<min(s.pulls.empty, 10), pullPauseMax))
}

// pullRefused takes a PULL's refusal; what it means for the membership is memberErr's.
func (c *Core) pullRefused(r *request, code wire.Code) {
	if !r.current() {
		return
	}
	s := r.member
	s.pulls.inFlight--
	s.pulls.msgs = 0
	s.pulls.empty++
	switch code {
	case wire.CodeStaleGeneration, wire.CodeNotOwner:
		if s.told != r.epochs {
			return // with the new epochs, at once
		}
	case wire.CodeNoCredit:
		s.pulls.at = c.now.Add(pullPauseMax)
		return
	}
	s.pulls.at = c.now.Add(c.backoff(s.pulls.empty))
}

package core

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
)

// When credit goes back, whichever comes first (broker.md, "Credit").
const (
	backCountMax = 32
	backBytesMax = 1 << 20
	backPause    = 20 * clock.Millisecond
)

// window is a subscription's credit. balance is what the broker has left as far as is known, flying what CREDITs under way
// give back, back what is to be given back (C9). Their sum and what is out make the size.
type window struct {
	size    amount
	balance amount
	flying  amount
	back    amount
	since   clock.Instant // of the oldest part of back
}

// amount is a number of messages and of their values' bytes.
type amount struct {
	count int64
	bytes int64
}

func (a *amount) add(b amount) { a.count += b.count; a.bytes += b.bytes }

func (a *amount) sub(b amount) { a.count -= b.count; a.bytes -= b.bytes }

func (w *window) open(count uint16, bytes uint32) {
	*w = window{size: amount{int64(count), int64(bytes)}}
	w.balance = w.size
}

// take is a MSG.
func (w *window) take(bytes int) {
	w.balance.sub(amount{1, int64(bytes)})
	// A broker that sends more than it was granted is not made worse by believing it.
	w.balance.count, w.balance.bytes = max(w.balance.count, 0), max(w.balance.bytes, 0)
}

// giveBack is for MSGs that are done with.
func (w *window) giveBack(now clock.Instant, count int64, bytes uint32) {
	if w.back == (amount{}) {
		w.since = now
	}
	w.back.add(amount{count, int64(bytes)})
}

// available is what a PULL sent now will find.
func (w *window) available() amount {
	a := w.balance
	a.add(w.flying)
	return a
}

func (w *window) due(now clock.Instant) bool {
	if w.back.count == 0 {
		return false
	}
	a := w.available()
	return w.back.count >= backCountMax || w.back.bytes >= backBytesMax || 4*a.count < w.size.count || 4*a.bytes < w.size.bytes ||
		now >= w.since.Add(backPause)
}

func (w *window) deadline() clock.Instant {
	if w.back.count == 0 {
		return clock.Never
	}
	return w.since.Add(backPause)
}

func (c *Core) sendCredits() {
	for _, s := range c.consumers {
		w := &s.credit
		if s.state != stateMember || !w.due(c.now) || c.fifo.len() >= requestsMax {
			continue
		}
		give := amount{min(w.back.count, 1<<16-1), min(w.back.bytes, 1<<32-1)}
		m := wire.Credit{SubscriptionID: s.sub, MembershipEpoch: s.membership, Mode: wire.CreditAdd,
			CreditCount: uint16(give.count), CreditBytes: uint32(give.bytes)}
		c.wbuf = m.Append(c.wbuf)
		w.back.sub(give)
		w.since = c.now
		w.flying.add(give)
		c.memberRequest(s, request{op: wire.OpCredit, count: m.CreditCount, bytes: m.CreditBytes})
	}
}

// landed takes a CREDIT out of what is flying.
func (r *request) landed() (amount, bool) {
	give := amount{int64(r.count), int64(r.bytes)}
	if !r.current() {
		return give, false
	}
	r.member.credit.flying.sub(give)
	return give, true
}

func (c *Core) creditOK(r *request, res *wire.CreditResult) {
	if _, now := r.landed(); !now {
		return
	}
	s := r.member
	s.stale = 0
	s.credit.balance = amount{int64(res.GrantedCount), int64(res.GrantedBytes)}
	s.pulls.fresh(c.now)
}

// creditRefused takes a refused CREDIT, which has changed nothing, back.
func (c *Core) creditRefused(r *request) {
	if give, now := r.landed(); now {
		w := &r.member.credit
		w.giveBack(c.now, give.count, uint32(give.bytes))
		w.since = c.now // and not at once
	}
}

package session

import (
	"fmt"
	"math"

	"github.com/mortarmq/mortarmq/wire"
)

// Bounds beside those that are fixed for the protocol.
const (
	// heldMost is held input: what makes the peer wait, and what may be on its way
	// until it does - a turn's worth - with the frame that it ends in.
	heldMost = heldBytesMax + 1<<20 + wire.MaxFrameLen
	// outputMost is unwritten output: what stops a PULL from being served, one PULL,
	// and an answer to everything unanswered.
	outputMost = queuedBytesMax + pullBytesMax + 512*(wire.MaxUnansweredRequests+1)
)

// Bounds holds everything that a client can make grow against its limit
// (doc.go, invariant 9), and says what is beyond it. It takes as long as there
// are connections and partitions: for the simulator and tests.
func (s *Sessions) Bounds() error {
	for i := range s.conns.used {
		if c := s.conns.at(i); c.state != connFree {
			if err := s.connBounds(c); err != nil {
				return err
			}
		}
	}
	g := &s.groups
	for _, i := range g.byID {
		if i == 0 {
			continue
		}
		gr := g.groups.at(i - 1)
		for p, l := range gr.lanes {
			if n := g.lanes.at(l).entries; n > maxUnsettled {
				return fmt.Errorf("session: group %d partition %d: %d deliveries are unsettled, %d may be", gr.id, p, n, maxUnsettled)
			}
		}
	}
	if n, most := len(g.revokes), 2*g.lanes.inUse()+65; n > most {
		return fmt.Errorf("session: %d revokes are waited for, of %d partitions", n, g.lanes.inUse())
	}
	return nil
}

func (s *Sessions) connBounds(c *conn) error {
	for _, b := range [...]struct {
		what    string
		n, most int
	}{
		{"unanswered requests", c.ring.len(), wire.MaxUnansweredRequests + 1},
		{"bytes of unanswered requests", c.size, wire.MaxUnansweredBytes + wire.MaxFrameLen + 4},
		{"bytes of input that wait", len(c.held), heldMost},
		{"bytes of output that wait", c.queued + len(c.out), outputMost},
		{"subscriptions", len(c.subs), wire.MaxSubscriptionsPerConn},
	} {
		if b.n > b.most {
			return fmt.Errorf("session: connection %d has %d %s, %d at most", c.id, b.n, b.what, b.most)
		}
	}
	for _, cs := range c.subs {
		u := s.groups.subs.at(cs.sub)
		if max(u.window.count, u.taken.count) > math.MaxUint16 || max(u.window.bytes, u.taken.bytes) > math.MaxUint32 {
			return fmt.Errorf("session: subscription %d of connection %d: window %+v, taken %+v", u.id, c.id, u.window, u.taken)
		}
	}
	return nil
}

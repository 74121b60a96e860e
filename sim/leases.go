package sim

import (
	"fmt"

	"github.com/mortarmq/mortarmq/checker"
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/wire"
)

// leases watches what the node sends: a message that goes out again to the same
// owner had its lease run out by the node's monotonic clock, or was given back.
type leases struct {
	w     *world
	conns map[net.ConnID]*wire.FrameReader
	last  map[leaseKey]sentMsg
	early []earlyMsg
}

type leaseKey struct {
	topic, partition uint16
	ownership        uint64
	sequence         uint64
	conn             net.ConnID
	sub              uint16
}

type sentMsg struct {
	delivery uint64
	at       clock.Instant // of the node's own clock
}

// earlyMsg is a delivery that ended before its lease did.
type earlyMsg struct {
	delivery uint64
	after    clock.Duration
	at       clock.Instant
	sequence uint64
}

func (l *leases) reset() {
	l.conns, l.last = map[net.ConnID]*wire.FrameReader{}, map[leaseKey]sentMsg{}
}

// sent takes in what a turn sends.
func (l *leases) sent(now clock.Instant, reqs []net.Request) {
	for i := range reqs {
		r := &reqs[i]
		if r.Kind != net.RequestSend {
			continue
		}
		reader := l.conns[r.Conn]
		if reader == nil {
			reader = &wire.FrameReader{}
			l.conns[r.Conn] = reader
		}
		reader.Feed(r.Data)
		for {
			f, ok, err := reader.Next()
			if err != nil {
				l.w.finding(PropertyProtocol, "the node sends what is no frame: %v", err)
				return
			}
			if !ok {
				break
			}
			if f.Op == wire.OpMsg {
				l.msg(now, r.Conn, f.Payload)
			}
		}
	}
}

func (l *leases) msg(now clock.Instant, conn net.ConnID, payload []byte) {
	var m wire.Msg
	if err := m.Decode(payload); err != nil {
		l.w.finding(PropertyProtocol, "the node sends a MSG that does not decode: %v", err)
		return
	}
	k := leaseKey{m.TopicID, m.Partition, m.OwnershipEpoch, m.Sequence, conn, m.SubscriptionID}
	if before, ok := l.last[k]; ok {
		if d := now.Sub(before.at); d < l.w.plan.Span("lease") {
			l.early = append(l.early, earlyMsg{before.delivery, d, l.w.now, m.Sequence})
		}
	}
	l.last[k] = sentMsg{m.DeliveryID, now}
}

// judge finds the early ones that nobody gave back.
func (l *leases) judge(h *checker.History) {
	given := map[uint64]bool{}
	for i := range h.Settles {
		given[h.Settles[i].DeliveryID] = true
	}
	for _, e := range l.early {
		if !given[e.delivery] {
			l.w.judge.findings = append(l.w.judge.findings, checker.Finding{Property: PropertyLease, At: checker.Time(e.at),
				What: fmt.Sprintf("delivery %x of sequence %d was given back by nobody and went out again after %d ms", e.delivery, e.sequence, e.after.Millis())})
		}
	}
}

package sim

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mortarmq/mortarmq/checker"
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/wire"
)

// leases watches what the node sends, by the node's own clock: a message goes
// out again when its lease has run out and its backoff is over, or when it was
// given back and its backoff or delay is over, and not before.
//
// Instants are of the node's uptime (host.uptime): log time, which dues are
// counted in, runs with it and stands still while the node is down.
type leases struct {
	w     *world
	conns map[net.ConnID]*wire.FrameReader
	last  map[leaseKey]uint64 // delivery id sent last to an owner
	out   map[uint64]outgoing // by delivery id
	pairs []pair
	asked map[uint64]asking        // NACKs by delivery id
	kept  map[uint64]clock.Instant // PROGRESS that was answered OK, by delivery id: when it was asked for
}

type leaseKey struct {
	topic, partition uint16
	ownership        uint64
	sequence         uint64
	conn             net.ConnID
	sub              uint16
}

// outgoing is when a delivery was sent, and by which incarnation.
type outgoing struct {
	uptime      clock.Instant
	incarnation int
}

// pair is a delivery and the next one of the same message to the same owner.
type pair struct {
	before, after uint64
	sequence      uint64
	at            clock.Instant // of the world
}

// asking is a NACK retry or release: when its client asked for it, in which
// incarnation of the node, and for which delay.
type asking struct {
	uptime      clock.Instant
	incarnation int
	delay       clock.Duration
}

// rounding is what milliseconds of log time may cut off a span.
const rounding = 2 * clock.Millisecond

func (l *leases) reset() {
	l.conns, l.last = map[net.ConnID]*wire.FrameReader{}, map[leaseKey]uint64{}
	if l.out == nil {
		l.out, l.asked, l.kept = map[uint64]outgoing{}, map[uint64]asking{}, map[uint64]clock.Instant{}
	}
}

// sent takes in what a turn sends.
func (l *leases) sent(reqs []net.Request) {
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
				l.msg(r.Conn, f.Payload)
			}
		}
	}
}

func (l *leases) msg(conn net.ConnID, payload []byte) {
	var m wire.Msg
	if err := m.Decode(payload); err != nil {
		l.w.finding(PropertyProtocol, "the node sends a MSG that does not decode: %v", err)
		return
	}
	l.out[m.DeliveryID] = outgoing{l.w.host.uptime(), l.w.host.incarnation}
	k := leaseKey{m.TopicID, m.Partition, m.OwnershipEpoch, m.Sequence, conn, m.SubscriptionID}
	if before, ok := l.last[k]; ok {
		l.pairs = append(l.pairs, pair{before, m.DeliveryID, m.Sequence, l.w.now})
	}
	l.last[k] = m.DeliveryID
}

// gave notes that a client gives a delivery back.
func (l *leases) gave(delivery uint64, delay clock.Duration) {
	l.asked[delivery] = asking{l.w.host.uptime(), l.w.host.incarnation, delay}
}

// renewed notes that a lease was renewed: the PROGRESS was asked for then.
func (l *leases) renewed(delivery uint64, asked clock.Instant) {
	l.kept[delivery] = max(l.kept[delivery], asked)
}

// backoff is how long a message waits at least that was charged n times.
func (l *leases) backoff(n int) clock.Duration {
	d, limit := l.w.plan.Span("backoff"), l.w.plan.Span("backoff_max")
	for i := 1; i < n && d < 2*limit; i++ {
		d *= 2
	}
	return min(d-d/10, limit)
}

// judge looks for what went out too early.
func (l *leases) judge(h *checker.History) {
	if l.w.atlas.mayLose() {
		return
	}
	given := map[uint64]checker.Time{} // delivery by delivery, when it was first asked for
	for i := range h.Settles {
		s := &h.Settles[i]
		if at, ok := given[s.DeliveryID]; !ok || s.Call < at {
			given[s.DeliveryID] = s.Call
		}
	}
	for _, p := range l.pairs {
		from := max(l.out[p.before].uptime, l.kept[p.before])
		wait := l.w.plan.Span("lease") + l.backoff(1) - rounding
		if took := l.out[p.after].uptime.Sub(from); took < wait && !before(given, p.before, p.at) {
			l.find(PropertyLease, p.at, "delivery %x of sequence %d was given back by nobody and went out again after %d ms; lease and backoff are %d ms",
				p.before, p.sequence, took.Millis(), wait.Millis())
		}
	}
	l.judgeBackoffs(h)
	l.spare(h, given)
}

// before says whether somebody had asked to end a delivery by then.
func before(given map[uint64]checker.Time, delivery uint64, at clock.Instant) bool {
	call, ok := given[delivery]
	return ok && call <= checker.Time(at)
}

// spare marks the deliveries that cost no attempt because their owner went: they
// were out until then - nobody had asked to end them, and the next owner was
// handed the message before the lease could have run out - and so was a lower
// one of the same owner.
func (l *leases) spare(h *checker.History, given map[uint64]checker.Time) {
	type owned struct {
		group     string
		partition checker.Partition
		ownership uint64
	}
	byID := make([]int, len(h.Deliveries))
	for i := range byID {
		byID[i] = i
	}
	slices.SortFunc(byID, func(a, b int) int { return cmp.Compare(h.Deliveries[a].DeliveryID, h.Deliveries[b].DeliveryID) })
	last := map[handed]int{}
	lowest := map[owned]uint64{}
	var out []int // that were out when their owner went
	for _, i := range byID {
		d := &h.Deliveries[i]
		k := handed{d.Group, d.Partition, d.Sequence, 0}
		j, ok := last[k]
		last[k] = i
		if !ok {
			continue
		}
		b := &h.Deliveries[j]
		_, asked := given[b.DeliveryID]
		was, is := l.out[b.DeliveryID], l.out[d.DeliveryID]
		// What a crash is between, the books may know nothing of.
		if asked || b.Ownership >= d.Ownership || was.incarnation != is.incarnation || is.uptime.Sub(was.uptime) >= l.w.plan.Span("lease") {
			continue
		}
		out = append(out, j)
		o := owned{b.Group, b.Partition, b.Ownership}
		if s, ok := lowest[o]; !ok || b.Sequence < s {
			lowest[o] = b.Sequence
		}
	}
	for _, j := range out {
		d := &h.Deliveries[j]
		d.Spared = d.Sequence > lowest[owned{d.Group, d.Partition, d.Ownership}]
	}
}

func (l *leases) find(property string, at clock.Instant, format string, args ...any) {
	l.w.judge.findings = append(l.w.judge.findings, checker.Finding{Property: property, At: checker.Time(at), What: fmt.Sprintf(format, args...)})
}

// handed names a message of a group, and what followed a change of the group.
type handed struct {
	group     string
	partition checker.Partition
	sequence  uint64
	after     int
}

// owed is what a message waits for.
type owed struct {
	due         clock.Instant
	wait        clock.Duration
	delivery    uint64
	retries     int
	incarnation int
}

// judgeBackoffs holds every delivery against the NACKs that were answered OK
// before it: each says when the message may go out again at the earliest.
func (l *leases) judgeBackoffs(h *checker.History) {
	type event struct {
		id     uint64
		settle bool
		index  int
	}
	var events []event
	for i := range h.Deliveries {
		events = append(events, event{h.Deliveries[i].DeliveryID, false, i})
	}
	for i := range h.Settles {
		if s := &h.Settles[i]; s.Outcome == checker.OK && (s.Kind == checker.Retry || s.Kind == checker.Release) {
			events = append(events, event{s.DeliveryID, true, i})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.id, b.id) })
	owes := map[handed]*owed{}
	for _, e := range events {
		if e.settle {
			s := &h.Settles[e.index]
			k := handed{s.Group, s.Partition, s.Sequence, h.Generation(s.Group, s.Partition, s.Ownership)}
			o := owes[k]
			if o == nil {
				o = &owed{}
				owes[k] = o
			}
			a, ok := l.asked[s.DeliveryID]
			if !ok {
				continue
			}
			wait := a.delay
			if s.Kind == checker.Retry {
				if o.retries++; wait == 0 {
					wait = l.backoff(o.retries)
				}
			}
			o.due, o.wait, o.delivery, o.incarnation = a.uptime.Add(wait-rounding), wait, s.DeliveryID, a.incarnation
			continue
		}
		d := &h.Deliveries[e.index]
		o := owes[handed{d.Group, d.Partition, d.Sequence, h.Generation(d.Group, d.Partition, d.Ownership)}]
		if o == nil || o.delivery == 0 || d.DeliveryID <= o.delivery {
			continue
		}
		if out, ok := l.out[d.DeliveryID]; ok && out.uptime < o.due {
			l.find(PropertyBackoff, clock.Instant(d.At), "group %s, %v: delivery %x of sequence %d was given back for %d ms at least and went out again %d ms too early, as %x",
				d.Group, d.Partition, o.delivery, d.Sequence, o.wait.Millis(), o.due.Sub(out.uptime).Millis(), d.DeliveryID)
		} else if ok && o.incarnation < out.incarnation && o.wait > 0 {
			l.w.marks.Mark("sim.backoff_over_restart")
		}
	}
}

package sim

import (
	"fmt"

	"github.com/mortarmq/mortarmq/checker"
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/sim/prng"
	"github.com/mortarmq/mortarmq/sim/simnet"
	"github.com/mortarmq/mortarmq/wire"
)

// raw is a client without a client library: it speaks frames, repeats what it
// likes, and asks for what it should not. What it is told is held against what
// it asked for.
type raw struct {
	w    *world
	id   int
	rand *prng.Rand
	net  *simnet.Host
	spec Event

	life     uint64
	alive    bool
	dials    uint64
	conn     net.ConnID // 0 without one
	phase    rawPhase
	reader   wire.FrameReader
	sendBuf  []byte
	events   []net.Event
	fifo     []rawRequest
	work     []rawWork
	nextAt   clock.Instant // the next thing that it does by itself
	deafTill clock.Instant
	restTill clock.Instant // after a refusal that asks to back off
	quiet    clock.Instant // since when nothing was answered
	leaving  bool

	topic  uint16
	lanes  []rawLane
	sub    rawSub
	acked  []rawDelivery // some that were settled, for late repeats
	stale  []rawDelivery // some whose partition was revoked before they were answered
	nursed []nursed      // that it holds for longer than a lease
	script *script       // does what the plan says alone, when set
}

type rawPhase uint8

const (
	rawOff rawPhase = iota
	rawDialing
	rawConnecting
	rawOpen
)

// rawRequest is one that waits for its answer.
type rawRequest struct {
	op    wire.Op
	index int // of the history's Publish or Settle, -1 without
	lane  int
	want  wire.Code // the refusal that is right; CodeOK: no refusal is wanted
	also  wire.Code // another one that is right
	step  *step     // of a script: it knows what is right
	// PROGRESS: the delivery, and when it was asked for, in the node's uptime.
	renews uint64
	uptime clock.Instant
}

// rawWork is what is left of a raw event: n actions, of which odd permille are
// not what a good client does.
type rawWork struct {
	left, odd int64
	rand      *prng.Rand
}

// rawLane is a producer's sequence in one partition.
type rawLane struct {
	producer uint64
	next     uint64    // sequence to publish next
	sent     []rawSent // by sequence, from 1
	inFlight int
	rewind   bool // after a refusal: wait until nothing is in flight
}

type rawSent struct {
	key, value  []byte
	payload     uint64
	ok          bool
	incarnation int // of the node, when it was first sent
}

// newRaw makes the process that a client event with kind=raw asks for: topic=,
// group=.
func newRaw(w *world, id int, e *Event) *raw {
	r := &raw{w: w, id: id, rand: prng.New(e.Seed), net: w.net.Host(fmt.Sprintf("client%d", id)), spec: *e, alive: true, nextAt: w.now}
	if e.Int("kind", 0) == clientMember {
		r.script = &script{}
	}
	return r
}

func (r *raw) place() *simnet.Host { return r.net }

func (r *raw) due() clock.Instant {
	if !r.alive {
		return clock.Never
	}
	at := r.nextAt
	if r.net.Pending() {
		at = min(at, r.w.now)
	}
	return max(at, r.deafTill)
}

// turn takes in what came and does what is due.
func (r *raw) turn() {
	r.events = r.net.Poll(r.events[:0], 64<<10)
	for i := range r.events {
		r.onEvent(&r.events[i])
		if r.w.stopped {
			return
		}
	}
	if r.nextAt <= r.w.now {
		r.nextAt = r.w.now.Add(clock.Duration(r.rand.Range(int64(100*clock.Microsecond), int64(3*clock.Millisecond))))
		r.act()
	}
	r.flush()
	if r.script != nil && r.script.idle(r) {
		r.nextAt = max(r.nextAt, min(r.w.now.Add(clock.Second), r.script.beatAt))
	} else if r.idle() {
		r.nextAt = r.w.now.Add(100 * clock.Millisecond)
	}
}

// idle says whether it has nothing to do but to keep its connection.
func (r *raw) idle() bool {
	return r.phase == rawOpen && len(r.work) == 0 && !r.w.calm && len(r.sub.held) == 0 && len(r.nursed) == 0 && r.script == nil
}

func (r *raw) onEvent(e *net.Event) {
	if e.Conn != r.conn || r.conn == 0 {
		return
	}
	switch e.Kind {
	case net.EventOpened:
		r.phase = rawConnecting
		m := wire.Connect{ProtocolVersion: wire.Version}
		if r.w.plan.Knob("tokens") != 0 {
			m.Token = []byte(token)
		}
		r.sendBuf = m.Append(r.sendBuf)
		r.ask(rawRequest{op: wire.OpConnect, index: -1})
	case net.EventBytes:
		r.reader.Feed(e.Data)
		for r.conn == e.Conn {
			f, ok, err := r.reader.Next()
			if err != nil {
				r.w.finding(PropertyProtocol, "raw client %d was sent no frame: %v", r.id, err)
				return
			}
			if !ok {
				break
			}
			r.onFrame(f)
			if r.script != nil {
				r.nextAt = r.w.now
			}
		}
	case net.EventClosed:
		r.lost()
	}
}

// lost is the end of the connection: what was unanswered stays unknown.
func (r *raw) lost() {
	r.conn, r.phase = 0, rawOff
	r.reader = wire.FrameReader{}
	r.fifo = r.fifo[:0]
	r.sub, r.nursed = rawSub{}, nil
	for i := range r.lanes {
		l := &r.lanes[i]
		l.inFlight, l.rewind = 0, false
		l.next = l.firstUnknown()
	}
	r.nextAt = r.w.now.Add(clock.Duration(r.rand.Range(int64(clock.Millisecond), int64(100*clock.Millisecond))))
}

// firstUnknown is the lowest sequence that was not acknowledged: from there on
// everything is sent again, under the same sequences.
func (l *rawLane) firstUnknown() uint64 {
	for i := range l.sent {
		if !l.sent[i].ok {
			return uint64(i + 1)
		}
	}
	return uint64(len(l.sent) + 1)
}

// act does one thing, or a few.
func (r *raw) act() {
	switch r.phase {
	case rawOff:
		r.dial()
		return
	case rawDialing, rawConnecting:
		if r.w.now > r.quiet.Add(5*clock.Second) {
			r.abort()
		}
		return
	case rawOpen:
	}
	if len(r.fifo) > 0 && r.w.now > r.quiet.Add(20*clock.Second) {
		r.abort()
		return
	}
	if len(r.lanes) == 0 {
		r.begin()
	}
	if r.script != nil {
		r.script.act(r)
		return
	}
	if len(r.fifo) >= 24 || r.w.now < r.restTill {
		return
	}
	r.member()
	if r.w.calm {
		r.finish()
		return
	}
	if len(r.work) == 0 {
		if r.rand.Bool(50) {
			r.ping()
		}
		return
	}
	w := &r.work[0]
	for range 1 + w.rand.Intn(4) {
		if w.left == 0 || len(r.fifo) >= 24 {
			break
		}
		w.left--
		if w.rand.Bool(int(w.odd)) {
			r.odd(w.rand)
		} else {
			r.publishNext(w.rand)
		}
	}
	if w.left == 0 {
		r.work = r.work[1:]
	}
}

func (r *raw) dial() {
	if !r.w.ready || r.leaving {
		return
	}
	r.dials++
	r.conn, r.phase, r.quiet = net.ConnID(r.life<<32|r.dials), rawDialing, r.w.now
	r.net.Submit([]net.Request{{Kind: net.RequestDial, Conn: r.conn, Addr: nodeAddr}})
}

func (r *raw) abort() {
	r.net.Submit([]net.Request{{Kind: net.RequestAbort, Conn: r.conn}})
	r.lost()
}

// begin sets up its producers: one a partition.
func (r *raw) begin() {
	t := int(r.spec.Int("topic", 0))
	r.topic = r.w.admin.topicID(t) + uint16(r.spec.Int("twin", 0))
	r.lanes = make([]rawLane, r.w.plan.Topics[t].Partitions)
	for i := range r.lanes {
		r.lanes[i] = rawLane{producer: prng.Mix(r.spec.Seed, r.life<<16|uint64(i)) | 1, next: 1}
	}
}

// finish is what is left to do when the storm is over: publish what is not
// known to be there.
func (r *raw) finish() {
	for i := range r.lanes {
		l := &r.lanes[i]
		if !l.rewind && l.next <= uint64(len(l.sent)) && len(r.fifo) < 24 {
			r.sendNext(i)
		}
	}
}

// ask notes that the frame just appended waits for an answer.
func (r *raw) ask(q rawRequest) {
	if len(r.fifo) == 0 {
		r.quiet = r.w.now
	}
	r.w.rec.requests++
	r.fifo = append(r.fifo, q)
}

func (r *raw) flush() {
	if len(r.sendBuf) == 0 {
		return
	}
	if r.conn != 0 {
		r.w.note("raw send", uint64(r.id), uint64(r.conn), sum(r.sendBuf))
		r.net.Submit([]net.Request{{Kind: net.RequestSend, Conn: r.conn, Data: r.sendBuf}})
	}
	r.sendBuf = r.sendBuf[:0]
}

func (r *raw) ping() {
	r.sendBuf = (&wire.Ping{}).Append(r.sendBuf)
	r.ask(rawRequest{op: wire.OpPing, index: -1})
}

func (r *raw) carryOut(e *Event) {
	switch {
	case e.Kind == "step" && r.script != nil:
		r.script.take(e, r.w.now)
		r.nextAt = min(r.nextAt, r.w.now)
	case e.Kind == "raw" && r.script == nil:
		r.work = append(r.work, rawWork{left: e.Int("n", 1), odd: e.Int("odd", 0), rand: prng.New(e.Seed)})
		r.nextAt = min(r.nextAt, r.w.now)
	}
}

func (r *raw) crash(after clock.Duration) {
	if !r.alive {
		return
	}
	r.w.note("raw crash", uint64(r.id))
	r.alive, r.deafTill, r.stale = false, 0, nil
	if r.script != nil {
		r.script.forget()
	}
	r.lost()
	r.net.Crash(simnet.Kill)
	r.w.after(after, func() {
		if r.leaving {
			return
		}
		r.alive = true
		r.life++
		r.net.Restart()
		r.nextAt = r.w.now
		if r.rand.Bool(500) {
			r.lanes = nil // it remembers nothing: other producers
		}
	})
}

func (r *raw) stall(until clock.Instant) { r.deafTill = until }

func (r *raw) calm() {
	r.deafTill, r.work = 0, nil
	r.nextAt = r.w.now
	if r.script == nil {
		return
	}
	if s := r.script.open(); s != "" {
		r.w.finding(PropertyExpectation, "member %d never came to a step: %s", r.id, s)
	}
	r.script.left = false
}

func (r *raw) busy() string {
	if !r.alive {
		return fmt.Sprintf("raw client %d is down", r.id)
	}
	for i := range r.lanes {
		if l := &r.lanes[i]; l.firstUnknown() <= uint64(len(l.sent)) {
			return fmt.Sprintf("raw client %d waits for sequence %d of partition %d", r.id, l.firstUnknown(), i)
		}
	}
	return ""
}

func (r *raw) leave() {
	r.leaving = true
	if r.conn != 0 {
		r.net.Submit([]net.Request{{Kind: net.RequestClose, Conn: r.conn}})
		r.conn, r.phase = 0, rawOff
	}
	r.alive = false
}

func (r *raw) partition(lane int) checker.Partition {
	return checker.Partition{Topic: r.topic, Partition: uint16(lane)}
}

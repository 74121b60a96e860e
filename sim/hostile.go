package sim

import (
	"fmt"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/sim/prng"
	"github.com/mortarmq/mortarmq/sim/simnet"
	"github.com/mortarmq/mortarmq/wire"
)

// hostile is a connection that sends what no client should: once, then it waits
// to be thrown out. The broker may answer in frames, must not fall over, and
// must close where the protocol says so.
type hostile struct {
	nobody
	w      *world
	id     int
	rand   *prng.Rand
	net    *simnet.Host
	events []net.Event
	reader wire.FrameReader
	nextAt clock.Instant
	phase  int // 0: to dial, 1: dialling, 2: sent
	rest   []byte
	gone   bool
	must   bool          // the broker must close
	floods bool          // it floods the topic that it declares
	by     clock.Instant // until then
}

func (w *world) addHostiles(e *Event) {
	r := prng.New(e.Seed)
	for range min(e.Int("n", 1), 64) {
		w.hostiles++
		h := &hostile{w: w, id: w.hostiles, rand: prng.New(r.Uint64()), net: w.net.Host(fmt.Sprintf("hostile%d", w.hostiles)),
			nextAt: w.now.Add(clock.Duration(r.Range(0, int64(20*clock.Millisecond)))), by: clock.Never}
		w.others = append(w.others, h)
	}
}

func (h *hostile) due() clock.Instant {
	if h.gone {
		return clock.Never
	}
	if h.net.Pending() {
		return min(h.nextAt, h.w.now)
	}
	return h.nextAt
}

func (h *hostile) turn() {
	h.events = h.net.Poll(h.events[:0], 64<<10)
	for i := range h.events {
		h.onEvent(&h.events[i])
	}
	if h.gone || h.nextAt > h.w.now {
		return
	}
	switch {
	case h.phase == 0:
		h.phase = 1
		h.nextAt = clock.Never
		h.net.Submit([]net.Request{{Kind: net.RequestDial, Conn: 1, Addr: nodeAddr}})
	case len(h.rest) > 0: // a trickle
		h.send(h.rest[:1])
		h.rest = h.rest[1:]
		h.nextAt = h.w.now.Add(clock.Duration(h.rand.Range(int64(clock.Millisecond), int64(500*clock.Millisecond))))
	default:
		// A machine that lost its power tells nobody: only who sends hears of it.
		h.nextAt = h.w.now.Add(20 * clock.Second)
		h.send([]byte{0})
		if h.rand.Bool(300) && !h.must {
			h.net.Submit([]net.Request{{Kind: net.RequestAbort, Conn: 1}})
			h.gone = true
		}
	}
}

func (h *hostile) onEvent(e *net.Event) {
	switch e.Kind {
	case net.EventOpened:
		h.phase = 2
		h.attack()
	case net.EventBytes:
		h.reader.Feed(e.Data)
		for {
			f, ok, err := h.reader.Next()
			if err != nil || ok && !f.Op.FromServer() {
				h.w.finding(PropertyProtocol, "hostile client %d was sent no frame of a broker: %v %v", h.id, f.Op, err)
				return
			}
			if !ok {
				return
			}
			if h.floods {
				h.flood(f)
			}
		}
	case net.EventClosed:
		h.gone = true
	}
}

func (h *hostile) send(b []byte) {
	h.w.note("hostile send", uint64(h.id), sum(b))
	h.net.Submit([]net.Request{{Kind: net.RequestSend, Conn: 1, Data: b}})
}

// attack sends one nasty thing.
func (h *hostile) attack() {
	r := h.rand
	connect := (&wire.Connect{ProtocolVersion: wire.Version, Token: h.token()}).Append(nil)
	var b []byte
	switch r.Intn(13) {
	case 0:
		b = make([]byte, 1+r.Intn(300))
		r.Fill(b)
	case 1:
		b, h.must = []byte{0, 0, 0, 0, 1}, true
	case 2:
		b, h.must = []byte{1, 0, 0, 1, 3}, true
	case 3: // behind CONNECT
		b, h.must = append(connect, 0xFF, 0xFF, 0xFF, 0xFF, 3), true
	case 4:
		b, h.must = append(connect, 0, 0, 0, 1, 0x55), true
	case 5: // MSG from a client
		b, h.must = append(connect, (&wire.Msg{Attempt: 1}).Append(nil)...), true
	case 6: // half a frame, for ever
		b, h.must = append(connect, 0, 0, 1, 0, 3, 1, 2), true
	case 7: // declares 16 MiB and trickles
		b = append(connect, 1, 0, 0, 0, 3)
		h.rest = make([]byte, 5+r.Intn(20))
	case 8:
		b, h.must = (&wire.Pub{TopicID: 1, Value: []byte("x")}).Append(nil), true
	case 9:
		b, h.must = append(connect, connect...), true
	case 10: // a version that nobody speaks
		b, h.must = (&wire.Connect{ProtocolVersion: 99, Token: h.token()}).Append(nil), true
	case 11: // more at once than may be unanswered
		d := wire.Declare{Topic: fmt.Appendf(nil, "flood%d", h.id), PartitionCount: 1}
		b, h.floods = d.Append(connect), h.w.ready
	default: // a payload with one byte broken
		b = (&wire.Sub{Group: []byte("hostile"), TopicID: 60_000, Partition: wire.PartitionAny}).Append(connect)
		b[len(connect)+5+r.Intn(len(b)-len(connect)-5)] ^= byte(1 + r.Intn(255))
	}
	n := len(b)
	if r.Bool(400) {
		n = r.Intn(len(b) + 1)
	}
	if n > 0 {
		h.send(b[:n])
	}
	if n < len(b) {
		h.rest = append(append([]byte(nil), b[n:]...), h.rest...)
		h.nextAt = h.w.now.Add(clock.Duration(r.Range(0, int64(50*clock.Millisecond))))
		return
	}
	h.nextAt = h.w.now.Add(clock.Duration(r.Range(int64(clock.Millisecond), int64(3*clock.Second))))
}

// flood publishes more than a connection may have unanswered, as soon as it knows
// where to.
func (h *hostile) flood(f wire.Frame) {
	var ok wire.OK
	var declared wire.DeclareResult
	if f.Op != wire.OpOK || ok.Decode(f.Payload) != nil || ok.RequestOp != wire.OpDeclare || declared.Decode(ok.Result) != nil {
		return
	}
	h.floods = false
	var b []byte
	for range wire.MaxUnansweredRequests * 2 {
		b = (&wire.Pub{TopicID: declared.TopicID, Value: []byte("one of very many")}).Append(b)
	}
	h.send(b)
}

func (h *hostile) token() []byte {
	if h.w.plan.Knob("tokens") != 0 {
		return []byte(token)
	}
	return nil
}

func (h *hostile) place() *simnet.Host { return h.net }

// busy waits for the broker to throw it out, where it must.
func (h *hostile) busy() string {
	if h.must && !h.gone {
		return fmt.Sprintf("hostile client %d was not thrown out", h.id)
	}
	return ""
}

func (h *hostile) leave() {
	if !h.gone {
		h.gone = true
		h.net.Submit([]net.Request{{Kind: net.RequestAbort, Conn: 1}})
	}
}

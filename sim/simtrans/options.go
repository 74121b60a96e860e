package simtrans

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/sim/prng"
	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// Cutter is what an endpoint needs of a wire.Stream.
type Cutter interface {
	Space() []byte
	Filled(n int)
	Next(p *wire.Packet) (bool, error)
	Buffered() int
}

// Table is what an endpoint needs of a wire.Pairing.
type Table interface {
	Len() int
	Unmatched() uint64
	OneWay() wire.MessageID
	ContinueAfter(last wire.MessageID)
	Begin(deadline wire.Instant, tag Tag) (wire.MessageID, error)
	Match(id wire.MessageID) (Tag, bool)
	Cancel(id wire.MessageID) (Tag, bool)
	Deadline() (wire.Instant, bool)
	Expire(now wire.Instant, out []wire.Ended[Tag]) []wire.Ended[Tag]
	Reset(out []wire.Ended[Tag]) []wire.Ended[Tag]
}

// Parts makes what endpoints are made of. Tests put wrong ones in place of those of
// wire/msgtrans, to see them caught; a nil field stands for the right one.
type Parts struct {
	Cutter func(wire.Framing, wire.Limits) Cutter
	Table  func(pendingMax int) Table
	// KeepOwed makes an endpoint answer on a new connection what was asked on one that
	// has ended.
	KeepOwed bool
}

func (p Parts) withDefaults() Parts {
	if p.Cutter == nil {
		p.Cutter = func(f wire.Framing, l wire.Limits) Cutter { return wire.NewStream(f, l) }
	}
	if p.Table == nil {
		p.Table = func(pendingMax int) Table { return wire.NewPairing[Tag](pendingMax) }
	}
	return p
}

// Options of a run.
type Options struct {
	Seed uint64
	// Storm is how much virtual time things go wrong for; default 40 s.
	Storm clock.Duration
	Parts Parts
}

// What endpoints hold themselves to.
const (
	idleMax       = 15 * clock.Second // without a whole packet: the connection is given up
	heartbeat     = 4 * clock.Second
	backoffMax    = clock.Second
	patienceMax   = 5 * clock.Second // of a request
	sendBytesMax  = 256 << 10        // queued; nothing is begun above it
	packetsAtOnce = 8                // at most, between two looks at what is queued
	servers       = 2
	clientsMax    = 3
	pendingMaxMax = 40
)

// knobs are what a seed draws before it runs. Chances are in permille; each is 0 in a
// good share of seeds.
type knobs struct {
	clients    int
	pendingMax int
	owedMax    int            // requests accepted and not answered: reading stops there
	actEvery   clock.Duration // on average
	// of answers
	late, double, never, foreign int
	compress                     int
	// weights of misbehaviour and of faults, among the actions
	cancel, age, close, abort                   int
	damage, flip, bomb, half                    int
	cut, split, reset, silence, kill, off, slow int
}

func drawKnobs(r *prng.Rand) knobs {
	some := func(max int) int {
		if r.Bool(350) {
			return 0
		}
		return 1 + r.Intn(max)
	}
	return knobs{
		clients:    1 + r.Intn(clientsMax),
		pendingMax: 1 + r.Intn(pendingMaxMax),
		owedMax:    1 + r.Intn(pendingMaxMax),
		actEvery:   clock.Duration(r.Range(int64(2*clock.Millisecond), int64(60*clock.Millisecond))),
		late:       some(300), double: some(300), never: some(200), foreign: some(200),
		compress: some(700),
		cancel:   some(60), age: some(15), close: some(6), abort: some(6),
		damage: some(6), flip: some(4), bomb: some(3), half: some(5),
		cut: some(5), split: some(4), reset: some(6), silence: some(5), kill: some(3), off: some(3), slow: some(4),
	}
}

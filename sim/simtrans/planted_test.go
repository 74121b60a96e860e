package simtrans

import (
	"slices"
	"testing"

	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// planted are wrong parts of an endpoint, and the properties that have to catch each.
var planted = []struct {
	name     string
	caughtBy []string
	parts    Parts
}{
	{"a table that is not cleared with its connection", []string{"once"}, table(func(p *wire.Pairing[Tag]) Table { return uncleared{p} })},
	{"a table that rejects and keeps", []string{"once", "pairing", "own"}, table(func(p *wire.Pairing[Tag]) Table { return keeping{p} })},
	{"a second answer is delivered", []string{"pairing"}, table(func(p *wire.Pairing[Tag]) Table { return &repeating{Pairing: p} })},
	{"a foreign answer is delivered", []string{"pairing", "own"}, table(func(p *wire.Pairing[Tag]) Table { return masking{p} })},
	{"id 0 is issued at the wrap", []string{"pairing"}, table(func(p *wire.Pairing[Tag]) Table { return &zero{Pairing: p} })},
	{"a timeout comes late", []string{"time"}, table(func(p *wire.Pairing[Tag]) Table { return late{p} })},
	{"a timeout is forgotten", []string{"once"}, table(func(p *wire.Pairing[Tag]) Table { return &losing{Pairing: p} })},
	{"an answer to a connection's request goes to the next connection", []string{"own"}, Parts{KeepOwed: true}},
	{"a cutter off by one", []string{"own", "damage"}, cutter(func(s *wire.Stream) Cutter { return short{s} })},
	{"a cutter that loses a full buffer's last byte", []string{"own", "damage", "order"}, cutter(func(s *wire.Stream) Cutter { return &full{Stream: s} })},
	{"a cutter that goes on after damage", []string{"damage", "life", "order"}, cutter(func(s *wire.Stream) Cutter { return &forgiving{s} })},
	{"a cutter that reserves a lot", []string{"memory"}, cutter(func(s *wire.Stream) Cutter { return &greedy{Stream: s} })},
	{"a packet is given twice", []string{"order", "pairing"}, cutter(func(s *wire.Stream) Cutter { return &twice{Stream: s} })},
}

func table(f func(*wire.Pairing[Tag]) Table) Parts {
	return Parts{Table: func(n int) Table { return f(wire.NewPairing[Tag](n)) }}
}

func cutter(f func(*wire.Stream) Cutter) Parts {
	return Parts{Cutter: func(fr wire.Framing, l wire.Limits) Cutter { return f(wire.NewStream(fr, l)) }}
}

// Goal: the simulation sees. Each wrong part is caught within 20 seeds, by a property
// that should.
func TestPlantedBugsAreCaught(t *testing.T) {
	for _, p := range planted {
		t.Run(p.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 20; seed++ {
				r := Run(Options{Seed: seed, Parts: p.parts})
				if r.Violation == nil {
					continue
				}
				if !slices.Contains(p.caughtBy, r.Violation.Property) {
					t.Fatalf("seed %d: caught by %v", seed, r.Violation)
				}
				t.Logf("seed %d: %v", seed, r.Violation)
				return
			}
			t.Fatal("not caught")
		})
	}
}

// uncleared begins its ids anew and keeps what waited.
type uncleared struct{ *wire.Pairing[Tag] }

func (u uncleared) Reset(out []wire.Ended[Tag]) []wire.Ended[Tag] {
	u.ContinueAfter(0)
	return out
}

// keeping rejects what waited and goes on waiting for it.
type keeping struct{ *wire.Pairing[Tag] }

func (k keeping) Reset(out []wire.Ended[Tag]) []wire.Ended[Tag] {
	out = k.Pairing.Reset(out)
	for _, r := range out {
		_, _ = k.Begin(1<<60, r.Value)
	}
	k.ContinueAfter(0)
	return out
}

// repeating finds the last request that was answered once more.
type repeating struct {
	*wire.Pairing[Tag]
	id  wire.MessageID
	tag Tag
}

func (r *repeating) Match(id wire.MessageID) (Tag, bool) {
	tag, ok := r.Pairing.Match(id)
	if ok {
		r.id, r.tag = id, tag
	}
	if !ok && r.id == id && id != 0 {
		return r.tag, true
	}
	return tag, ok
}

// masking looks at some bits of an id only.
type masking struct{ *wire.Pairing[Tag] }

func (m masking) Match(id wire.MessageID) (Tag, bool) { return m.Pairing.Match(id &^ (1 << 31)) }

// zero issues id 0 after the last one.
type zero struct {
	*wire.Pairing[Tag]
	before wire.MessageID
}

func (z *zero) ContinueAfter(last wire.MessageID) {
	z.before = last
	z.Pairing.ContinueAfter(last)
}

func (z *zero) OneWay() wire.MessageID {
	id := z.Pairing.OneWay()
	if id < z.before {
		id = 0
	}
	z.before = id
	return id
}

type late struct{ *wire.Pairing[Tag] }

func (l late) Expire(now wire.Instant, out []wire.Ended[Tag]) []wire.Ended[Tag] {
	return l.Pairing.Expire(now-1, out)
}

// losing forgets every tenth.
type losing struct {
	*wire.Pairing[Tag]
	count int
}

func (l *losing) Expire(now wire.Instant, out []wire.Ended[Tag]) []wire.Ended[Tag] {
	if out = l.Pairing.Expire(now, out); len(out) > 0 {
		if l.count++; l.count%10 == 0 {
			return out[:len(out)-1]
		}
	}
	return out
}

// short leaves out a payload's last byte.
type short struct{ *wire.Stream }

func (s short) Next(p *wire.Packet) (bool, error) {
	ok, err := s.Stream.Next(p)
	if n := len(p.Payload); ok && n > 0 && p.Compression == wire.None {
		p.Payload = p.Payload[:n-1]
	}
	return ok, err
}

type full struct {
	*wire.Stream
	space int
}

func (f *full) Space() []byte {
	b := f.Stream.Space()
	f.space = len(b)
	return b
}

func (f *full) Filled(n int) {
	if n == f.space && n > 1 {
		n--
	}
	f.Stream.Filled(n)
}

// forgiving throws away what it cannot read, and goes on behind it.
type forgiving struct{ *wire.Stream }

func (f *forgiving) Next(p *wire.Packet) (bool, error) {
	ok, err := f.Stream.Next(p)
	if err != nil {
		f.Stream = wire.NewStream(wire.Bare, wire.Limits{})
		return false, nil
	}
	return ok, err
}

// greedy reads into a buffer as long as any packet.
type greedy struct {
	*wire.Stream
	buf []byte
}

func (g *greedy) Space() []byte {
	if g.buf == nil {
		g.buf = make([]byte, 1<<20)
	}
	return g.buf
}

func (g *greedy) Filled(n int) {
	for b := g.buf[:n]; len(b) > 0; {
		m := copy(g.Stream.Space(), b)
		g.Stream.Filled(m)
		b = b[m:]
	}
}

// twice gives every hundredth packet again.
type twice struct {
	*wire.Stream
	count int
	last  wire.Packet
}

func (w *twice) Next(p *wire.Packet) (bool, error) {
	if w.count++; w.count%100 == 0 && w.last.Ext != nil {
		*p = w.last
		return true, nil
	}
	ok, err := w.Stream.Next(p)
	if ok {
		w.last = *p
		w.last.Ext, w.last.Payload = slices.Clone(p.Ext), slices.Clone(p.Payload)
	}
	return ok, err
}

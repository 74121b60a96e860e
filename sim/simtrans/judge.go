package simtrans

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/mortarmq/mortarmq/clock"
	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// ending says how a request has ended.
type ending uint8

const (
	pending ending = iota
	answered
	timedOut
	cancelled
	rejected // with its connection
	died     // with its process
)

var endings = [...]string{"pending", "answered", "timed out", "cancelled", "rejected", "died with its process"}

// asked is a request as the judge knows it.
type asked struct {
	on       *sworn
	id       wire.MessageID
	deadline clock.Instant
	end      ending
	laps     int // of the ids of its connection when it began
}

// sworn is one end of a connection as the judge knows it.
type sworn struct {
	serial    int
	host      string
	peer      *sworn // once something of it was accepted
	open      bool   // the endpoint has it
	orderly   bool   // it was closed with everything flushed
	tainted   bool   // bytes of it or its peer were changed where nobody has to notice
	damagedAt int    // the packet that has to end the peer's side; -1 for none
	packets   int    // sent
	taken     int    // accepted
	sent      Tag    // messages sent
	heard     Tag    // messages heard
	last      wire.MessageID
	laps      int
	waiting   map[wire.MessageID]Tag // only looked into
	unmatched uint64
}

// Violation is a property that broke.
type Violation struct {
	Property string // as doc.go names them
	What     string
	At       clock.Instant
}

func (v *Violation) String() string { return fmt.Sprintf("%s at %d ns: %s", v.Property, v.At, v.What) }

// judge holds what the endpoints do against a model of its own.
type judge struct {
	now      clock.Instant
	conns    []*sworn
	asked    []asked // by tag
	broken   *Violation
	hash     rolling
	marks    map[string]int // only looked into
	answered int
}

func newJudge() *judge { return &judge{marks: make(map[string]int)} }

func (j *judge) fail(property, format string, args ...any) {
	if j.broken == nil {
		j.broken = &Violation{Property: property, What: fmt.Sprintf(format, args...), At: j.now}
	}
}

func (j *judge) mark(name string) { j.marks[name]++ }

// opened takes note of a connection's end.
func (j *judge) opened(host string) *sworn {
	s := &sworn{serial: len(j.conns), host: host, open: true, damagedAt: -1, waiting: make(map[wire.MessageID]Tag)}
	j.conns = append(j.conns, s)
	j.hash.add(1, uint64(s.serial))
	return s
}

// issued holds an id that s has given to a request or message against the model.
func (j *judge) issued(s *sworn, id wire.MessageID) {
	want := s.last
	for {
		if want++; want == 0 {
			s.laps++
			j.mark("ids wrapped")
			continue
		}
		if _, taken := s.waiting[want]; !taken {
			break
		}
		j.mark("a pending id was passed over")
	}
	if id != want {
		j.fail("pairing", "conn %d issued id %d instead of %d", s.serial, id, want)
	}
	s.last = want
	j.hash.add(2, uint64(s.serial), uint64(id))
}

// began takes note of a request with the tag that nextTag has given.
func (j *judge) began(s *sworn, tag Tag, id wire.MessageID, deadline clock.Instant) {
	j.issued(s, id)
	if int(tag) != len(j.asked) {
		j.fail("once", "request %d began out of turn", tag)
		return
	}
	j.asked = append(j.asked, asked{on: s, id: id, deadline: deadline, laps: s.laps})
	s.waiting[id] = tag
}

func (j *judge) nextTag() Tag { return Tag(len(j.asked)) }

// ended takes note of a request's end, whichever.
func (j *judge) ended(s *sworn, tag Tag, id wire.MessageID, how ending) {
	j.hash.add(3, uint64(tag), uint64(how))
	if int(tag) >= len(j.asked) {
		j.fail("once", "request %d ended and never began", tag)
		return
	}
	a := &j.asked[tag]
	switch {
	case a.end != pending:
		j.fail("once", "request %d was %s and then %s", tag, endings[a.end], endings[how])
	case a.on != s:
		j.fail("own", "request %d of conn %d was %s on conn %d", tag, a.on.serial, endings[how], s.serial)
	case a.id != id:
		j.fail("own", "request %d was %s under id %d, its own is %d", tag, endings[how], id, a.id)
	case how == timedOut && a.deadline > j.now:
		j.fail("time", "request %d timed out %d ns early", tag, a.deadline.Sub(j.now))
	}
	a.end = how
	delete(a.on.waiting, a.id)
	if how == answered {
		j.answered++
	}
	j.mark("a request " + endings[how])
}

// response holds what Match said of a Response's id against the model, before the
// request is ended.
func (j *judge) response(s *sworn, id wire.MessageID, tag Tag, matched bool) {
	want, waits := s.waiting[id]
	switch {
	case matched && !waits:
		j.fail("pairing", "conn %d: an answer under id %d, for which nobody waits, went to request %d", s.serial, id, tag)
	case !matched && waits:
		j.fail("pairing", "conn %d: the answer to request %d under id %d was dropped", s.serial, want, id)
	case matched && tag != want:
		j.fail("own", "conn %d: the answer under id %d went to request %d instead of %d", s.serial, id, tag, want)
	}
	if !matched {
		s.unmatched++
		j.mark("an answer was dropped")
	}
	j.hash.add(4, uint64(s.serial), uint64(id), uint64(tag))
}

// accepted takes note of a packet that s has accepted, decompressed, and returns its
// identity; false if it is not to be believed.
func (j *judge) accepted(s *sworn, p *wire.Packet, payload []byte) (identity, bool) {
	s.taken++
	j.hash.add(5, uint64(s.serial), uint64(p.ID), uint64(len(payload)))
	if s.tainted || s.peer != nil && s.peer.tainted {
		return identity{}, false
	}
	i, ok := identify(p)
	if !ok || i.serial < 0 || i.serial >= len(j.conns) || i.serial == s.serial {
		j.fail("order", "conn %d accepted a packet that nobody sent", s.serial)
		return identity{}, false
	}
	from := j.conns[i.serial]
	if s.peer == nil && from.peer == nil {
		s.peer, from.peer = from, s
	}
	if s.peer != from {
		j.fail("own", "conn %d accepted a packet of conn %d, not its peer's", s.serial, from.serial)
		return identity{}, false
	}
	if i.kind == kindDamaged || from.damagedAt >= 0 && s.taken > from.damagedAt {
		j.fail("damage", "conn %d accepted packet %d of conn %d, packet %d was damaged", s.serial, s.taken, from.serial, from.damagedAt)
	}
	if s.taken > from.packets {
		j.fail("order", "conn %d accepted %d packets of %d", s.serial, s.taken, from.packets)
	}
	if !bytes.Equal(i.ext(), p.Ext) || !bytes.Equal(i.payload(), payload) || p.Biz != i.biz() || p.Flags&wire.HasRouteTag == 0 {
		j.fail("own", "conn %d got other content than conn %d sent: %c %d", s.serial, from.serial, i.kind, i.tag)
	}
	return i, j.broken == nil
}

// message takes note of a message that was heard.
func (j *judge) message(s *sworn, i identity) {
	if i.kind != kindMessage || i.tag != s.heard {
		j.fail("order", "conn %d heard message %d (%c) instead of %d", s.serial, i.tag, i.kind, s.heard)
	}
	s.heard++
}

// answer takes note of the content that a request was answered with.
func (j *judge) answer(s *sworn, i identity, tag Tag) {
	if i.kind == kindAnswer && i.tag == tag {
		return
	}
	// After 2^32 ids an old answer and a new request cannot be told apart (section 10).
	if i.kind == kindAnswer && int(i.tag) < len(j.asked) {
		if old := &j.asked[i.tag]; old.on == s && old.id == j.asked[tag].id && old.laps < j.asked[tag].laps {
			j.mark("an answer of the ids' last lap")
			return
		}
	}
	j.fail("own", "conn %d: request %d got the answer of %d (%c)", s.serial, tag, i.tag, i.kind)
}

// closed takes note of the end of an end; everything of it must have ended. whole says
// that the peer's stream has come to its end.
func (j *judge) closed(s *sworn, whole bool) {
	j.hash.add(6, uint64(s.serial))
	s.open = false
	if len(s.waiting) > 0 {
		j.fail("once", "conn %d ended with %d requests pending", s.serial, len(s.waiting))
	}
	if p := s.peer; whole && p != nil && p.orderly && !p.tainted && p.damagedAt < 0 && s.heard != p.sent {
		j.fail("order", "conn %d heard %d of %d messages of a peer that closed in order", s.serial, s.heard, p.sent)
	}
}

// crashed takes note of the death of a process: what it had asked dies with it.
func (j *judge) crashed(host string) {
	for _, s := range j.conns {
		if s.host != host {
			continue
		}
		s.orderly = false
		if !s.open {
			continue
		}
		s.open = false
		for tag := range j.asked {
			if a := &j.asked[tag]; a.on == s && a.end == pending {
				j.ended(s, Tag(tag), a.id, died)
			}
		}
	}
}

// refusal takes note of the error that a connection was closed for.
func (j *judge) refusal(s *sworn, err error) {
	known := false
	for _, e := range []error{
		wire.ErrShort, wire.ErrLong, wire.ErrVersion, wire.ErrCompression, wire.ErrType, wire.ErrFragmented,
		wire.ErrPacketTooLong, wire.ErrExtTooLong, wire.ErrPayloadTooLong, wire.ErrCorrupt,
	} {
		if errors.Is(err, e) {
			known = true
			j.mark("refused: " + e.Error())
		}
	}
	if !known {
		j.fail("damage", "conn %d was closed for an unknown error: %v", s.serial, err)
	}
	if p := s.peer; p != nil && !p.tainted && p.damagedAt != s.taken {
		j.fail("damage", "conn %d refused packet %d of conn %d, which is sound: %v", s.serial, s.taken, p.serial, err)
	}
}

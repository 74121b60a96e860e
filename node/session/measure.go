package session

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

// enough says whether what is due reaches min_bytes, or cannot grow any more.
func (s *Sessions) enough(u *sub, p *pull) bool {
	v, g := &s.serving, &s.groups
	b := u.balance()
	count, size := uint32(0), uint64(0)
	limit := min(uint32(p.maxMsgs), b.count)
	add := func(rec *format.Record, found Lookup) bool {
		switch found {
		case LookupHit:
			count++
			size += uint64(len(rec.Key) + len(rec.Value))
		case LookupPending:
			v.reading = true
			return false
		default:
		}
		return count < limit && size < min(uint64(p.minBytes), uint64(p.maxBytes), b.bytes)
	}
	for _, l := range u.lanes {
		ln := g.lanes.at(l)
		if !ln.told || ln.revoking {
			continue
		}
		for _, e := range ln.due {
			en := g.entries.at(e)
			if en.at > int64(v.logNow) {
				if en.at != never {
					v.look = min(v.look, s.instantOf(op.LogMillis(en.at)))
				}
				continue
			}
			rec, found := s.broker.Record(u.topic, ln.part, en.seq)
			if !add(&rec, found) && !v.reading {
				return true
			}
		}
		last := s.view.LastSeq(u.topic, ln.part)
		for seq := ln.next; seq <= last; seq++ {
			rec, found := s.broker.Record(u.topic, ln.part, seq)
			if !add(&rec, found) {
				if !v.reading {
					return true
				}
				break
			}
		}
	}
	p.ready = size
	return false
}

// peek gives the value's size of the message that is next due of a lane.
func (s *Sessions) peek(u *sub, ln *lane) (int, bool) {
	if !ln.told || ln.revoking {
		return 0, false
	}
	seq := ln.next
	if len(ln.due) > 0 {
		if en := s.groups.entries.at(ln.due[0]); en.at <= int64(s.broker.LogTime()) {
			seq = en.seq
		}
	}
	if seq > s.view.LastSeq(u.topic, ln.part) {
		return 0, false
	}
	rec, found := s.broker.Record(u.topic, ln.part, seq)
	return len(rec.Value), found == LookupHit
}

// oversizedFor says that a message beyond the window has held a lane for long
// enough to say so, though others are served; it does that once per such time.
func (s *Sessions) oversizedFor(u *sub, d clock.Duration) bool {
	for _, l := range u.lanes {
		ln := s.groups.lanes.at(l)
		if ln.oversized != 0 && s.now.Sub(ln.oversized) >= d {
			ln.oversized = s.now
			return true
		}
	}
	return false
}

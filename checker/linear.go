package checker

import (
	"cmp"
	"slices"

	"github.com/mortarmq/mortarmq/wire"
)

// The model: an append-only log with dedup. Unknown outcomes are resolved by the
// final log first: a message that is in it was appended at some point after its
// call, one that is not was not. What the log holds at length n is then known,
// so the state is the length and the chained hash of that much of it.
//
// Each operation asks for a point within its interval at which the length lies
// in a range; an append asks for the point at which the length becomes its
// sequence.

// linearOp is one operation of the model.
type linearOp struct {
	append bool
	dedup  bool   // also right when the record is there already
	low    int    // length wanted: at least
	high   int    // and at most
	hash   uint64 // append: the chain after it, by this operation's own payload
	call   Time
	late   bool // just behind call
	ret    Time
	source int // index of the Publish, -1 for a read
	what   string
}

// unbounded is a length that no log has.
const unbounded = 1 << 60

// linear checks the property for one partition: directly, in linear time, and
// then, as a second opinion, with porcupine. It reports whether the budget was
// enough.
func linear(x *index, l *Log, steps int) (found []Finding, conclusive bool) {
	chain := chainOf(l)
	ops := linearOps(x, l, chain)
	found, earliest := direct(x, l, ops)
	if len(found) > 0 {
		return found, true
	}
	ok, conclusive := search(tighten(ops, earliest), chain, steps)
	if !ok && conclusive {
		p := Finding{Property: PropertyLinear}
		return []Finding{finding(p.Property, 0, "%v: no order of %d operations explains what clients were told", l.Partition, len(ops))}, true
	}
	return nil, conclusive
}

func mix(h, v uint64) uint64 {
	h ^= v
	h *= 0x9fb21c651e98df25
	return h ^ h>>31
}

// chainOf gives the chained hash of the log at every length.
func chainOf(l *Log) []uint64 {
	chain := make([]uint64, len(l.Records)+1)
	for i := range l.Records {
		chain[i+1] = mix(chain[i]+1, l.Records[i].Payload)
	}
	return chain
}

// producerAt says where a producer's sequences stand in the log.
type producerAt map[[2]uint64]int

func linearOps(x *index, l *Log, chain []uint64) []linearOp {
	at := map[uint64]int{}
	ids := producerAt{}
	firstOf, lastOf := map[uint64]int{}, map[uint64]uint64{}
	for i := range l.Records {
		r := &l.Records[i]
		if _, ok := at[r.Payload]; ok { // a dead letter that was put back: nobody published it
			continue
		}
		at[r.Payload] = i + 1
		if r.ProducerID != 0 {
			ids[[2]uint64{r.ProducerID, r.ProducerSeq}] = i + 1
			if _, ok := firstOf[r.ProducerID]; !ok {
				firstOf[r.ProducerID] = i + 1
			}
			lastOf[r.ProducerID] = max(lastOf[r.ProducerID], r.ProducerSeq)
		}
	}
	var ops []linearOp
	for i := range x.h.Publishes {
		p := &x.h.Publishes[i]
		if p.Partition != l.Partition {
			continue
		}
		o := linearOp{call: p.Call, ret: p.Return, source: i}
		switch p.Outcome {
		case OK:
			s := int(p.Sequence)
			if s < 1 || s > len(l.Records) {
				continue // a lost write: anomalies.go
			}
			o.append, o.low, o.high, o.what = true, s, s, "PUB's OK"
			o.dedup = p.Deduplicated
			o.hash = mix(chain[s-1]+1, p.Payload)
			if p.Deduplicated && p.Once {
				o.append, o.high, o.what = false, unbounded, "PUB's OK (deduplicated)"
			}
			ops = append(ops, o)
			if p.Commit > p.Sequence {
				ops = append(ops, linearOp{low: int(p.Commit), high: unbounded, call: p.Return, ret: p.Return, source: i, what: "commit_seq"})
			}
		case Unknown:
			// Several unknown repeats of one message: any of them may have done it.
			if s := at[p.Payload]; s > 0 {
				o.append, o.dedup, o.low, o.high, o.what = true, true, s, s, "PUB without answer"
				o.hash = mix(chain[s-1]+1, p.Payload)
				ops = append(ops, o)
			}
		case Refused:
			if low, high, ok := refusal(p, ids, firstOf, lastOf); ok {
				o.low, o.high, o.what = low, high, p.Code.String()
				ops = append(ops, o)
			}
		}
	}
	for i := range x.h.Deliveries {
		d := &x.h.Deliveries[i]
		if d.Partition == l.Partition && d.Sequence <= uint64(len(l.Records)) {
			ops = append(ops, linearOp{low: int(d.Sequence), high: unbounded, call: d.At, ret: d.At, source: -1, what: "MSG"})
		}
	}
	ops = append(withoutIdle(ops), strangers(ops, chain)...)
	slices.SortStableFunc(ops, func(a, b linearOp) int { return cmp.Compare(a.call, b.call) })
	return ops
}

// withoutIdle leaves out the publishes without answer of records that another
// publish is known to have appended: they had no effect.
func withoutIdle(ops []linearOp) []linearOp {
	appended := map[int]bool{}
	for i := range ops {
		if o := &ops[i]; o.append && !o.dedup {
			appended[o.low] = true
		}
	}
	return slices.DeleteFunc(ops, func(o linearOp) bool { return o.append && o.dedup && o.ret == Forever && appended[o.low] })
}

// strangers are appends for the records that no operation accounts for: that
// they are there is for anomalies.go to judge.
func strangers(ops []linearOp, chain []uint64) (more []linearOp) {
	known := make([]bool, len(chain))
	for i := range ops {
		if ops[i].append {
			known[ops[i].low] = true
		}
	}
	for s := 1; s < len(chain); s++ {
		if !known[s] {
			more = append(more, linearOp{append: true, dedup: true, low: s, high: s, hash: chain[s], ret: Forever, source: -1, what: "a record of nobody's"})
		}
	}
	return more
}

// refusal gives the lengths at which a refusal is right; ok is false for codes
// that say nothing of the log.
func refusal(p *Publish, ids producerAt, firstOf map[uint64]int, lastOf map[uint64]uint64) (low, high int, ok bool) {
	if !p.Once || p.ProducerID == 0 || p.ProducerSeq == 0 {
		return 0, 0, false
	}
	first, known := firstOf[p.ProducerID]
	switch p.Code {
	case wire.CodeSeqGap:
		if !known {
			return unbounded, unbounded, true // an unknown producer has no gap
		}
		high = unbounded
		if p.ProducerSeq-1 <= lastOf[p.ProducerID] {
			high = ids[[2]uint64{p.ProducerID, p.ProducerSeq - 1}] - 1
		}
		return first, high, true
	case wire.CodeSeqExpired:
		if p.ProducerSeq+wire.DedupWindow <= lastOf[p.ProducerID] {
			// Below the window from some length on, or unknown before the first.
			return 0, unbounded, true
		}
		if p.ProducerSeq == 1 {
			return unbounded, unbounded, true
		}
		if !known {
			return 0, unbounded, true
		}
		return 0, first - 1, true
	}
	return 0, 0, false
}

// direct decides by intervals. Let p(s) be the point at which the log gets
// length s: p never falls, and every operation bounds it. An append of s puts
// p(s) into its interval; a length of at least s within an interval puts p(s)
// before its end, one of at most s puts p(s+1) after its begin. The bounds can
// be met together exactly when the latest lower bound up to s is not after the
// upper bound of s. It also gives those latest lower bounds.
func direct(x *index, l *Log, ops []linearOp) (found []Finding, earliest []Time) {
	n := len(l.Records)
	lower, upper := make([]Time, n+2), make([]Time, n+2)
	by := make([]int, n+2) // which op set the upper bound
	firstCall := make([]Time, n+2)
	appended := make([]bool, n+2)
	for s := range upper {
		upper[s], by[s], firstCall[s] = Forever, -1, Forever
	}
	limit := func(s int, at Time, i int) {
		if at < upper[s] {
			upper[s], by[s] = at, i
		}
	}
	for i := range ops {
		o := &ops[i]
		if o.append {
			firstCall[o.low] = min(firstCall[o.low], o.call)
			if !o.dedup {
				if appended[o.low] {
					return append(found, opFinding(x, l, o, "another publish was told that it had appended this record")), nil
				}
				appended[o.low] = true
				lower[o.low] = max(lower[o.low], o.call)
			}
			limit(o.low, o.ret, i)
			continue
		}
		if o.low > n || o.low > o.high {
			return append(found, opFinding(x, l, o, "the log never had what this says")), nil
		}
		if o.low > 0 {
			limit(o.low, o.ret, i)
		}
		if o.high < n {
			lower[o.high+1] = max(lower[o.high+1], o.call)
		}
	}
	earliest = make([]Time, n+2)
	var latest Time
	for s := 1; s <= n; s++ {
		if firstCall[s] != Forever {
			lower[s] = max(lower[s], firstCall[s])
		}
		latest = max(latest, lower[s])
		earliest[s] = latest
		if latest > upper[s] {
			return append(found, opFinding(x, l, &ops[by[s]], "what comes before it in the log came later in time")), nil
		}
	}
	return nil, earliest
}

func opFinding(x *index, l *Log, o *linearOp, why string) Finding {
	if o.source < 0 {
		return finding(PropertyLinear, o.ret, "%v: %s of length %d: %s", l.Partition, o.what, o.low, why)
	}
	p := &x.h.Publishes[o.source]
	return finding(PropertyLinear, p.Return, "%v: %s to client %d for producer %x's sequence %d (message %x, sequence %d, called at %d): %s",
		l.Partition, o.what, p.Client, p.ProducerID, p.ProducerSeq, p.Payload, p.Sequence, p.Call, why)
}

// linearState is the model's state.
type linearState struct {
	length int
	hash   uint64
}

// tighten makes the search's work smaller and takes no order away: the call of an
// append moves to the earliest point that the other operations leave it, so that
// nothing is guessed about a publish without answer; and a read goes that says no
// more than something that had ended before it.
func tighten(ops []linearOp, earliest []Time) []linearOp {
	byReturn := slices.Clone(ops)
	slices.SortStableFunc(byReturn, func(a, b linearOp) int { return cmp.Compare(a.ret, b.ret) })
	tight := make([]linearOp, 0, len(ops))
	known, ended := 0, 0
	readAt, reads := -1, Time(-1) // of the reads of one instant the one that says most
	for _, o := range ops {       // in the order of calls
		for ended < len(byReturn) && byReturn[ended].ret < o.call {
			known = max(known, byReturn[ended].low)
			ended++
		}
		switch {
		case o.append:
			if at := earliest[o.low]; at > o.call {
				o.call, o.late = at, true
			}
		case o.high == unbounded && o.low <= known:
			continue
		case o.high == unbounded && o.call == o.ret && o.call == reads:
			tight[readAt].low = max(tight[readAt].low, o.low)
			continue
		case o.high == unbounded && o.call == o.ret:
			readAt, reads = len(tight), o.call
		}
		tight = append(tight, o)
	}
	slices.SortStableFunc(tight, func(a, b linearOp) int { return cmp.Compare(a.call, b.call) })
	return tight
}

// interval gives one for the search, on a scale that has room between two
// instants: a call that was moved comes behind the one that it was moved to.
func interval(from, to Time, late bool) (call, ret int64) {
	const scale = 4
	call, ret = int64(from)*scale, int64(Forever)
	if late {
		call++
	}
	if to < Forever/scale-1 {
		ret = int64(to)*scale + scale - 1
	}
	return call, ret
}

// cut gives at most limit operations, a prefix by call, and with them the later
// appends that one of them builds on.
func cut(ops []linearOp, limit int) []linearOp {
	if len(ops) <= limit {
		return ops
	}
	kept := slices.Clone(ops[:limit])
	top := 0
	for i := range kept {
		if kept[i].append {
			top = max(top, kept[i].low)
		}
	}
	for _, o := range ops[limit:] {
		if o.append && o.low < top {
			kept = append(kept, o)
		}
	}
	return kept
}

// search asks porcupine about at most linearOperationsMax operations.
func search(ops []linearOp, chain []uint64, steps int) (ok, conclusive bool) {
	ops = cut(ops, linearOperationsMax)
	return explain(ops, linearState{0, chain[0]}, steps, func(s linearState, o *linearOp) (bool, linearState) { return o.step(s, chain) })
}

func (o *linearOp) span() (call, ret int64) { return interval(o.call, o.ret, o.late) }

func (o *linearOp) step(s linearState, chain []uint64) (bool, linearState) {
	if o.append && s.length == o.low-1 {
		next := linearState{s.length + 1, o.hash}
		return o.hash == chain[o.low], next
	}
	if o.append {
		return o.dedup && s.length >= o.low, s
	}
	return s.length >= o.low && s.length <= o.high, s
}

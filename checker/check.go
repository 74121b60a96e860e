package checker

import (
	"cmp"
	"fmt"
	"slices"
)

// The properties, by the names that findings carry.
const (
	PropertyLinear        = "linearizable-commit"
	PropertyLost          = "lost-write"
	PropertyDuplicate     = "duplicate"
	PropertyInconsistent  = "inconsistent-offset"
	PropertyAborted       = "aborted-read"
	PropertyNonMonotonic  = "non-monotonic-poll"
	PropertySkipping      = "skipping-poll"
	PropertyUnseen        = "unseen"
	PropertyAtLeastOnce   = "at-least-once"
	PropertySettledStays  = "settled-stays-settled"
	PropertyDeadLetter    = "one-dead-letter"
	PropertyRedrive       = "redrive-once"
	PropertyCharges       = "charges"
	PropertyBooks         = "accounting"
	PropertyBooksFall     = "books-never-fall"
	PropertyOwnership     = "ownership"
	PropertyResetToTime   = "reset-to-time"
	PropertyDeliveryIDs   = "delivery-id-reused"
	defaultSteps          = 5_000_000
	linearOperationsMax   = 10_000
	findingsPerCheckerMax = 5
)

// Finding is a broken property and the first event that broke it.
type Finding struct {
	Property string
	At       Time
	What     string
}

// Verdict is what Check found. It holds when both lists are empty.
type Verdict struct {
	Findings     []Finding // in order of time
	Inconclusive []string  // checks that ran out of their budget
}

// Options bound a check.
type Options struct {
	// Steps is how many steps of the model the linearizability check may take
	// per partition. Default 5 000 000.
	Steps int
}

// Check judges h by every property.
func Check(h *History, o Options) Verdict {
	if o.Steps == 0 {
		o.Steps = defaultSteps
	}
	x := newIndex(h)
	var v Verdict
	for _, f := range []func(*index) []Finding{
		lostWrites, duplicates, inconsistentOffsets, abortedReads, polls, unseen,
		atLeastOnce, settledStays, deadLetters, redrives, charges, books, booksFall, deliveryIDs, resetsToTime,
	} {
		found := f(x)
		v.Findings = append(v.Findings, found[:min(len(found), findingsPerCheckerMax)]...)
	}
	found, unsure := ownership(x, o.Steps)
	v.Findings = append(v.Findings, found[:min(len(found), findingsPerCheckerMax)]...)
	for _, l := range unsure {
		v.Inconclusive = append(v.Inconclusive, fmt.Sprintf("%s of group %s, %v: %d steps were not enough", PropertyOwnership, l.group, l.Partition, o.Steps))
	}
	for i := range h.Logs {
		if h.Logs[i].Twin {
			continue
		}
		f, conclusive := linear(x, &h.Logs[i], o.Steps)
		v.Findings = append(v.Findings, f...)
		if !conclusive {
			p := h.Logs[i].Partition
			v.Inconclusive = append(v.Inconclusive, fmt.Sprintf("%s of %v: %d steps were not enough", PropertyLinear, p, o.Steps))
		}
	}
	slices.SortStableFunc(v.Findings, func(a, b Finding) int { return cmp.Compare(a.At, b.At) })
	return v
}

func finding(property string, at Time, format string, args ...any) Finding {
	return Finding{Property: property, At: at, What: fmt.Sprintf(format, args...)}
}

// message names a message within a partition.
type message struct {
	Partition
	payload uint64
}

// slot names a place in a partition's log.
type slot struct {
	Partition
	sequence uint64
}

// groupSlot names a message as a group sees it. A group that was reset or
// deleted sees it as another one: generation counts these.
type groupSlot struct {
	group string
	slot
	generation int
}

// lane names a partition as a group sees it.
type lane struct {
	group string
	Partition
}

// index is a history with what the checkers look up. Its maps are only looked
// into, never walked.
type index struct {
	h         *History
	logs      map[Partition]*Log
	published map[message][]int // indices of Publishes
	lastBook  map[lane]int
	breaks    map[lane][]*Break
	lanes     []lane // in order of first appearance in Books, but for groups that are gone
}

func newIndex(h *History) *index {
	x := &index{h: h, logs: map[Partition]*Log{}, published: map[message][]int{}, lastBook: map[lane]int{}, breaks: map[lane][]*Break{}}
	for i := range h.Logs {
		x.logs[h.Logs[i].Partition] = &h.Logs[i]
	}
	for i := range h.Publishes {
		p := &h.Publishes[i]
		m := message{p.Partition, p.Payload}
		x.published[m] = append(x.published[m], i)
	}
	for i := range h.Breaks {
		l := lane{h.Breaks[i].Group, h.Breaks[i].Partition}
		x.breaks[l] = append(x.breaks[l], &h.Breaks[i])
	}
	var lanes []lane
	for i := range h.Books {
		l := lane{h.Books[i].Group, h.Books[i].Partition}
		if _, ok := x.lastBook[l]; !ok {
			lanes = append(lanes, l)
		}
		x.lastBook[l] = i
	}
	for _, l := range lanes {
		if !x.gone(l) {
			x.lanes = append(x.lanes, l)
		}
	}
	return x
}

// key names a message as a group saw it under an ownership epoch.
func (x *index) key(group string, p Partition, sequence, ownership uint64) groupSlot {
	k := groupSlot{group: group, slot: slot{p, sequence}}
	if len(x.h.Breaks) > 0 {
		k.generation = x.h.Generation(group, p, ownership)
	}
	return k
}

// gone says whether a group was deleted and not made again: its last book is of
// before that, and nobody owes it anything.
func (x *index) gone(l lane) bool {
	k := x.breaks[l]
	return len(k) > 0 && k[len(k)-1].Fresh && x.h.Books[x.lastBook[l]].At <= k[len(k)-1].To
}

// record gives the final log's record at s, nil where the log does not reach.
func (x *index) record(s slot) *Record {
	l := x.logs[s.Partition]
	if l == nil || s.sequence == 0 || s.sequence > uint64(len(l.Records)) {
		return nil
	}
	return &l.Records[s.sequence-1]
}

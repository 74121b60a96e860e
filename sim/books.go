package sim

import (
	"fmt"
	"math"
	"strings"

	"github.com/mortarmq/mortarmq/node/op"
)

// groupName is the name of the group that an event is about: topic= group= twin=.
func groupName(e *Event) string {
	suffix := ""
	if e.Int("twin", 0) != 0 {
		suffix = "-dlq"
	}
	return fmt.Sprintf("g%d-%d%s", e.Int("group", 0), e.Int("topic", 0), suffix)
}

// expectBooks holds a group's books against what the plan says that they are at
// this moment: of one partition, or the sums over all.
//
//	books topic= group= twin=0|1 partition= members= floor= next= start= handed= dead= unsettled=
//	      delivered= dropped= dlq= quarantined= retries= charges=
//
// NAME_min and NAME_max bound instead. A group that must not be there: absent=1.
func (w *world) expectBooks(e *Event) {
	if !w.host.serving() {
		w.finding(PropertyExpectation, "the books of group %s cannot be looked at: the node does not serve", groupName(e))
		return
	}
	v := w.host.node.Machine().View()
	g, ok := v.GroupByName([]byte(groupName(e)))
	if ok != (e.Int("absent", 0) == 0) {
		w.finding(PropertyExpectation, "group %s: there %v", groupName(e), ok)
	}
	if !ok {
		return
	}
	sums := map[string]int64{"members": int64(len(g.Members))}
	for p := range g.Partitions {
		if only := e.Int("partition", -1); only >= 0 && only != int64(p) {
			continue
		}
		c, _ := v.Cursor(g.ID, op.PartitionID(p))
		for _, b := range [...]Arg{
			{"floor", int64(c.Floor)}, {"next", int64(c.NextFirst)}, {"start", c.Start}, {"handed", int64(c.Handed)}, {"dead", int64(c.Dead)},
			{"unsettled", int64(c.Unsettled)}, {"delivered", int64(c.Delivered)}, {"dropped", int64(c.Dropped)}, {"dlq", int64(c.DLQ)},
			{"quarantined", int64(c.Quarantined)}, {"retries", int64(c.Retries)},
		} {
			sums[b.Name] += b.Value
		}
		for d, ok := v.NextDelivery(g.ID, op.PartitionID(p), 0); ok; d, ok = v.NextDelivery(g.ID, op.PartitionID(p), d.Sequence) {
			sums["charges"] += int64(d.Charges)
		}
	}
	for _, a := range e.Args {
		name, low, high := bookBounds(a)
		if got, ok := sums[name]; ok && (got < low || got > high) {
			w.finding(PropertyExpectation, "group %s: %s is %d, wanted %s=%d", g.Name, name, got, a.Name, a.Value)
			return
		}
	}
}

// bookBounds gives the counter that an argument of a books event is about, and
// the values that are right.
func bookBounds(a Arg) (name string, low, high int64) {
	if name, ok := strings.CutSuffix(a.Name, "_min"); ok {
		return name, a.Value, math.MaxInt64
	}
	if name, ok := strings.CutSuffix(a.Name, "_max"); ok {
		return name, math.MinInt64, a.Value
	}
	return a.Name, a.Value, a.Value
}

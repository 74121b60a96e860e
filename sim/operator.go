package sim

import (
	"fmt"

	"github.com/mortarmq/mortarmq/checker"
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/sim/prng"
	"github.com/mortarmq/mortarmq/wire"
)

// operator asks the node's admin side for changes while clients run and the node
// dies under it. Who gets no answer begins again.
//
//	redrive  topic= n=                     all dead letters of the topic's twin, n at a time
//	purge    topic=
//	reset    topic= group= twin= to=earliest|latest|sequence|time value= clear=0|1 for= want=
//	delete   topic= group= twin=                                    clear=0|1 for= want=
//
// A group with members cannot be reset or deleted: clear=1 crashes its clients
// for the span first. It is tried for that span; want= is the only answer that
// is right, and the first. value= is a sequence, or how many milliseconds the time
// lies back.
type operator struct {
	w    *world
	jobs []*job
}

// job is one change that is asked for until it is carried out.
type job struct {
	Event
	rand  *prng.Rand
	until clock.Instant // a reset or delete is given up then
	id    uint64        // of the query without an answer, 0 without one
	life  int           // incarnation that was asked
	call  checker.Time
	// Of a redrive: where to go on, and its place in the history.
	from, upTo []uint64
	walk       int
	walking    bool
	breaks     []checker.Break // that a reset or delete will have been
	since      uint64          // of a reset to a time: Unix ms
	groupID    op.GroupID
	ended      bool
}

const jobPauseMax = 100 * clock.Millisecond

// take begins a job.
func (o *operator) take(e *Event) {
	j := &job{Event: *e, rand: prng.New(e.Seed), until: o.w.now.Add(e.Span("for", clock.Second))}
	o.jobs = append(o.jobs, j)
	if e.Int("clear", 0) != 0 {
		for _, a := range o.w.clients {
			if a.group() == groupName(e) {
				a.crash(e.Span("for", clock.Second) + clock.Duration(j.rand.Range(0, int64(jobPauseMax))))
			}
		}
	}
	o.ask(j)
}

// later looks at a job again after a while.
func (o *operator) later(j *job) {
	o.w.after(clock.Duration(j.rand.Range(int64(clock.Millisecond), int64(jobPauseMax))), func() { o.ask(j) })
}

// ask puts the job's next query to the node, once it serves.
func (o *operator) ask(j *job) {
	h := o.w.host
	switch {
	case o.w.stopped || h.stopping || j.ended:
		return
	case j.id != 0 && j.life == h.incarnation && h.node != nil:
		o.later(j) // it is being carried out
		return
	case !h.serving() || !o.w.ready:
		o.later(j)
		return
	case j.id != 0:
		j.id = 0
		o.lost(j)
	}
	if (j.Kind == "reset" || j.Kind == "delete") && (o.w.now > j.until || o.w.calm) {
		o.done(j)
		return
	}
	topic := o.w.plan.Topics[j.Int("topic", 0)].Name
	q := node.Query{Topic: topic, Group: groupName(&j.Event)}
	j.call = checker.Time(o.w.now)
	switch j.Kind {
	case "redrive":
		q.Kind, q.Max, q.From, q.Until = node.QueryRedrive, int(j.Int("n", 100)), j.from, j.upTo
		if !j.walking {
			j.walking, j.walk = true, len(o.w.rec.h.Redrives)
			o.w.rec.h.Redrives = append(o.w.rec.h.Redrives, checker.Redrive{Topic: o.twin(j), Call: j.call, Return: checker.Forever})
		}
	case "purge":
		q.Kind = node.QueryPurge
		o.w.rec.h.Purges = append(o.w.rec.h.Purges, checker.Purge{Topic: o.twin(j), Call: j.call, Return: checker.Forever})
	case "reset":
		q.Kind, q.Reset = node.QueryGroupReset, node.ResetTo{To: node.ResetKind(j.Int("to", 0)), Value: uint64(j.Int("value", 0))}
		j.since = 0
		if q.Reset.To == node.ResetToTime {
			j.since = uint64(h.clock.Read().Wall) - q.Reset.Value
			q.Reset.Value = j.since
		}
		o.expectBreak(j, false)
	default:
		q.Kind = node.QueryGroupDelete
		o.expectBreak(j, true)
	}
	o.w.note("operator "+j.Kind, uint64(j.walk))
	j.id, j.life = h.ask(q), h.incarnation
	o.later(j) // in case that the node dies
}

func (o *operator) twin(j *job) uint16 { return o.w.admin.topicID(int(j.Int("topic", 0))) + 1 }

// expectBreak notes what the change will divide. Ops take effect in the order in
// which they were asked for, and a group with members refuses: so nobody gets a
// partition under an epoch of before and keeps it.
func (o *operator) expectBreak(j *job, fresh bool) {
	j.breaks, j.groupID = nil, 0
	v := o.w.host.node.Machine().View()
	g, ok := v.GroupByName([]byte(groupName(&j.Event)))
	if !ok {
		return
	}
	j.groupID = g.ID
	for p := range g.Partitions {
		w, _ := v.Owner(g.ID, op.PartitionID(p))
		epoch := uint64(w.Epoch)
		if w.Member != 0 {
			epoch++
		}
		j.breaks = append(j.breaks, checker.Break{Group: g.Name, Partition: checker.Partition{Topic: uint16(g.Topic), Partition: p},
			Ownership: epoch, From: j.call, To: checker.Forever, Fresh: fresh, Since: j.since, Last: uint64(v.LastSeq(g.Topic, op.PartitionID(p)))})
	}
}

// lost is called when the node died before it answered, and serves again.
func (o *operator) lost(j *job) {
	o.w.marks.Mark("sim." + j.Kind + "_cut_off")
	switch j.Kind {
	case "redrive":
		j.walking, j.from, j.upTo = false, nil, nil
	case "delete":
		g, ok := o.w.host.node.Machine().View().GroupByName([]byte(groupName(&j.Event)))
		if !ok || g.ID != j.groupID {
			o.broke(j, nil)
		}
	case "reset":
		o.broke(j, nil)
	}
}

// broke writes the breaks of a reset or delete into the history.
func (o *operator) broke(j *job, next []uint64) {
	for p := range j.breaks {
		b := j.breaks[p]
		b.To = checker.Time(o.w.now)
		if p < len(next) {
			b.Next = next[p]
		}
		o.w.rec.h.Breaks = append(o.w.rec.h.Breaks, b)
	}
}

// answered takes an answer of the node; it says whether it was for a job.
func (o *operator) answered(a *node.Answer) bool {
	for _, j := range o.jobs {
		if j.id != 0 && j.id == a.ID {
			j.id = 0
			o.answer(j, a)
			return true
		}
	}
	return false
}

func (o *operator) answer(j *job, a *node.Answer) {
	o.w.note("operator answer", uint64(a.Code), a.Redriven, a.Skipped, a.Purged)
	o.w.tell("operator: %s: %v %s", j.Kind, a.Code, a.Message)
	if want := j.Int("want", -1); want >= 0 && (wantWords[want] != a.Code.String()) {
		o.w.finding(PropertyExpectation, "%s of group %s was answered with %v, wanted %s", j.Kind, groupName(&j.Event), a.Code, wantWords[want])
		return
	}
	switch {
	case j.Kind == "redrive":
		o.redriven(j, a)
		return
	case a.Code != wire.CodeOK && j.Int("want", -1) < 0 && a.Code != wire.CodeUnknownGroup:
		return // it is looked at again
	case a.Code == wire.CodeOK:
		o.w.marks.Mark("sim." + j.Kind)
		if j.since > 0 {
			o.w.marks.Mark("sim.reset_to_time")
		}
		if j.Kind == "purge" {
			o.w.rec.h.Purges[len(o.w.rec.h.Purges)-1].Return = checker.Time(o.w.now)
		} else {
			o.broke(j, a.Sequences)
		}
	}
	o.done(j)
}

// redriven takes one answer of a walk.
func (o *operator) redriven(j *job, a *node.Answer) {
	r := &o.w.rec.h.Redrives[j.walk]
	r.Redriven += a.Redriven
	if a.Redriven > 0 {
		o.w.marks.Mark("sim.redriven")
	}
	if a.Code != wire.CodeOK {
		return // from the same place
	}
	j.from, j.upTo = a.Next, a.Until
	if !a.Done {
		return
	}
	r.Done, r.Return, r.Until = true, checker.Time(o.w.now), a.Until
	o.done(j)
}

// done ends a job.
func (o *operator) done(j *job) {
	j.ended = true
	for i := range o.jobs {
		if o.jobs[i] == j {
			o.jobs = append(o.jobs[:i], o.jobs[i+1:]...)
			return
		}
	}
}

// busy says what is still asked for.
func (o *operator) busy() string {
	if len(o.jobs) > 0 {
		return fmt.Sprintf("the operator waits for %s", o.jobs[0].Kind)
	}
	return ""
}

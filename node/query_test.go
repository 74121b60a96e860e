package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/sim/simdisk"
	"github.com/mortarmq/mortarmq/wire"
)

// check holds the accounting identity of every group against one answer.
func (s *stage) check() *Stats {
	s.t.Helper()
	stats := s.must(Query{Kind: QueryStats}).Stats
	produced := map[string]uint64{}
	for _, t := range stats.Topics {
		produced[t.Name] = t.Produced
	}
	for _, g := range stats.Groups {
		if int64(produced[g.Topic])-g.Start != int64(g.Delivered+g.Dropped+g.Lag) || g.DLQ > g.Dropped || g.InFlight > g.Lag {
			s.t.Fatalf("%d produced: %+v", produced[g.Topic], g)
		}
	}
	return stats
}

// Goal: groups list and describe tell topic, state, members, epochs and lag, with
// one line per partition.
func TestGroupQueries(t *testing.T) {
	s := newStage(t, nil)
	p := s.connect()
	orders := p.declare("orders", 3)
	p.declare("other", 1)
	p.publish(orders, 0, "a", "b")
	p.publish(orders, 2, "c")
	p.join(orders, "billing", 3, 0)
	for _, m := range p.consume(3) {
		if m.Partition == 0 && m.Sequence == 1 {
			p.ack(&m)
		}
	}
	a := s.must(Query{Kind: QueryGroups})
	want := GroupInfo{ID: 1, Name: "billing", Topic: "orders", State: "stable", Members: 1, MembershipEpoch: 1, AssignmentEpoch: 1, Lag: 2}
	if len(a.Groups) != 1 || fmt.Sprint(a.Groups[0]) != fmt.Sprint(want) {
		t.Fatalf("%+v", a.Groups)
	}
	if a := s.must(Query{Kind: QueryGroups, Topic: "other"}); len(a.Groups) != 0 {
		t.Fatalf("%+v", a.Groups)
	}
	g := s.must(Query{Kind: QueryGroup, Group: "billing"}).Groups[0]
	lags := ""
	for _, p := range g.Partitions {
		lags += fmt.Sprint(p.Partition, " ", p.Member == g.Partitions[0].Member && p.Member != 0, " ", p.Cursor.Unsettled, ";")
	}
	if lags != "0 true 1;1 true 0;2 true 1;" {
		t.Fatal(lags)
	}
	for _, q := range []Query{{Kind: QueryGroup, Group: "nobody"}, {Kind: QueryGroups, Topic: "nothing"}} {
		if a := s.ask(q); a.Code != wire.CodeUnknownGroup && a.Code != wire.CodeUnknownTopic {
			t.Fatalf("%+v", a)
		}
	}
	p.leave()
	if g := s.must(Query{Kind: QueryGroup, Group: "billing"}).Groups[0]; g.State != "empty" || g.Partitions[1].Member != 0 {
		t.Fatalf("%+v", g)
	}
	s.check()
}

// Goal: a reset moves every partition to where it was asked to, for earliest,
// latest, a sequence and a time, in memory and read from disk; the accounting
// holds through it, and what is delivered next is what was promised.
func TestGroupReset(t *testing.T) {
	s := newStage(t, nil)
	p := s.connect()
	orders := p.declare("orders", 2)
	var times []clock.WallMillis
	for i := range 40 {
		s.pass(clock.Second)
		times = append(times, s.now.Wall)
		p.publish(orders, 0, fmt.Sprint("v", i))
	}
	p.publish(orders, 1, "one")
	p.join(orders, "g", 2, 0)
	for _, m := range p.consume(10) {
		p.ack(&m)
	}
	if a := s.ask(Query{Kind: QueryGroupReset, Group: "g", Reset: ResetTo{To: ResetToLatest}}); a.Code != wire.CodeGroupMemberLimit {
		t.Fatalf("a reset of a group with members: %+v", a)
	}
	p.leave()
	end := uint64(times[39]) + 60_000
	for _, tc := range []struct {
		to   ResetTo
		want string
		lag  uint64
	}{
		{ResetTo{To: ResetToEarliest}, "[1 1]", 41},
		{ResetTo{To: ResetToLatest}, "[41 2]", 0},
		{ResetTo{ResetToSequence, 7}, "[7 2]", 34},
		{ResetTo{ResetToSequence, 1 << 40}, "[41 2]", 0},
		{ResetTo{ResetToTime, uint64(times[20])}, "[21 1]", 21},
		{ResetTo{ResetToTime, uint64(times[20]) + 1}, "[22 1]", 20},
		{ResetTo{ResetToTime, uint64(times[0])}, "[1 1]", 41},
		{ResetTo{ResetToTime, 1}, "[1 1]", 41},
		{ResetTo{ResetToTime, end}, "[41 2]", 0},
	} {
		for _, cold := range []bool{false, true} {
			if cold {
				s.forget()
			}
			a := s.must(Query{Kind: QueryGroupReset, Group: "g", Reset: tc.to})
			if got := fmt.Sprint(a.Sequences); got != tc.want {
				t.Fatalf("%+v cold %v: %s, want %s", tc.to, cold, got, tc.want)
			}
			if st := s.check(); st.Groups[0].Lag != tc.lag || st.Groups[0].Delivered != 10 {
				t.Fatalf("%+v: %+v", tc.to, st.Groups[0])
			}
		}
	}
	s.must(Query{Kind: QueryGroupReset, Group: "g", Reset: ResetTo{ResetToTime, uint64(times[38])}})
	s.crash(simdisk.PowerLoss) // what was answered is durable
	p = s.connect()
	p.join(orders, "g", 2, 0)
	next := map[string]bool{}
	for _, m := range p.consume(3) {
		next[string(m.Value)] = true
	}
	if !next["v38"] || !next["v39"] || !next["one"] {
		t.Fatal(next)
	}
}

// Goal: a group without members can be deleted, once; one with members cannot.
func TestGroupDelete(t *testing.T) {
	s := newStage(t, nil)
	p := s.connect()
	orders := p.declare("orders", 1)
	p.join(orders, "g", 1, 0)
	if a := s.ask(Query{Kind: QueryGroupDelete, Group: "g"}); a.Code != wire.CodeGroupMemberLimit || !strings.Contains(a.Message, "stop its consumers") {
		t.Fatalf("%+v", a)
	}
	p.leave()
	s.must(Query{Kind: QueryGroupDelete, Group: "g"})
	s.kill()
	if a := s.ask(Query{Kind: QueryGroupDelete, Group: "g"}); a.Code != wire.CodeUnknownGroup {
		t.Fatalf("%+v", a)
	}
}

// forget starts the node anew behind a checkpoint: records have to be read from
// disk, in pieces.
func (s *stage) forget() {
	s.t.Helper()
	done := s.node.meters.checkpoint
	s.until("a checkpoint", func() bool {
		s.pass(clock.Second)
		if s.node.meters.checkpoint == done && s.node.checkpoint.phase == checkpointNone && s.node.store.Flushed() == done {
			return true // nothing happened since the last one
		}
		return s.node.meters.checkpoint > done
	})
	s.kill()
	if s.node.replayed > 20 {
		s.t.Fatalf("%d entries were replayed: their records are in memory", s.node.replayed)
	}
}

// bury publishes n messages to the topic's partition 0 and makes them dead
// letters of group g.
func (s *stage) bury(topic uint16, n int, size int) {
	s.t.Helper()
	p := s.connect()
	value := strings.Repeat("x", size)
	for i := range n {
		p.publish(topic, 0, fmt.Sprintf("%04d%s", i, value))
	}
	p.join(topic, "g", 1, 1000)
	for _, m := range p.consume(n) {
		p.nack(&m, wire.NackReject, 0)
	}
	p.leave()
	p.drop()
}

// Goal: dead letters are listed with their origin, redriven once each in the
// order of the twin, and purged; states tell them apart.
func TestDeadLetters(t *testing.T) {
	s := newStage(t, nil)
	p := s.connect()
	orders := p.declare("orders", 1)
	s.bury(orders, 5, 10)
	a := s.must(Query{Kind: QueryDeadLetters, Topic: "orders", Max: 3, States: DeadLettersLive, Values: true})
	if len(a.DeadLetters) != 3 || a.Done {
		t.Fatalf("%+v", a)
	}
	d := a.DeadLetters[1]
	if e := d.Envelope; d.State != "live" || e.Topic != 1 || e.Sequence != 2 || e.Reason != op.CauseReject || e.Attempts != 1 || string(e.GroupName) != "g" ||
		e.Time == 0 || string(d.Record.Value) != "0001xxxxxxxxxx" || string(d.Record.Key) != "key" || d.Record.Sequence != 2 {
		t.Fatalf("%+v", d)
	}
	a = s.must(Query{Kind: QueryDeadLetters, Topic: "orders.dlq", Max: 3, From: a.Next, States: DeadLettersLive})
	if len(a.DeadLetters) != 2 || !a.Done || a.DeadLetters[0].Record.Value != nil {
		t.Fatalf("%+v", a)
	}

	r := s.must(Query{Kind: QueryRedrive, Topic: "orders", Max: 2})
	if r.Redriven != 2 || r.Skipped != 0 || r.Done || r.Next[0] != 3 || r.Until[0] != 5 {
		t.Fatalf("%+v", r)
	}
	// What dies meanwhile is for the next redrive.
	s.bury(orders, 1, 10)
	r = s.must(Query{Kind: QueryRedrive, Topic: "orders", Max: 100, From: r.Next, Until: r.Until})
	if r.Redriven != 3 || !r.Done {
		t.Fatalf("%+v", r)
	}
	if r = s.must(Query{Kind: QueryRedrive, Topic: "orders", Max: 100, Until: []uint64{5}}); r.Redriven != 0 || r.Skipped != 5 || !r.Done {
		t.Fatalf("%+v", r)
	}
	purged := s.must(Query{Kind: QueryPurge, Topic: "orders"}).Purged
	if purged < 1 {
		t.Fatal("nothing was purged")
	}
	// What was redriven stays redriven, over a restart too.
	for range 2 {
		for states, want := range map[DeadLetterStates]uint64{DeadLettersLive: 0, DeadLettersRedriven: 5, DeadLettersPurged: purged, 0: 5 + purged} {
			a := s.must(Query{Kind: QueryDeadLetters, Topic: "orders", Max: 100, States: states})
			if uint64(len(a.DeadLetters)) != want || !a.Done {
				t.Fatalf("states %b: %d, want %d", states, len(a.DeadLetters), want)
			}
		}
		p := s.must(Query{Kind: QueryStats, Topic: "orders.dlq"}).Stats.Topics[0].Partitions[0]
		if p.Redriven != 5 || p.Purged != purged || p.LastSeq != 5+purged {
			t.Fatalf("%+v", p)
		}
		s.forget()
	}
	if a := s.ask(Query{Kind: QueryRedrive, Topic: "nothing", Max: 1}); a.Code != wire.CodeUnknownTopic {
		t.Fatalf("%+v", a)
	}
	s.check()
}

// Goal: a redrive that is killed, or loses power, at any point and begun again redrives each dead
// letter exactly once.
func TestRedriveKilled(t *testing.T) {
	const letters = 60
	halves := 0
	for at := range 40 {
		s := newStage(t, nil)
		p := s.connect()
		orders := p.declare("orders", 1)
		s.bury(orders, letters, 30_000)
		s.forget()
		s.begin(Query{Kind: QueryRedrive, Topic: "orders", Max: 1000})
		for range 3 * at {
			s.step()
		}
		v, _ := s.node.Machine().View().Partition(op.TopicID(orders)+1, 0)
		if v.Redriven > 0 && v.Redriven < letters {
			halves++
		}
		s.crash([]simdisk.CrashKind{simdisk.Kill, simdisk.PowerLoss}[at%2])
		v, _ = s.node.Machine().View().Partition(op.TopicID(orders)+1, 0)
		r := s.must(Query{Kind: QueryRedrive, Topic: "orders", Max: 1000})
		if r.Redriven+r.Skipped != letters || r.Skipped != v.Redriven || !r.Done {
			t.Fatalf("killed after %d turns: %d were redriven then, %d now, %d skipped", 3*at, v.Redriven, r.Redriven, r.Skipped)
		}
		seen := map[string]int{}
		from := []uint64{letters + 1}
		for {
			a := s.must(Query{Kind: QueryTail, Topic: "orders", Max: 1000, From: from})
			for _, r := range a.Records {
				seen[string(r.Value[:4])]++
			}
			if len(a.Records) == 0 {
				break
			}
			from = a.Next
		}
		for i := range letters {
			if n := seen[fmt.Sprintf("%04d", i)]; n != 1 {
				t.Fatalf("killed after %d turns: dead letter %d came back %d times", 3*at, i, n)
			}
		}
		s.check()
	}
	if halves < 3 {
		t.Fatalf("only %d of the kills came half way: the test proves little", halves)
	}
}

// Goal: a change is refused while the node does not serve or is stopping, and a
// redrive while publishes are.
func TestChangesRefused(t *testing.T) {
	s := newStage(t, nil)
	p := s.connect()
	orders := p.declare("orders", 1)
	s.bury(orders, 2, 10)
	s.disk.SetCapacity(s.disk.Used() + 4096)
	s.until("low space", func() bool { return s.node.space.low })
	if a := s.ask(Query{Kind: QueryRedrive, Topic: "orders", Max: 10}); a.Code != wire.CodeStorageHighWatermark || a.Redriven != 0 {
		t.Fatalf("%+v", a)
	}
	s.disk.SetCapacity(1 << 40)
	s.until("space", func() bool { return !s.node.space.low })
	s.must(Query{Kind: QueryRedrive, Topic: "orders", Max: 10})

	n, err := New(s.config)
	if err != nil {
		t.Fatal(err)
	}
	var out Effects
	out.Reset()
	n.Turn(s.now, []Input{
		{Kind: InputQuery, Query: Query{ID: 1, Kind: QueryGroupDelete, Group: "g"}},
		{Kind: InputQuery, Query: Query{ID: 2, Kind: QueryStats}},
	}, &out)
	if len(out.Answers) != 2 || out.Answers[0].Code != wire.CodeMetadataReadOnly {
		t.Fatalf("%+v", out.Answers)
	}
	if st := out.Answers[1].Stats; st == nil || st.Broker.Quorum != QuorumReadOnly || len(st.Topics) > 0 {
		t.Fatalf("%+v", out.Answers[1])
	}
	s.bury(orders, 1, 10)
	s.connect()
	s.forget()
	s.connect()
	reading := s.begin(Query{Kind: QueryRedrive, Topic: "orders", Max: 10})
	s.turn()
	s.in = append(s.in, Input{Kind: InputStop})
	id := s.begin(Query{Kind: QueryGroupDelete, Group: "g"})
	s.turn()
	for _, id := range []uint64{id, reading} {
		if a, ok := s.answers[id]; !ok || a.Code != wire.CodeMetadataReadOnly || a.Redriven > 0 {
			t.Fatalf("%+v", a)
		}
	}
}

// Goal: a dead letter that dies again is settled, counted and logged.
func TestQuarantine(t *testing.T) {
	s := newStage(t, nil)
	p := s.connect()
	orders := p.declare("orders", 1)
	s.bury(orders, 1, 10)
	p.join(orders+1, "undertaker", 1, 0)
	m := p.consume(1)[0]
	p.nack(&m, wire.NackRetry, 0)
	s.until("the quarantine", func() bool {
		for _, g := range s.check().Groups {
			if g.Name == "undertaker" && g.Quarantined == 1 {
				return true
			}
		}
		return false
	})
	if log := strings.Join(s.logs, "\n"); !strings.Contains(log, "DLQ_PATH_OVERFLOW: dead letter 1 of orders.dlq partition 0 died again for group undertaker") {
		t.Fatal(log)
	}
}

// Goal: damage refuses what would append to the partition that is hit, and only
// that: a dead letter appends to the twin, a redrive to the source.
func TestDamagedTwin(t *testing.T) {
	s := newStage(t, nil)
	p := s.connect()
	orders := p.declare("orders", 1)
	s.bury(orders, 1, 10)
	p.publish(orders, 0, "a")
	p.join(orders, "g", 1, 0)
	m := p.consume(1)[0]
	s.harm(op.TopicID(orders)+1, 0)
	p.send((&wire.Nack{SubscriptionID: m.SubscriptionID, TopicID: m.TopicID, Seq: m.Sequence, DeliveryID: m.DeliveryID, OwnershipEpoch: m.OwnershipEpoch, Reason: wire.NackReject}).Append(nil))
	var e wire.Err
	if err := e.Decode(p.take(wire.OpErr)); err != nil || e.Code != wire.CodeDLQUnavailable {
		t.Fatalf("%v %s", e.Code, e.Message)
	}
	if r := s.must(Query{Kind: QueryRedrive, Topic: "orders", Max: 10}); r.Redriven != 1 {
		t.Fatalf("%+v", r)
	}
	s.node.damages = damages{}
	s.harm(op.TopicID(orders), 0)
	p.nack(&m, wire.NackReject, 0)
	if a := s.ask(Query{Kind: QueryRedrive, Topic: "orders", Max: 10}); a.Code != wire.CodeInternal || a.Skipped != 1 {
		t.Fatalf("%+v", a)
	}
}

// Goal: the waiting queries are bounded.
func TestQueriesBounded(t *testing.T) {
	s := newStage(t, nil)
	p := s.connect()
	orders := p.declare("orders", 1)
	p.publish(orders, 0, "v")
	s.kill()
	refused := 0
	var ids []uint64
	for range queriesMax + 10 {
		ids = append(ids, s.begin(Query{Kind: QueryTail, Topic: "orders", Back: 1, Max: 1}))
	}
	s.until("all answers", func() bool { return len(s.answers) >= len(ids) })
	for _, id := range ids {
		if s.answers[id].Code == wire.CodeBackpressure {
			refused++
		}
	}
	if refused != 10 {
		t.Fatalf("%d refused", refused)
	}
}

// Goal: a redelivery and the dead letters of a message count as the accounting
// says, at every step and over a kill.
func TestAccounting(t *testing.T) {
	s := newStage(t, func(c *Config) { c.Settings.DeliveryMaxAttempts = 2 })
	p := s.connect()
	orders := p.declare("orders", 2)
	p.join(orders, "g", 2, 0)
	p.join(orders, "g2", 2, 0)
	for i := range 6 {
		p.publish(orders, uint16(i%2), "v")
	}
	for i, m := range p.consume(6) {
		switch i {
		case 0, 1:
			p.ack(&m)
		case 2:
			p.nack(&m, wire.NackReject, 0)
		case 3:
			p.nack(&m, wire.NackRetry, 1)
		}
		s.check()
	}
	m := p.consume(1)[0]
	if m.Attempt != 2 {
		t.Fatalf("%+v", m)
	}
	p.nack(&m, wire.NackRetry, 0) // its last attempt
	s.until("the dead letter", func() bool {
		v, _ := s.node.Machine().View().Partition(op.TopicID(orders)+1, 0)
		w, _ := s.node.Machine().View().Partition(op.TopicID(orders)+1, 1)
		return v.LastSeq+w.LastSeq == 2
	})
	st := s.check()
	var g GroupStats
	for _, each := range st.Groups {
		if each.Name == "g2" {
			g = each
		}
	}
	if g.Delivered != 2 || g.Dropped != 2 || g.DLQ != 2 || g.Retries != 1 || g.Lag != 2 || g.InFlight != 2 || g.Members != 1 || !g.HasOldest {
		t.Fatalf("%+v", g)
	}
	for _, topic := range st.Topics {
		if topic.Name == "orders" && (topic.Produced != 6 || topic.Bytes != 24 || topic.Partitions[0].Depth != 3) {
			t.Fatalf("%+v", topic)
		}
		if topic.Name == "orders.dlq" && topic.Produced != 2 {
			t.Fatalf("%+v", topic)
		}
	}
	s.kill()
	for _, each := range s.check().Groups {
		if each.Name == "g2" && (each.Delivered != 2 || each.Dropped != 2 || each.Retries != 1 || each.InFlight != 0) {
			t.Fatalf("after a kill: %+v", each)
		}
	}
}

// Goal: the latency quantiles are those of the messages' first deliveries, within
// a bucket, over the last minute.
func TestLatency(t *testing.T) {
	s := newStage(t, nil)
	p := s.connect()
	orders := p.declare("orders", 1)
	p.join(orders, "g", 1, 0)
	for i := range 100 {
		p.publish(orders, 0, "v")
		if i < 90 {
			s.pass(20 * clock.Millisecond)
		} else {
			s.pass(400 * clock.Millisecond)
		}
		m := p.consume(1)[0]
		p.nack(&m, wire.NackRelease, 0) // its redelivery does not count
		m = p.consume(1)[0]
		p.ack(&m)
		grant := wire.Credit{SubscriptionID: p.sub.SubscriptionID, MembershipEpoch: p.told.MembershipEpoch, Mode: wire.CreditAdd, CreditCount: 2, CreditBytes: 2}
		p.ok(grant.Append(nil))
	}
	st := s.check()
	if st.LatencyCount != 100 || st.Latency[0] < 20 || st.Latency[0] > 40 || st.Latency[2] < 400 || st.Latency[2] > 450 {
		t.Fatalf("%d %v", st.LatencyCount, st.Latency)
	}
	s.pass(65 * clock.Second)
	if st := s.check(); st.LatencyCount != 0 {
		t.Fatalf("%d after a minute", st.LatencyCount)
	}
	if st := s.check(); st.FlushMicros.Sum == 0 || st.BatchBytes.Sum == 0 || st.EntryOps.Sum < 400 {
		t.Fatalf("%+v", st)
	}
}

// Goal: buckets and bounds agree for every value, and the width is bounded.
func TestLatencyBuckets(t *testing.T) {
	last := 0
	for ms := uint64(0); ms < 1<<27; ms += 1 + ms/100 {
		b := latencyBucket(ms)
		if b < last || latencyBound(b) < ms || b > 0 && latencyBound(b-1) >= ms || latencyBound(b)-ms > ms/16 {
			t.Fatalf("%d ms: bucket %d up to %d", ms, b, latencyBound(b))
		}
		last = b
	}
	if latencyBucket(1<<63) != latencyBuckets-1 {
		t.Fatal("beyond the last bucket")
	}
}

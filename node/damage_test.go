package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/sim/simdisk"
	"github.com/mortarmq/mortarmq/wire"
)

// harm makes the node believe that a partition is damaged.
func (s *stage) harm(t op.TopicID, p op.PartitionID) {
	d := &s.node.damages
	i, _ := d.find(partitionRef{t, p})
	d.list = slices.Insert(d.list, i, Damage{partitionRef: partitionRef{t, p}, ID: "harm"})
}

// damagedStage is a broker with a topic orders of two partitions, whose records
// are as given; a record of the first one is rotten.
func damagedStage(t *testing.T, records int, rotten int64) (*stage, *peer, uint16) {
	t.Helper()
	s := newStage(t, func(c *Config) { c.Store.CheckpointEvery = clock.Second })
	p := s.connect()
	orders := p.declare("orders", 2)
	for range records {
		p.publish(orders, 0, "a")
		p.publish(orders, 1, "b")
	}
	s.until("a checkpoint", func() bool { return s.node.store.Stats().Checkpoints > 0 && !s.node.store.Checkpointing() })
	s.kill() // what follows is not in memory
	if !s.disk.Rot(fmt.Sprintf("topics/%d/0/1.mqs", orders), rotten, []byte{0xFF}) {
		t.Fatal("no segment to rot")
	}
	s.logs = nil
	s.kill()
	return s, s.connect(), orders
}

// diagnosticID takes the id out of a text.
func diagnosticID(t *testing.T, text string) string {
	t.Helper()
	_, id, ok := strings.Cut(text, "diagnostic id ")
	if !ok || id == "" || strings.ContainsAny(id, " ;") {
		t.Fatalf("no diagnostic id ends %q", text)
	}
	return id
}

// Goal: everything that damage makes INTERNAL carries the diagnostic id of the log
// line that names file, offset and sequence: a PUB, a PULL whose wait is over, a
// tail; and whoever asks about health, topics, the partition or numbers is told.
func TestDamageIsTold(t *testing.T) {
	s, p, orders := damagedStage(t, 1, 64+8)
	e := p.refused(orders, 0, "never")
	id := diagnosticID(t, string(e.Message))
	if e.Code != wire.CodeInternal || !strings.Contains(string(e.Message), "partition 0 of orders is damaged") {
		t.Fatalf("%v %s", e.Code, e.Message)
	}
	line := slices.IndexFunc(s.logs, func(l string) bool { return strings.Contains(l, id) })
	if line < 0 || !strings.Contains(s.logs[line], fmt.Sprintf("damage: topics/%d/0/1.mqs offset 64 sequence 1: ", orders)) {
		t.Fatalf("%q", s.logs)
	}
	if a := s.ask(Query{Kind: QueryTail, Topic: "orders", Back: 10, Max: 10}); a.Code != wire.CodeInternal || diagnosticID(t, a.Message) != id {
		t.Errorf("tail: %v %s", a.Code, a.Message)
	}
	b := s.must(Query{Kind: QueryBroker}).Broker
	if len(b.Damaged) != 1 || b.Damaged[0].DiagnosticID != id || b.Damaged[0].Topic != "orders" || b.Damaged[0].Offset != 64 || b.Damaged[0].Sequence != 1 {
		t.Errorf("broker: %+v", b.Damaged)
	}
	if topics := s.must(Query{Kind: QueryTopics}).Topics; len(topics[0].Damaged) != 1 || len(topics[0].DeadLettersDamaged) != 0 {
		t.Errorf("topics: %+v", topics)
	}
	p.join(orders, "g", 2, 0)
	if x := s.must(Query{Kind: QueryExplain, Topic: "orders", Group: "g"}).Explained[0]; x.Damage == nil || x.Damage.DiagnosticID != id {
		t.Errorf("explain: %+v", x)
	}
	st := s.must(Query{Kind: QueryStats, Topic: "orders"}).Stats
	if parts := st.Topics[0].Partitions; !parts[0].Damaged || parts[1].Damaged || len(st.Broker.Damaged) != 1 {
		t.Errorf("stats: %+v", st.Topics)
	}
	p.ok((&wire.Declare{Topic: []byte("orders"), Flags: wire.FlagDeclareDelete}).Append(nil))
	if b := s.must(Query{Kind: QueryBroker}).Broker; len(b.Damaged) != 0 {
		t.Errorf("of a topic that is deleted: %+v", b.Damaged)
	}
}

// Goal: the damage that a query meets is in the log before the query is answered:
// here a sealed segment that ends early, which no read of the disk has to tell.
func TestDamageIsLoggedBeforeItIsTold(t *testing.T) {
	s := newStage(t, func(c *Config) {
		c.Store.CheckpointEvery, c.Store.SegmentMaxBytes = clock.Second, 8192
		c.Store.ScrubBytesPerSecond = -1 // it would find it first
	})
	p := s.connect()
	orders := p.declare("orders", 1)
	for range 12 {
		p.publish(orders, 0, strings.Repeat("x", 1000))
	}
	s.until("a checkpoint", func() bool { return s.node.store.Stats().Checkpoints > 0 && !s.node.store.Checkpointing() })
	s.kill()
	path := fmt.Sprintf("topics/%d/0/1.mqs", orders)
	const records = 5
	s.disk.Submit([]disk.Request{
		{Kind: disk.KindOpen, Handle: 0xFF000001, Path: path},
		{Kind: disk.KindTruncate, Handle: 0xFF000001, Offset: format.SegmentHeaderSize + records*(format.RecordHeaderSize+1000)},
		{Kind: disk.KindClose, Handle: 0xFF000001},
	})
	s.pass(clock.Second)
	s.kill()
	s.logs = nil
	s.must(Query{Kind: QueryTail, Topic: "orders", From: []uint64{1}, Max: records})
	a := s.ask(Query{Kind: QueryTail, Topic: "orders", From: []uint64{records + 1}, Max: 1})
	id := diagnosticID(t, a.Message)
	if i := slices.IndexFunc(s.logs, func(l string) bool { return strings.HasPrefix(l, "damage:") && strings.Contains(l, id) }); a.Code != wire.CodeInternal || i < 0 {
		t.Fatalf("%v %s, logged: %q", a.Code, a.Message, s.logs)
	}
	if line := strings.Join(s.logs, "\n"); strings.Count(line, "damage:") != 1 || strings.Contains(line, "the record is not there") {
		t.Errorf("%s", line)
	}
}

// ending starts the broker on what the disk holds, and gives why it ended.
func (s *stage) ending() string {
	s.t.Helper()
	s.disk.Crash(simdisk.Kill)
	s.disk.Restart()
	n, err := New(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	for range 10_000 {
		var in []Input
		s.disk.Advance(s.now.Mono)
		for _, c := range s.disk.Poll(nil) {
			in = append(in, Input{Kind: InputDisk, Disk: c})
		}
		s.out.Reset()
		n.Turn(s.now, in, &s.out)
		for _, l := range s.out.Logs {
			s.logs = append(s.logs, l.Text)
		}
		if s.out.Exit != nil {
			return s.out.Exit.Reason
		}
		s.disk.Submit(s.out.Disk)
		s.now.Mono = max(s.now.Mono, min(s.disk.NextDeadline(), s.out.Deadline))
	}
	s.t.Fatal("the node did not end")
	return ""
}

// Goal: the last word of a broker that damage keeps from starting names file,
// offset and sequence, as its log does, and says what was changed and what was not.
func TestLastWordOnDamage(t *testing.T) {
	for _, c := range []struct {
		name, prefix string
		harm         func(s *stage, path string)
		want         []string
		never        string
	}{
		{"a checkpoint", "checkpoints/log-", func(s *stage, path string) { s.disk.Rot(path, 150, []byte{1}) },
			[]string{"damage in checkpoints/log-", " offset 128 sequence ", "nothing was changed"}, "moved"},
		{"the metadata log", "metadata/0", func(s *stage, path string) { s.disk.Rot(path, 80, []byte{1}) },
			[]string{"METADATA_QUARANTINED: metadata/0", " offset 64 sequence ", "was moved to metadata/quarantine, nothing else was changed"}, "; nothing was changed"},
		{"a metadata log that is gone", "metadata/0", func(s *stage, path string) { s.disk.Lose(path) },
			[]string{"METADATA_QUARANTINED: metadata/0", "missing; nothing was changed"}, "moved"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, func(c *Config) { c.Store.CheckpointEvery = clock.Second })
			p := s.connect()
			p.publish(p.declare("orders", 1), 0, "a")
			s.until("a checkpoint", func() bool { return s.node.store.Stats().Checkpoints > 0 && !s.node.store.Checkpointing() })
			s.disk.Crash(simdisk.PowerLoss)
			s.disk.Restart()
			for _, path := range s.disk.Files() {
				if strings.HasPrefix(path, c.prefix) {
					c.harm(s, path)
				}
			}
			reason := s.ending()
			for _, want := range c.want {
				if !strings.Contains(reason, want) {
					t.Errorf("%q is not in %q", want, reason)
				}
			}
			if strings.Contains(reason, c.never) {
				t.Errorf("%q is in %q", c.never, reason)
			}
			if last := s.logs[len(s.logs)-1]; !strings.HasPrefix(last, "damage: ") || !strings.Contains(last, " offset ") {
				t.Errorf("logged: %q", last)
			}
		})
	}
}

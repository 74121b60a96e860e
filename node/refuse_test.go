package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
)

// refused publishes a value and gives the code that it is refused with.
func (p *peer) refused(topic, partition uint16, value string) wire.Err {
	p.s.t.Helper()
	p.send((&wire.Pub{TopicID: topic, Partition: partition, Value: []byte(value)}).Append(nil))
	var e wire.Err
	if err := e.Decode(p.take(wire.OpErr)); err != nil {
		p.s.t.Fatal(err)
	}
	return e
}

// Goal: a partition whose end is damaged takes no publish: the store would count it
// and not keep it. The others go on, and what is damaged stays so over a checkpoint
// and a start.
func TestDamagedPartitionTakesNothing(t *testing.T) {
	s := newStage(t, func(c *Config) { c.Store.CheckpointEvery = clock.Second })
	p := s.connect()
	orders := p.declare("orders", 2)
	p.publish(orders, 0, "a")
	p.publish(orders, 1, "b")
	s.until("a checkpoint", func() bool { return s.node.store.Stats().Checkpoints > 0 && !s.node.store.Checkpointing() })
	s.kill()
	if !s.disk.Rot(fmt.Sprintf("topics/%d/0/1.mqs", orders), 8, []byte{0xFF}) {
		t.Fatal("no segment to rot")
	}
	for range 2 {
		s.kill()
		p = s.connect()
		if e := p.refused(orders, 0, "never"); e.Code != wire.CodeInternal {
			t.Fatalf("%v %s", e.Code, e.Message)
		}
		p.publish(orders, 1, "c")
		s.pass(3 * clock.Second)
	}
}

// Goal: beyond its cap the journal takes no publish, but what settles goes on; a
// checkpoint makes room again.
func TestJournalCap(t *testing.T) {
	s := newStage(t, func(c *Config) {
		c.Store.JournalFileBytes, c.Store.JournalCapBytes = 256<<10, 1<<20
		c.Store.CheckpointBytes, c.Store.CheckpointEvery = 1<<40, clock.Minute
	})
	p := s.connect()
	orders := p.declare("orders", 1)
	value := strings.Repeat("x", 60<<10)
	for n := 0; !s.node.store.JournalFull(); n++ {
		if n > 40 {
			t.Fatalf("%d publishes, and the journal holds %d bytes", n, s.node.store.Stats().JournalBytes)
		}
		p.publish(orders, 0, value)
	}
	if e := p.refused(orders, 0, value); e.Code != wire.CodeBackpressure {
		t.Fatalf("%v %s", e.Code, e.Message)
	}
	p.join(orders, "g", 1, 0)
	msg := p.consume(1)[0]
	p.ack(&msg)
	s.pass(2 * clock.Minute)
	p = s.connect()
	p.publish(orders, 0, value)
}

// Goal: what was acknowledged and lies in the journal alone is kept, over the
// checkpoints that let go of the journal, though the end of its partition is damaged;
// it is read once the damage is repaired, and so is the rest.
func TestDamageKeepsWhatTheJournalHas(t *testing.T) {
	s := newStage(t, func(c *Config) { c.Store.CheckpointEvery = clock.Second })
	p := s.connect()
	orders := p.declare("orders", 1)
	p.publish(orders, 0, "a")
	s.until("a checkpoint", func() bool { return s.node.store.Stats().Checkpoints > 0 && !s.node.store.Checkpointing() })
	p.publish(orders, 0, "in the journal")
	s.kill()
	rot := func() {
		if !s.disk.Rot(fmt.Sprintf("topics/%d/0/1.mqs", orders), 8, []byte{0xFF}) {
			t.Fatal("no segment to rot")
		}
	}
	rot()
	s.kill()
	p = s.connect()
	if e := p.refused(orders, 0, "never"); e.Code != wire.CodeInternal {
		t.Fatalf("%v %s", e.Code, e.Message)
	}
	s.pass(3 * clock.Second)
	rot()
	s.kill()
	for i, want := range []string{"a", "in the journal"} {
		a := s.must(Query{Kind: QueryTail, Topic: "orders", From: []uint64{uint64(i + 1)}, Max: 1})
		if len(a.Records) != 1 || string(a.Records[0].Value) != want {
			t.Fatalf("%+v", a.Records)
		}
	}
}

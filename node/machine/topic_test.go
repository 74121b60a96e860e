package machine

import (
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// Goal: DECLARE answers as wire-protocol.md says, in each case.
func TestDeclare(t *testing.T) {
	l := newLog(t, op.Settings{MaxTopics: 3, PartitionDefaultCount: 7})
	create := func(name string, n uint16) op.Op {
		return op.Op{Kind: op.KindTopicCreate, Name: []byte(name), Partitions: n}
	}
	if id := l.topic("a", 2); id != 1 {
		t.Fatal(id)
	}
	if id := l.topic("b.c", 0); id != 3 {
		t.Fatal(id)
	}
	for _, c := range []struct {
		name    string
		n       uint16
		code    wire.Code
		id      op.TopicID
		parts   uint16
		created uint8
	}{
		{"a", 2, wire.CodeOK, 1, 2, CreatedExisting},
		{"a", 0, wire.CodeOK, 1, 2, CreatedExisting},
		{"a", 3, wire.CodeTopicExistsMismatch, 0, 0, 0},
		{"a.dlq", 0, wire.CodeOK, 2, 2, CreatedExisting},
		{"a.dlq", 2, wire.CodeOK, 2, 2, CreatedExisting},
		{"a.dlq", 4, wire.CodeTopicExistsMismatch, 0, 0, 0},
		{"b.c", 7, wire.CodeOK, 3, 7, CreatedExisting},
		{"x.dlq", 0, wire.CodeUnknownTopic, 0, 0, 0},
		{"a.dlq.dlq", 0, wire.CodeInvalidTopic, 0, 0, 0},
		{"", 1, wire.CodeInvalidTopic, 0, 0, 0},
		{"$a", 1, wire.CodeInvalidTopic, 0, 0, 0},
		{"a..b", 1, wire.CodeInvalidTopic, 0, 0, 0},
		{strings.Repeat("x", 256), 1, wire.CodeInvalidTopic, 0, 0, 0},
		{"z", 1025, wire.CodeMutationNotPackable, 0, 0, 0},
	} {
		if c.code != wire.CodeOK {
			l.refused(c.code, create(c.name, c.n))
			continue
		}
		r := l.must(create(c.name, c.n))
		if r.TopicID != c.id || r.Partitions != c.parts || r.Created != c.created {
			t.Fatalf("%s/%d: %+v", c.name, c.n, r)
		}
	}
	if id := l.topic(strings.Repeat("x", 255), 1024); id != 5 {
		t.Fatal(id)
	}
	l.refused(wire.CodeQuotaExceeded, create("too.many", 1))
	if l.v.Topics() != 3 {
		t.Fatal(l.v.Topics())
	}
	tv, _ := l.v.Topic(6)
	if !tv.IsTwin || !strings.HasSuffix(tv.Name, "x.dlq") {
		t.Fatalf("%+v", tv)
	}
	var ids []op.TopicID
	for tv, ok := l.v.NextTopic(0); ok; tv, ok = l.v.NextTopic(tv.ID) {
		ids = append(ids, tv.ID)
	}
	if len(ids) != 6 || ids[0] != 1 || ids[5] != 6 {
		t.Fatal(ids)
	}
}

// Goal: a deleted topic takes its twin and the groups of both along, and its ids
// never come back.
func TestTopicDelete(t *testing.T) {
	l := newLog(t, op.Settings{})
	id := l.topic("a", 1)
	l.publish(id, 0, 3)
	g, member := l.join("g", id)
	d, own := l.deliver(g, 0, 1, 3)
	twinGroup, _ := l.join("h", id+1)
	other := l.topic("b", 1)
	kept, _ := l.join("k", other)

	l.refused(wire.CodeInvalidTopic, op.Op{Kind: op.KindTopicDelete, Name: []byte("a.dlq")})
	if r := l.must(op.Op{Kind: op.KindTopicDelete, Name: []byte("nope")}); r.Created != CreatedNotFound || r.TopicID != 0 {
		t.Fatalf("%+v", r)
	}
	if r := l.must(op.Op{Kind: op.KindTopicDelete, Name: []byte("a")}); r.Created != CreatedDeleted || r.TopicID != id {
		t.Fatalf("%+v", r)
	}
	for _, gone := range []op.GroupID{g, twinGroup} {
		if _, ok := l.v.Group(gone); ok {
			t.Fatalf("group %d is still there", gone)
		}
	}
	if _, ok := l.v.Group(kept); !ok {
		t.Fatal("a group of another topic went too")
	}
	l.refused(wire.CodeUnknownTopic, op.Op{Kind: op.KindPublish, Topic: id})
	l.refused(wire.CodeUnknownTopic, op.Op{Kind: op.KindAck, Group: g, Sequence: 1, Delivery: d, Ownership: own})
	l.must(op.Op{Kind: op.KindLeave, Group: g, Member: member})
	if again := l.topic("a", 1); again != 5 {
		t.Fatalf("topic id %d", again)
	}
	g2, _ := l.join("g", 5)
	if w, _ := l.v.Owner(g2, 0); g2 == g || w.Epoch <= own {
		t.Fatalf("group %d, ownership epoch %d: was %d, %d", g2, w.Epoch, g, own)
	}
}

// Goal: a metadata op that follows another mutation than the last is fenced.
func TestMutationFenced(t *testing.T) {
	l := newLog(t, op.Settings{})
	l.topic("a", 1)
	id := l.v.MutationID()
	l.refused(wire.CodeMutationFenced, op.Op{Kind: op.KindTopicCreate, Name: []byte("b"), Mutation: id - 1})
	l.refused(wire.CodeMutationFenced, op.Op{Kind: op.KindTopicCreate, Name: []byte("b"), Mutation: id + 1})
	l.must(op.Op{Kind: op.KindTopicCreate, Name: []byte("b"), Mutation: id})
	if l.v.MutationID() != id+1 {
		t.Fatal(l.v.MutationID())
	}
}

// Goal: all 32767 pairs can be handed out, and not one more.
func TestTopicIDsEnd(t *testing.T) {
	m := New()
	h := op.Header{Number: 1, Epoch: 1}
	var res Result
	name := []byte("t")
	for i := range wire.MaxTopicPairs {
		m.Apply(&h, &op.Op{Kind: op.KindTopicCreate, Name: name, Partitions: 1}, &res)
		if int(res.TopicID) != 2*i+1 {
			t.Fatalf("%d: %+v", i, res)
		}
		m.Apply(&h, &op.Op{Kind: op.KindTopicDelete, Name: name}, &res)
	}
	m.Apply(&h, &op.Op{Kind: op.KindTopicCreate, Name: name, Partitions: 1}, &res)
	if res.Code != wire.CodeQuotaExceeded {
		t.Fatalf("%+v", res)
	}
}

package machine

import (
	"testing"

	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// log drives a machine: it numbers entries and keeps log time.
type log struct {
	t  testing.TB
	m  *Machine
	v  View
	h  op.Header
	id uint64
}

func newLog(t testing.TB, s op.Settings) *log {
	m := New()
	l := &log{t: t, m: m, v: m.View()}
	l.h.Epoch = 1
	l.must(op.Op{Kind: op.KindEpochStart, Settings: s})
	return l
}

// do applies o in an entry of its own and checks the state behind it.
func (l *log) do(o op.Op) Result {
	l.t.Helper()
	var res Result
	l.h.Number++
	l.m.Apply(&l.h, &o, &res)
	if err := l.m.Check(); err != nil {
		l.t.Fatalf("after %v: %v", o.Kind, err)
	}
	return res
}

func (l *log) must(o op.Op) Result {
	l.t.Helper()
	res := l.do(o)
	if res.Code != wire.CodeOK {
		l.t.Fatalf("%v: %v %s", o.Kind, res.Code, res.Message)
	}
	return res
}

// refused applies o, wants code, and checks that it left no trace.
func (l *log) refused(code wire.Code, o op.Op) {
	l.t.Helper()
	var res Result
	l.h.Number++
	l.m.number, l.m.epoch, l.m.logTime = l.h.Number, l.h.Epoch, l.h.LogTime
	before := l.m.Digest()
	l.m.Apply(&l.h, &o, &res)
	if res.Code != code || res.Message == "" || res.Append.Present {
		l.t.Fatalf("%v: %+v, want %v", o.Kind, res, code)
	}
	if l.m.Digest() != before {
		l.t.Fatalf("%v: the refusal left a trace", o.Kind)
	}
}

func (l *log) topic(name string, partitions uint16) op.TopicID {
	l.t.Helper()
	return l.must(op.Op{Kind: op.KindTopicCreate, Name: []byte(name), Partitions: partitions}).TopicID
}

func (l *log) publish(t op.TopicID, p op.PartitionID, n int) {
	l.t.Helper()
	for range n {
		l.must(op.Op{Kind: op.KindPublish, Topic: t, Partition: p, Value: []byte("v")})
	}
}

func (l *log) join(group string, t op.TopicID) (op.GroupID, op.MemberID) {
	l.t.Helper()
	l.id++
	r := l.must(op.Op{Kind: op.KindJoin, Name: []byte(group), Topic: t, Member: op.MemberID(op.MakeID(l.h.Epoch, l.id))})
	return r.Group, r.Member
}

// deliver hands out count messages from seq on; the first gets the id returned.
func (l *log) deliver(g op.GroupID, p op.PartitionID, seq op.Sequence, count uint32) (op.DeliveryID, op.OwnershipEpoch) {
	l.t.Helper()
	w, _ := l.v.Owner(g, p)
	d := op.DeliveryID(op.MakeID(l.h.Epoch, l.id+1))
	l.id += uint64(count)
	r := l.must(op.Op{Kind: op.KindDeliver, Group: g, Partition: p, Sequence: seq, Count: count, Delivery: d, Ownership: w.Epoch})
	if r.Count != uint64(count) {
		l.t.Fatalf("deliver %d from %d: %d took effect", count, seq, r.Count)
	}
	return d, w.Epoch
}

func (l *log) cursor(g op.GroupID, p op.PartitionID) CursorView {
	l.t.Helper()
	c, ok := l.v.Cursor(g, p)
	if !ok {
		l.t.Fatal("no cursor")
	}
	return c
}

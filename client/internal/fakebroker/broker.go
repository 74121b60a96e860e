// Package fakebroker is a broker for tests of the client: it speaks the client protocol, keeps its log in memory, and refuses
// what the test tells it to refuse. It is deterministic and has no time of its own. It shows what reached it: the log of each
// partition as dedup left it, and every rule that a client broke.
//
// It is no model of durability, leases or limits: what it accepts is committed at once.
package fakebroker

import (
	"fmt"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
)

// Record is a committed message.
type Record struct {
	ProducerID  uint64
	ProducerSeq uint64
	Key, Value  string
}

// Partition is a log with its dedup windows. Sequence n is Log[n-1].
type Partition struct {
	Log     []Record
	windows map[uint64]map[uint64]uint64 // producer_id, producer_seq: sequence
	last    map[uint64]uint64            // highest producer_seq
}

// Topic is one topic.
type Topic struct {
	ID         uint16
	Name       string
	Partitions []*Partition
	Deleted    bool
}

// Broker is the state that outlives connections.
type Broker struct {
	// Token is what CONNECT must carry; empty for any.
	Token string
	// DefaultPartitions is the partition count of a topic declared with 0. Default 4.
	DefaultPartitions int
	// NodeID, LeaderID and LeaderAddr are what CONNECT's OK says. A broker that does not lead refuses everything else.
	NodeID, LeaderID uint16
	LeaderAddr       string
	// Refuse, if set, is asked for each request but CONNECT, PING and what leaves a group, before it is looked at.
	Refuse func(op wire.Op) (wire.Code, string)
	// RefuseAfter is the same, but the request has had its effect.
	RefuseAfter func(op wire.Op) (wire.Code, string)
	// RetryBackoff is when a failed delivery is due again. Default 1 s.
	RetryBackoff clock.Duration
	// NoWait answers every PULL at once.
	NoWait bool
	// Now is the time: the test moves it, and calls Tick.
	Now clock.Instant

	Topics   []*Topic
	Groups   []*Group
	Sessions []*Session
	// Broken are rules of the protocol that a client broke.
	Broken []string
	// Requests counts requests by op.
	Requests [256]int

	ids uint64 // members, deliveries, notices
}

// New gives a broker that leads, node 1.
func New() *Broker {
	return &Broker{NodeID: 1, LeaderID: 1, DefaultPartitions: 4, RetryBackoff: clock.Second}
}

func (b *Broker) broke(format string, args ...any) {
	b.Broken = append(b.Broken, fmt.Sprintf(format, args...))
}

func (b *Broker) nextID() uint64 { b.ids++; return 1<<40 | b.ids }

// Topic finds a topic by name, nil where there is none.
func (b *Broker) Topic(name string) *Topic {
	for _, t := range b.Topics {
		if t.Name == name && !t.Deleted {
			return t
		}
	}
	return nil
}

// Declare makes a topic or finds it.
func (b *Broker) Declare(name string, partitions int) (*Topic, bool) {
	if t := b.Topic(name); t != nil {
		return t, false
	}
	if partitions == 0 {
		partitions = b.DefaultPartitions
	}
	t := &Topic{ID: uint16(2*len(b.Topics) + 1), Name: name}
	for range partitions {
		t.Partitions = append(t.Partitions, &Partition{windows: map[uint64]map[uint64]uint64{}, last: map[uint64]uint64{}})
	}
	b.Topics = append(b.Topics, t)
	return t, true
}

func (b *Broker) topicByID(id uint16) *Topic {
	for _, t := range b.Topics {
		if t.ID == id && !t.Deleted {
			return t
		}
	}
	return nil
}

// Publish is what a PUB does: the sequence, whether it was there, or a refusal.
func (b *Broker) Publish(m *wire.Pub) (seq uint64, dup bool, code wire.Code) {
	t := b.topicByID(m.TopicID)
	if t == nil {
		return 0, false, wire.CodeUnknownTopic
	}
	if int(m.Partition) >= len(t.Partitions) {
		return 0, false, wire.CodeUnknownPartition
	}
	if code := m.CheckProducer(); code != wire.CodeOK {
		return 0, false, code
	}
	p := t.Partitions[m.Partition]
	if m.ProducerID != 0 {
		if at, ok := p.windows[m.ProducerID][m.ProducerSeq]; ok && m.ProducerSeq+wire.DedupWindow > p.last[m.ProducerID] {
			if old := p.Log[at-1]; old.Value != string(m.Value) || old.Key != string(m.Key) {
				b.broke("producer %x sequence %d carries two messages: %q and %q", m.ProducerID, m.ProducerSeq, old.Value, m.Value)
			}
			return at, true, wire.CodeOK
		}
		last, known := p.last[m.ProducerID]
		switch {
		case !known && m.ProducerSeq != 1, m.ProducerSeq <= last:
			return 0, false, wire.CodeSeqExpired
		case m.ProducerSeq > last+1:
			return 0, false, wire.CodeSeqGap
		}
		if p.windows[m.ProducerID] == nil {
			p.windows[m.ProducerID] = map[uint64]uint64{}
		}
		p.windows[m.ProducerID][m.ProducerSeq] = uint64(len(p.Log) + 1)
		p.last[m.ProducerID] = m.ProducerSeq
	}
	p.Log = append(p.Log, Record{ProducerID: m.ProducerID, ProducerSeq: m.ProducerSeq, Key: string(m.Key), Value: string(m.Value)})
	return uint64(len(p.Log)), false, wire.CodeOK
}

// Forget drops every dedup window.
func (b *Broker) Forget() {
	for _, t := range b.Topics {
		for _, p := range t.Partitions {
			clear(p.windows)
			clear(p.last)
		}
	}
}

// Tick lets everything happen whose time has come.
func (b *Broker) Tick() {
	for _, g := range b.Groups {
		g.tick()
	}
	for _, s := range b.Sessions {
		s.servePulls(false)
	}
}

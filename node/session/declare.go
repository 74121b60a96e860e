package session

import (
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// declare carries out DECLARE, and DELETE, which is a flag of it.
func (s *Sessions) declare(i uint32, c *conn, n uint64, payload []byte) {
	var m wire.Declare
	if err := m.Decode(payload); err != nil {
		s.refuseBad(i, c, n, err)
		return
	}
	remove := m.Flags&wire.FlagDeclareDelete != 0
	if wire.IsDLQName(m.Topic) {
		s.declareTwin(i, c, n, &m, remove)
		return
	}
	if err := wire.CheckTopicName(m.Topic); err != nil {
		s.refuseBad(i, c, n, err)
		return
	}
	if code := m.CheckPartitionCount(); code != wire.CodeOK {
		s.refuse(i, c, n, code, "partition_count is above 1024: ask for fewer")
		return
	}
	s.o = op.Op{Kind: op.KindTopicCreate, Name: m.Topic, Partitions: m.PartitionCount}
	if remove {
		s.o = op.Op{Kind: op.KindTopicDelete, Name: m.Topic}
	}
	s.proposeBarrier(i, c, n)
}

// declareTwin answers a DECLARE of a dead-letter topic, which comes and goes with
// its source.
func (s *Sessions) declareTwin(i uint32, c *conn, n uint64, m *wire.Declare, remove bool) {
	if remove {
		s.refuse(i, c, n, wire.CodeInvalidTopic, "a dead-letter topic is deleted with its source: delete that")
		return
	}
	t, ok := s.view.TopicByName(m.Topic)
	switch {
	case !ok:
		s.refuse(i, c, n, wire.CodeUnknownTopic, "a dead-letter topic comes with its source: declare that first (mortarmq topics create NAME)")
		return
	case m.PartitionCount != 0 && m.PartitionCount != t.Partitions:
		s.refuse(i, c, n, wire.CodeTopicExistsMismatch, "a dead-letter topic has its source's partition_count: ask for that or for 0")
		return
	}
	r := c.ring.at(n)
	r.kind, r.small, r.a, r.b = answerDeclare, uint16(t.ID), uint64(t.Partitions), uint64(wire.DeclareIdempotent)
	s.decided(i, c, n)
}

// proposeBarrier proposes s.o for a request, and holds back the frames behind it
// until its outcome.
func (s *Sessions) proposeBarrier(i uint32, c *conn, n uint64) {
	if code := s.broker.Propose(&s.o, c.ref(i, n)); code != wire.CodeOK {
		s.refuse(i, c, n, code, "")
		return
	}
	c.ring.at(n).flags |= flagBarrier
	c.hold |= holdBarrier
}

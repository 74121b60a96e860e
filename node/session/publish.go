package session

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// publish carries out PUB: what the applied state decides for good is answered
// at once, the rest becomes an op.
func (s *Sessions) publish(i uint32, c *conn, n uint64, payload []byte) {
	var m wire.Pub
	if err := m.Decode(payload); err != nil {
		s.refuseBad(i, c, n, err)
		return
	}
	if code := m.CheckProducer(); code != wire.CodeOK {
		s.refuse(i, c, n, code, "producer_id, producer_seq, partition and key do not go together: fix the client")
		return
	}
	t, ok := s.view.Topic(op.TopicID(m.TopicID))
	if !ok {
		s.refuse(i, c, n, wire.CodeUnknownTopic, "no topic has this id: declare it first (mortarmq topics create NAME)")
		return
	}
	if t.IsTwin {
		s.refuse(i, c, n, wire.CodeInvalidTopic, "a dead-letter topic takes no PUB: publish to its source")
		return
	}
	part := m.Partition
	if part == wire.PartitionAny {
		part = s.place(&m, t.Partitions)
	}
	if part >= t.Partitions {
		s.refuse(i, c, n, wire.CodeUnknownPartition, "partition is not below the topic's partition_count: fix the client")
		return
	}
	r := c.ring.at(n)
	r.small = part
	if m.Flags&wire.FlagPubWantPartition != 0 {
		r.flags |= flagWantPartition
	}
	if m.ProducerID != 0 && s.publishedBefore(i, c, n, &m, part) {
		return
	}
	if !s.withinRate(c) {
		s.refuse(i, c, n, wire.CodeRateLimited, "more PUBs a second than publish_rate_limit allows on one connection: back off")
		return
	}
	s.o = op.Op{
		Kind: op.KindPublish, Topic: op.TopicID(m.TopicID), Partition: op.PartitionID(part),
		ProducerID: m.ProducerID, ProducerSeq: m.ProducerSeq, Timestamp: uint64(s.wall), Key: m.Key, Value: m.Value,
	}
	if len(m.Key) > 0 {
		s.o.Flags |= op.FlagKey
	}
	if s.cfg.Quorum {
		s.o.Flags |= op.FlagQuorum
	}
	switch code := s.broker.Propose(&s.o, c.ref(i, n)); code {
	case wire.CodeOK:
	case wire.CodeInternal:
		s.refuse(i, c, n, code, s.broker.Unreadable(s.o.Topic, s.o.Partition, 0))
	default:
		s.refuse(i, c, n, code, "")
	}
}

// place chooses a partition where the publisher left it to the broker: the next
// one that takes something.
func (s *Sessions) place(m *wire.Pub, partitions uint16) uint16 {
	if len(m.Key) > 0 {
		return wire.Partition(m.Key, partitions)
	}
	t := s.topic(op.TopicID(m.TopicID))
	part := t.turn % partitions
	for k := uint16(1); k < partitions && s.broker.Damaged(op.TopicID(m.TopicID), op.PartitionID(part)); k++ {
		part = (part + 1) % partitions
	}
	t.turn = part + 1
	return part
}

// topic gives what is volatile about a topic.
func (s *Sessions) topic(id op.TopicID) *topic {
	if int(id) >= len(s.topics) {
		s.topics = append(s.topics, make([]topic, int(id)+1-len(s.topics))...)
	}
	return &s.topics[id]
}

// publishedBefore answers a publish whose fate the window knows for good.
func (s *Sessions) publishedBefore(i uint32, c *conn, n uint64, m *wire.Pub, part uint16) bool {
	d := s.view.Dedup(op.TopicID(m.TopicID), op.PartitionID(part), m.ProducerID, m.ProducerSeq)
	switch d.Verdict {
	case machine.VerdictDuplicate:
		r := c.ring.at(n)
		r.kind = answerPub
		r.flags |= flagDeduplicated
		r.a, r.b = uint64(d.Sequence), uint64(d.Epoch)
		r.c = uint64(s.view.LastSeq(op.TopicID(m.TopicID), op.PartitionID(part)))
		s.decided(i, c, n)
		return true
	case machine.VerdictExpired:
		s.refuse(i, c, n, wire.CodeSeqExpired, "")
		return true
	default:
		return false
	}
}

// withinRate takes one PUB out of the connection's bucket: publish_rate_limit a
// second, and a second's worth at once.
func (s *Sessions) withinRate(c *conn) bool {
	if s.cfg.PublishRateLimit == 0 {
		return true
	}
	each := clock.Second / clock.Duration(s.cfg.PublishRateLimit)
	full := max(c.rate, s.now).Add(each)
	if full.Sub(s.now) > rateBurst {
		return false
	}
	c.rate = full
	return true
}

// published answers the PUB that an applied publish was proposed for. It is the
// path that every message takes.
func (s *Sessions) published(o *op.Op, res *machine.Result, ref Ref) {
	i, c, ok := s.waiting(ref)
	if !ok {
		return
	}
	if res.Code != wire.CodeOK {
		s.refuse(i, c, ref.Arg, res.Code, res.Message)
		return
	}
	r := c.ring.at(ref.Arg)
	r.kind = answerPub
	if res.Deduplicated {
		r.flags |= flagDeduplicated
	}
	r.a, r.b, r.c = uint64(res.Sequence), uint64(res.LeaderEpoch), uint64(res.CommitSeq)
	s.decided(i, c, ref.Arg)
}

func (s *Sessions) writePub(b []byte, r *request) []byte {
	m := wire.PubResult{Sequence: r.a, LeaderEpoch: r.b, CommitSeq: r.c, HasPartition: r.flags&flagWantPartition != 0, Partition: r.small}
	if s.cfg.Quorum {
		m.Durability = wire.DurabilityQuorum
	}
	if r.flags&flagDeduplicated != 0 {
		m.ResultFlags = wire.ResultDeduplicated
	}
	return m.AppendOK(b)
}

package machine

import (
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// dlqSuffix makes the name of a twin.
const dlqSuffix = ".dlq"

// topic is a source topic with its twin.
type topic struct {
	name         string
	twinName     string // beyond wire.MaxTopicLen it can be shown, not declared
	partitions   uint16
	createdEpoch op.Epoch
	// parts are the partitions of source and twin, nil until the first append.
	parts [2][]partition
}

// pairOf gives the index of a topic's pair and 1 for a twin, 0 for a source.
func pairOf(id op.TopicID) (pair, twin int) {
	return int(id-1) / 2, int(id-1) & 1
}

func sourceID(pair int) op.TopicID { return op.TopicID(2*pair + 1) }

// topic finds topic or twin id; nil where there is none.
func (m *Machine) topic(id op.TopicID) (t *topic, twin int) {
	if id == 0 {
		return nil, 0
	}
	pair, twin := pairOf(id)
	if pair >= len(m.topics) {
		return nil, 0
	}
	return m.topics[pair], twin
}

// partition finds a partition that holds or held records; nil else.
func (m *Machine) partition(id op.TopicID, p op.PartitionID) *partition {
	t, twin := m.topic(id)
	if t == nil || int(p) >= len(t.parts[twin]) {
		return nil
	}
	return &t.parts[twin][p]
}

// lastSeq gives the last sequence of a partition.
func (m *Machine) lastSeq(id op.TopicID, p op.PartitionID) op.Sequence {
	if part := m.partition(id, p); part != nil {
		return part.last
	}
	return 0
}

// topicCreate is DECLARE.
func (m *Machine) topicCreate(o *op.Op, res *Result) {
	if o.Partitions > wire.MaxPartitions {
		res.refuse(wire.CodeMutationNotPackable, "a topic has at most 1024 partitions")
		return
	}
	if source, ok := wire.DLQSource(o.Name); ok {
		m.declareTwin(source, o.Partitions, res)
		return
	}
	if wire.CheckTopicName(o.Name) != nil {
		res.refuse(wire.CodeInvalidTopic, "the topic name breaks a rule")
		return
	}
	if pair, ok := m.topicByName[string(o.Name)]; ok {
		declareExisting(m.topics[pair], sourceID(int(pair)), o.Partitions, res)
		return
	}
	if len(m.topics) >= wire.MaxTopicPairs {
		res.refuse(wire.CodeQuotaExceeded, "the topic ids of this cluster are used up")
		return
	}
	if m.topicsLive >= int(m.settings.MaxTopics) {
		res.refuse(wire.CodeQuotaExceeded, "max_topics is reached: delete a topic or raise it")
		return
	}
	n := o.Partitions
	if n == 0 {
		n = m.settings.PartitionDefaultCount
	}
	t := &topic{name: string(o.Name), partitions: n, createdEpoch: m.epoch}
	m.addTopic(len(m.topics), t)
	m.mutation++
	res.TopicID, res.Partitions, res.Created = sourceID(len(m.topics)-1), n, CreatedNew
}

// addTopic puts t into its place, which is behind all others.
func (m *Machine) addTopic(pair int, t *topic) {
	t.twinName = t.name + dlqSuffix
	for len(m.topics) <= pair {
		m.topics = append(m.topics, nil)
	}
	m.topics[pair] = t
	m.topicByName[t.name] = uint16(pair)
	m.topicsLive++
}

func (m *Machine) declareTwin(source []byte, partitions uint16, res *Result) {
	pair, ok := m.topicByName[string(source)]
	if !ok {
		res.refuse(wire.CodeUnknownTopic, "a dead-letter twin comes with its topic: declare that first")
		return
	}
	declareExisting(m.topics[pair], sourceID(int(pair))+1, partitions, res)
}

func declareExisting(t *topic, id op.TopicID, partitions uint16, res *Result) {
	if partitions != 0 && partitions != t.partitions {
		res.refuse(wire.CodeTopicExistsMismatch, "the topic exists with another partition count")
		return
	}
	res.TopicID, res.Partitions, res.Created = id, t.partitions, CreatedExisting
}

// topicDelete removes a topic, its twin and their groups. The pair stays taken.
func (m *Machine) topicDelete(o *op.Op, res *Result) {
	if wire.CheckTopicName(o.Name) != nil {
		res.refuse(wire.CodeInvalidTopic, "the name breaks a rule, or is a dead-letter twin's: delete its topic")
		return
	}
	pair, ok := m.topicByName[string(o.Name)]
	if !ok {
		res.Created = CreatedNotFound
		return
	}
	id := sourceID(int(pair))
	for _, g := range m.groups {
		if g != nil && (g.topic == id || g.topic == id+1) {
			m.removeGroup(g)
		}
	}
	t := m.topics[pair]
	for twin, parts := range t.parts {
		for p := range parts {
			m.removePartition(partitionKey{id + op.TopicID(twin), op.PartitionID(p)}, &parts[p])
		}
	}
	delete(m.topicByName, t.name)
	m.topics[pair] = nil
	m.topicsLive--
	m.mutation++
	res.TopicID, res.Created = id, CreatedDeleted
}

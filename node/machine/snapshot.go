package machine

import (
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// snapshotVersion is the first byte of a snapshot.
const snapshotVersion = 1

// noMember stands for "nobody" where a snapshot names a member by its index.
const noMember = 0xFF

// Bits of a topic and of an ownership in a snapshot.
const (
	topicPresent  = 1
	ownerRevoking = 1
)

// EncodeMetadata appends a snapshot of what the metadata log is about: settings,
// topics, groups, owners, epochs and the mutation id. Big-endian:
//
//	version 1, mutation id 8, settings (attempts 2, backoff base 4, max 4,
//	partitions 2, topics 2, window bytes 8), epoch floors (membership 4,
//	assignment 4, ownership 8), last group id 2
//	pairs 2, for each: 0 if deleted; else 1, partitions 2, epoch 4, name length
//	1, name
//	groups 2, for each in rising order of id: id 2, topic 2, start policy 1,
//	membership epoch 4, assignment epoch 4, hold until 8, name length 1, name,
//	members 1, then 8 each; for each partition: epoch 8, owner 1 and target 1
//	as index of the member or 255, revoking 1
func (m *Machine) EncodeMetadata(b []byte) []byte {
	b = putU64(append(b, snapshotVersion), m.mutation)
	s := &m.settings
	b = putU32(putU32(putU16(b, s.DeliveryMaxAttempts), s.RetryBackoffBaseMs), s.RetryBackoffMaxMs)
	b = putU64(putU16(putU16(b, s.PartitionDefaultCount), s.MaxTopics), s.ProducerWindowBytes)
	f := &m.epochFloor
	b = putU64(putU32(putU32(b, f.membership), f.assignment), uint64(f.ownership))
	b = putU16(b, uint16(m.lastGroup))
	b = putU16(b, uint16(len(m.topics)))
	for _, t := range m.topics {
		if t == nil {
			b = append(b, 0)
			continue
		}
		b = putU16(append(b, topicPresent), t.partitions)
		b = append(putU32(b, uint32(t.createdEpoch)), byte(len(t.name)))
		b = append(b, t.name...)
	}
	b = putU16(b, uint16(m.groupsLive))
	for _, g := range m.groups {
		if g != nil {
			b = g.encode(b)
		}
	}
	return b
}

func (g *group) encode(b []byte) []byte {
	b = append(putU16(putU16(b, uint16(g.id)), uint16(g.topic)), g.startPolicy)
	b = putU32(putU32(b, g.membershipEpoch), g.assignmentEpoch)
	b = append(putU64(b, uint64(g.holdUntil)), byte(len(g.name)))
	b = append(b, g.name...)
	b = append(b, byte(g.memberCount))
	for _, id := range g.members() {
		b = putU64(b, uint64(id))
	}
	index := func(id op.MemberID) byte {
		if id == 0 {
			return noMember
		}
		return byte(memberIndex(g.members(), id))
	}
	for p := range g.owners {
		w := &g.owners[p]
		flags := byte(0)
		if w.revoking {
			flags = ownerRevoking
		}
		b = append(putU64(b, uint64(w.epoch)), index(w.owner), index(w.target), flags)
	}
	return b
}

// LoadMetadata loads a snapshot into a machine that New just made.
func (m *Machine) LoadMetadata(data []byte) error {
	m.loading = true
	r := &reader{b: data}
	if v := r.u8(); v != snapshotVersion {
		return damaged("metadata snapshot of version %d", v)
	}
	m.mutation = r.u64()
	m.settings = op.Settings{
		DeliveryMaxAttempts: r.u16(), RetryBackoffBaseMs: r.u32(), RetryBackoffMaxMs: r.u32(),
		PartitionDefaultCount: r.u16(), MaxTopics: r.u16(), ProducerWindowBytes: r.u64(),
	}
	m.epochFloor = epochs{r.u32(), r.u32(), op.OwnershipEpoch(r.u64())}
	m.lastGroup = op.GroupID(r.u16())
	pairs := int(r.u16())
	if pairs > wire.MaxTopicPairs {
		return damaged("%d topics", pairs)
	}
	for pair := range pairs {
		if r.bad {
			break
		}
		if r.u8() != topicPresent {
			m.topics = append(m.topics, nil)
			continue
		}
		t := &topic{partitions: r.u16(), createdEpoch: op.Epoch(r.u32())}
		t.name = string(r.take(int(r.u8())))
		_, twice := m.topicByName[t.name]
		if r.bad || t.partitions == 0 || t.partitions > wire.MaxPartitions || t.name == "" || twice {
			return damaged("topic %d", sourceID(pair))
		}
		m.addTopic(pair, t)
	}
	for range r.u16() {
		if err := m.loadGroup(r); err != nil {
			return err
		}
	}
	if r.bad || len(r.b) > 0 {
		return damaged("metadata snapshot is cut short or too long")
	}
	return nil
}

func (m *Machine) loadGroup(r *reader) error {
	g := &group{id: op.GroupID(r.u16()), topic: op.TopicID(r.u16()), startPolicy: r.u8()}
	g.membershipEpoch, g.assignmentEpoch, g.holdUntil = r.u32(), r.u32(), op.LogMillis(r.u64())
	g.name = string(r.take(int(r.u8())))
	members := int(r.u8())
	t, _ := m.topic(g.topic)
	_, twice := m.groupByName[g.name]
	if r.bad || g.id == 0 || t == nil || g.name == "" || twice || m.group(g.id) != nil || members > maxMembers {
		return damaged("group %d", g.id)
	}
	for i := range members {
		g.member[i] = op.MemberID(r.u64())
		if g.member[i] == 0 || i > 0 && g.member[i] <= g.member[i-1] {
			return damaged("members of group %d", g.id)
		}
	}
	g.memberCount = members
	m.addGroup(g, t.partitions)
	member := func() op.MemberID {
		i := int(r.u8())
		if i < members {
			return g.member[i]
		}
		r.bad = r.bad || i != noMember
		return 0
	}
	for p := range g.owners {
		w := &g.owners[p]
		w.epoch, w.owner, w.target = op.OwnershipEpoch(r.u64()), member(), member()
		if w.revoking = r.u8() == ownerRevoking; w.revoking {
			g.revokes++
		}
	}
	if r.bad {
		return damaged("owners of group %d", g.id)
	}
	return nil
}

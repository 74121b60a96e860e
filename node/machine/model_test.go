package machine

import (
	"slices"
	"strings"

	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// The model says again, in maps and slices and from the specification alone,
// what Apply must do. It is slow, keeps everything, and shares no code with the
// machine but the ops, the codes and the cost constants. Of two things that the
// specification leaves open, the jitter of a backoff and which of several best
// assignments is taken, it judges what the machine did and goes along.

type mAccept struct {
	pseq  uint64
	seq   op.Sequence
	epoch op.Epoch
}

type mProducer struct {
	accepted []mAccept
	active   op.LogMillis
	order    int // of its last accept, among all
}

type mPart struct {
	stamps    []uint64 // by record
	producers map[uint64]*mProducer
	redriven  map[op.Sequence]bool
	purged    op.Sequence
}

// purgedLive counts the dead letters that were live when they were purged.
func (p *mPart) purgedLive() (n uint64) {
	for s := op.Sequence(1); s <= p.purged; s++ {
		if !p.redriven[s] {
			n++
		}
	}
	return n
}

type mTopic struct {
	id    op.TopicID
	name  string
	epoch op.Epoch
	n     uint16
	parts [2][]*mPart
}

type mMessage struct {
	state    DeliveryState
	delivery op.DeliveryID
	own      op.OwnershipEpoch
	attempts int
	charges  int
	due      op.LogMillis
}

type mGP struct {
	owner, target op.MemberID
	epoch         op.OwnershipEpoch
	revoking      bool

	start                                         int64
	next                                          op.Sequence
	delivered, dropped, dlq, quarantined, retries uint64
	msgs                                          map[op.Sequence]*mMessage
}

type mGroup struct {
	id       op.GroupID
	name     string
	topic    op.TopicID
	members  []op.MemberID
	mem, asg uint32
	hold     op.LogMillis
	parts    []*mGP
}

type model struct {
	epoch   op.Epoch
	now     op.LogMillis
	set     op.Settings
	topics  []*mTopic // nil where deleted
	groups  map[op.GroupID]*mGroup
	accepts int
}

func (m *model) topic(id op.TopicID) (*mTopic, int) {
	for _, t := range m.topics {
		if t != nil && (t.id == id || t.id+1 == id) {
			return t, int(id - t.id)
		}
	}
	return nil, 0
}

func (m *model) byName(name string) *mTopic {
	for _, t := range m.topics {
		if t != nil && t.name == name {
			return t
		}
	}
	return nil
}

func (m *model) part(id op.TopicID, p op.PartitionID) *mPart {
	t, twin := m.topic(id)
	return t.parts[twin][p]
}

func (m *model) cost() (c uint64) {
	for _, t := range m.topics {
		if t == nil {
			continue
		}
		for _, p := range t.parts[0] {
			for _, pr := range p.producers {
				c += windowCost
				w := pr.accepted[max(0, len(pr.accepted)-1024):]
				for i := 1; i < len(w); i++ {
					if w[i].epoch != w[i-1].epoch || w[i].seq != w[i-1].seq+1 {
						c += runCost
					}
				}
			}
		}
	}
	return c
}

// publish gives the code, and for a duplicate its first accept.
func (m *model) publish(o *op.Op) (wire.Code, *mAccept) {
	t, twin := m.topic(o.Topic)
	if t == nil {
		return wire.CodeUnknownTopic, nil
	}
	if twin == 1 {
		return wire.CodeInvalidTopic, nil
	}
	if uint16(o.Partition) >= t.n {
		return wire.CodeUnknownPartition, nil
	}
	if o.ProducerID == 0 && o.ProducerSeq > 0 || o.ProducerID > 0 && o.ProducerSeq == 0 {
		return wire.CodeProducerSeqInvalid, nil
	}
	p := t.parts[0][o.Partition]
	if o.ProducerID > 0 {
		pr := p.producers[o.ProducerID]
		if pr == nil {
			if o.ProducerSeq != 1 {
				return wire.CodeSeqExpired, nil
			}
			if m.cost()+windowCost > m.set.ProducerWindowBytes {
				return wire.CodeQuotaExceeded, nil
			}
			pr = &mProducer{}
		} else {
			last := pr.accepted[len(pr.accepted)-1]
			if o.ProducerSeq > last.pseq+1 {
				return wire.CodeSeqGap, nil
			}
			if o.ProducerSeq <= last.pseq {
				if last.pseq-o.ProducerSeq >= 1024 {
					return wire.CodeSeqExpired, nil
				}
				return wire.CodeOK, &pr.accepted[o.ProducerSeq-1]
			}
			if (last.epoch != m.epoch || last.seq != op.Sequence(len(p.stamps))) && m.cost()+runCost > 2*m.set.ProducerWindowBytes {
				return wire.CodeQuotaExceeded, nil
			}
		}
		m.accepts++
		pr.accepted = append(pr.accepted, mAccept{o.ProducerSeq, op.Sequence(len(p.stamps) + 1), m.epoch})
		pr.active, pr.order = m.now, m.accepts
		p.producers[o.ProducerID] = pr
	}
	p.append(o.Timestamp)
	return wire.CodeOK, nil
}

func (p *mPart) append(ts uint64) {
	if n := len(p.stamps); n > 0 {
		ts = max(ts, p.stamps[n-1])
	}
	p.stamps = append(p.stamps, ts)
}

func (m *model) create(o *op.Op) (wire.Code, *mTopic, int) {
	name := string(o.Name)
	if o.Partitions > 1024 {
		return wire.CodeMutationNotPackable, nil, 0
	}
	source, isTwin := strings.CutSuffix(name, ".dlq")
	if t := m.byName(source); t != nil {
		if o.Partitions != 0 && o.Partitions != t.n {
			return wire.CodeTopicExistsMismatch, nil, 0
		}
		twin := 0
		if isTwin {
			twin = 1
		}
		return wire.CodeOK, t, 1 + twin
	}
	if isTwin {
		return wire.CodeUnknownTopic, nil, 0
	}
	live := 0
	for _, t := range m.topics {
		if t != nil {
			live++
		}
	}
	if live >= int(m.set.MaxTopics) {
		return wire.CodeQuotaExceeded, nil, 0
	}
	t := &mTopic{id: op.TopicID(2*len(m.topics) + 1), name: name, epoch: m.epoch, n: o.Partitions}
	if t.n == 0 {
		t.n = m.set.PartitionDefaultCount
	}
	for twin := range t.parts {
		for range t.n {
			t.parts[twin] = append(t.parts[twin], &mPart{producers: map[uint64]*mProducer{}, redriven: map[op.Sequence]bool{}})
		}
	}
	m.topics = append(m.topics, t)
	return wire.CodeOK, t, 0
}

func (m *model) deleteTopic(name string) bool {
	for i, t := range m.topics {
		if t == nil || t.name != name {
			continue
		}
		for id, g := range m.groups {
			if g.topic == t.id || g.topic == t.id+1 {
				delete(m.groups, id)
			}
		}
		m.topics[i] = nil
		return true
	}
	return false
}

func (m *model) groupByName(name string) *mGroup {
	for _, g := range m.groups {
		if g.name == name {
			return g
		}
	}
	return nil
}

func (m *model) join(o *op.Op, newID op.GroupID, base OwnerView, mem, asg uint32) wire.Code {
	t, twin := m.topic(o.Topic)
	if t == nil {
		return wire.CodeUnknownTopic
	}
	g := m.groupByName(string(o.Name))
	if g == nil {
		if o.Flags&op.FlagMustExist != 0 {
			return wire.CodeUnknownGroup
		}
		// Ids and first epochs are the machine's to choose; what they may be is
		// judged where they are seen (checkIDs).
		g = &mGroup{id: newID, name: string(o.Name), topic: o.Topic, mem: mem - 1, asg: asg - 1}
		for p := range t.n {
			gp := &mGP{epoch: base.Epoch, next: 1, msgs: map[op.Sequence]*mMessage{}}
			if o.StartPolicy == 1 {
				gp.start = int64(len(t.parts[twin][p].stamps))
				gp.next = op.Sequence(gp.start + 1)
			}
			g.parts = append(g.parts, gp)
		}
		m.groups[g.id] = g
	}
	if g.topic != o.Topic {
		return wire.CodeGroupExistsMismatch
	}
	if len(g.members) == 10 {
		return wire.CodeGroupMemberLimit
	}
	g.members = append(g.members, o.Member)
	slices.Sort(g.members)
	g.mem++
	return wire.CodeOK
}

// lose makes everything that is out under a partition's epoch due, and ends it.
func (m *model) lose(gp *mGP) {
	for _, msg := range gp.msgs {
		if msg.state == DeliveryOut {
			msg.state, msg.due = DeliveryWaiting, 0
		}
	}
	gp.epoch++
	gp.owner, gp.revoking = 0, false
}

// leave removes a member; a suspect of each of its partitions is charged.
func (m *model) leave(g *mGroup, id op.MemberID, vanished bool, due func(op.PartitionID, op.Sequence) op.LogMillis) {
	for p, gp := range g.parts {
		if gp.owner != id {
			continue
		}
		if vanished {
			low := op.Sequence(0)
			for s, msg := range gp.msgs {
				if msg.state == DeliveryOut && msg.own == gp.epoch && (low == 0 || s < low) {
					low = s
				}
			}
			if low != 0 {
				m.charge(gp.msgs[low], due(op.PartitionID(p), low))
			}
		}
		m.lose(gp)
	}
	g.members = slices.DeleteFunc(g.members, func(x op.MemberID) bool { return x == id })
	g.mem++
}

func (m *model) charge(msg *mMessage, due op.LogMillis) {
	msg.charges++
	if msg.charges >= int(m.set.DeliveryMaxAttempts) {
		msg.state, msg.due = DeliveryDead, 0
		return
	}
	msg.state, msg.due = DeliveryWaiting, due
}

// goAlong takes the targets that the machine chose, if they are as good as any,
// and moves what can move at once.
func (m *model) goAlong(g *mGroup, v View, fail func(string, ...any)) {
	if g.hold != 0 {
		return
	}
	var before, after []op.MemberID
	changed := false
	for p, gp := range g.parts {
		w, _ := v.Owner(g.id, op.PartitionID(p))
		before, after = append(before, gp.target), append(after, w.Target)
		changed = changed || gp.target != w.Target
		gp.target = w.Target
		if gp.owner == 0 {
			gp.owner = gp.target
		} else if gp.owner != gp.target {
			gp.revoking = true
		}
	}
	if changed {
		g.asg++
	}
	checkAssignment(g.members, before, after, fail)
}

func (m *model) deliver(o *op.Op) (wire.Code, uint64) {
	gp, code := m.fenced(o)
	if code != wire.CodeOK {
		return code, 0
	}
	if gp.owner == 0 {
		return wire.CodeStaleOwner, 0
	}
	last := op.Sequence(len(m.part(m.groups[o.Group].topic, o.Partition).stamps))
	done := uint64(0)
	for i := range op.Sequence(o.Count) {
		s := o.Sequence + i
		if s > last || s > gp.next || s == 0 {
			break
		}
		msg := gp.msgs[s]
		switch {
		case s == gp.next:
			msg = &mMessage{}
			gp.msgs[s] = msg
			gp.next++
		case msg == nil || msg.state == DeliveryDead:
			continue
		default:
			gp.retries++
		}
		msg.attempts++
		msg.state, msg.delivery, msg.own, msg.due = DeliveryOut, o.Delivery+op.DeliveryID(i), o.Ownership, 0
		done++
	}
	return wire.CodeOK, done
}

func (m *model) fenced(o *op.Op) (*mGP, wire.Code) {
	g := m.groups[o.Group]
	switch {
	case g == nil:
		return nil, wire.CodeUnknownTopic
	case int(o.Partition) >= len(g.parts):
		return nil, wire.CodeUnknownPartition
	case o.Ownership < g.parts[o.Partition].epoch:
		return nil, wire.CodeStaleOwner
	case o.Ownership > g.parts[o.Partition].epoch:
		return nil, wire.CodeNotOwner
	}
	return g.parts[o.Partition], wire.CodeOK
}

// named finds the message of an ACK, NACK, expiry or reject.
func (m *model) named(o *op.Op, mustBeOut bool) (*mGP, *mMessage, wire.Code) {
	gp, code := m.fenced(o)
	if code != wire.CodeOK {
		return nil, nil, code
	}
	msg := gp.msgs[o.Sequence]
	switch {
	case msg == nil || msg.delivery != o.Delivery:
		return nil, nil, wire.CodeUnknownDelivery
	case msg.own != gp.epoch:
		return nil, nil, wire.CodeStaleOwner
	case mustBeOut && msg.state != DeliveryOut:
		return nil, nil, wire.CodeUnknownDelivery
	}
	return gp, msg, wire.CodeOK
}

// floor is the highest sequence up to which everything is settled.
func (gp *mGP) floor() op.Sequence {
	for s := op.Sequence(1); s < gp.next; s++ {
		if gp.msgs[s] != nil {
			return s - 1
		}
	}
	return gp.next - 1
}

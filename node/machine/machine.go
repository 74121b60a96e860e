package machine

import (
	"strconv"

	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// Defaults of Settings, for fields that EpochStart leaves 0 (operations.md).
const (
	defaultMaxAttempts   = 5
	defaultBackoffBaseMs = 1000
	defaultBackoffMaxMs  = 30_000
	defaultPartitions    = 4
	defaultMaxTopics     = wire.MaxTopicPairs
	defaultWindowBytes   = 256 << 20
)

// HoldMillis is how long, in log time after EpochStart, a group that had
// members waits for them before partitions are assigned.
const HoldMillis = 1000

// Machine is the replicated state. Only Apply changes it, and the loading of a
// checkpoint before the first Apply.
type Machine struct {
	number   op.Number
	epoch    op.Epoch
	logTime  op.LogMillis
	settings op.Settings
	mutation uint64 // metadata ops that took effect

	topics      []*topic // by pair, nil where deleted: ids 2i+1 and 2i+2
	topicByName map[string]uint16
	topicsLive  int
	marks       map[partitionKey]*marks // of twins' partitions

	groups      []*group // by id, nil where there is none
	groupByName map[string]op.GroupID
	groupsLive  int
	lastGroup   op.GroupID // the id handed out last
	epochFloor  epochs     // of groups deleted, see M9

	windows windowTable
	ledger  slab[entry]

	ckpt checkpoint
	// metadataOnly is set while ApplyMetadata runs: cursors are left alone.
	metadataOnly bool
	loading      bool
	load         *loadState
}

// partitionKey names a partition of a topic or twin.
type partitionKey struct {
	topic     op.TopicID
	partition op.PartitionID
}

// New gives the state before the first op.
func New() *Machine {
	m := &Machine{
		topicByName: make(map[string]uint16),
		groupByName: make(map[string]op.GroupID),
		marks:       make(map[partitionKey]*marks),
		groups:      make([]*group, 1),
	}
	m.windows.init()
	m.settings = effective(op.Settings{})
	return m
}

// Apply applies one op of the entry whose header is h and fills in res. It must
// be called once for each op of the log, in order.
func (m *Machine) Apply(h *op.Header, o *op.Op, res *Result) {
	if m.loading {
		panic("machine: Apply before FinishLoad")
	}
	*res = Result{}
	m.number, m.epoch, m.logTime = h.Number, h.Epoch, max(m.logTime, h.LogTime)
	m.dispatch(o, res)
}

func (m *Machine) dispatch(o *op.Op, res *Result) {
	switch o.Kind {
	case op.KindPublish:
		m.publish(o, res)
	case op.KindDeliver:
		m.deliver(o, res)
	case op.KindAck:
		m.ack(o, res)
	case op.KindNack:
		m.nack(o, res)
	case op.KindExpire:
		m.expire(o, res)
	case op.KindDeadLetter:
		m.deadLetter(o, res)
	case op.KindRedrive:
		m.redrive(o, res)
	case op.KindPurge:
		m.purge(o, res)
	case op.KindForgetProducer:
		m.forgetProducer(o, res)
	default:
		m.mutate(o, res)
	}
}

// mutate applies a metadata op, if it follows the mutation that it was made for.
func (m *Machine) mutate(o *op.Op, res *Result) {
	if o.Mutation != 0 && o.Mutation != m.mutation {
		res.refuse(wire.CodeMutationFenced, "another change came first: send it again")
		return
	}
	switch o.Kind {
	case op.KindEpochStart:
		m.epochStart(o, res)
	case op.KindTopicCreate:
		m.topicCreate(o, res)
	case op.KindTopicDelete:
		m.topicDelete(o, res)
	case op.KindJoin:
		m.join(o, res)
	case op.KindLeave:
		m.leave(o, res)
	case op.KindRevoked:
		m.revoked(o, res)
	case op.KindAssign:
		m.assignHeld(o, res)
	case op.KindGroupDelete:
		m.groupDelete(o, res)
	case op.KindGroupReset:
		m.groupReset(o, res)
	default:
		panic("machine: cannot apply " + o.Kind.String())
	}
}

// ApplyMetadata replays an op of the metadata log during recovery, before the
// pieces are loaded: it changes what EncodeMetadata covers and nothing else.
// The outcome of these ops does not depend on anything else.
func (m *Machine) ApplyMetadata(h *op.Header, o *op.Op) {
	if !o.Kind.Metadata() {
		panic("machine: " + o.Kind.String() + " is no metadata op")
	}
	var res Result
	m.metadataOnly, m.loading = true, true
	m.number, m.epoch, m.logTime = h.Number, h.Epoch, max(m.logTime, h.LogTime)
	m.mutate(o, &res)
	m.metadataOnly = false
}

// epochStart drops the members of earlier epochs. What they held is due at once
// by that alone: their ownership epochs are over.
func (m *Machine) epochStart(o *op.Op, res *Result) {
	m.settings = effective(o.Settings)
	for _, g := range m.groups {
		if g == nil || g.memberCount == 0 && g.holdUntil == 0 {
			continue
		}
		if g.memberCount > 0 {
			g.memberCount = 0
			g.membershipEpoch++
			m.retarget(g)
		}
		g.holdUntil = m.logTime + HoldMillis
	}
	m.mutation++
	res.AllGroupsChanged = true
}

// effective fills in defaults and cuts what is out of range.
func effective(s op.Settings) op.Settings {
	def := func(v *uint32, d uint32) {
		if *v == 0 {
			*v = d
		}
	}
	if s.DeliveryMaxAttempts == 0 {
		s.DeliveryMaxAttempts = defaultMaxAttempts
	}
	def(&s.RetryBackoffBaseMs, defaultBackoffBaseMs)
	def(&s.RetryBackoffMaxMs, defaultBackoffMaxMs)
	if s.PartitionDefaultCount == 0 {
		s.PartitionDefaultCount = defaultPartitions
	}
	s.PartitionDefaultCount = min(s.PartitionDefaultCount, wire.MaxPartitions)
	if s.MaxTopics == 0 {
		s.MaxTopics = defaultMaxTopics
	}
	if s.ProducerWindowBytes == 0 {
		s.ProducerWindowBytes = defaultWindowBytes
	}
	return s
}

// assert panics with the number of the invariant that is broken.
func assert(ok bool, invariant int) {
	if !ok {
		panic("machine: invariant M" + strconv.Itoa(invariant) + " is broken")
	}
}

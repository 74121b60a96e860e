package node

import (
	"errors"
	"fmt"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/replica"
	"github.com/mortarmq/mortarmq/node/session"
	"github.com/mortarmq/mortarmq/node/store"
)

// Config is what a node needs to know. The zero value works but for Store's
// NodeID and NewClusterID.
type Config struct {
	// NewClusterID is the cluster id that an empty directory is formed with.
	NewClusterID [16]byte
	// Version is the program's version, told by QueryBroker.
	Version string
	// Settings go into each EpochStart of this node; see defaultSettings.
	Settings op.Settings
	// DrainMax bounds the drain after InputStop. Default 8 s.
	DrainMax clock.Duration
	Session  session.Config
	Store    store.Options
	// Marks records the states reached; nil in production.
	Marks *fault.Marks
}

func (c *Config) setDefaults() {
	s := &c.Settings
	if s.DeliveryMaxAttempts == 0 {
		s.DeliveryMaxAttempts = 5
	}
	if s.RetryBackoffBaseMs == 0 {
		s.RetryBackoffBaseMs = 1000
	}
	if s.RetryBackoffMaxMs == 0 {
		s.RetryBackoffMaxMs = 30_000
	}
	if s.PartitionDefaultCount == 0 {
		s.PartitionDefaultCount = 4
	}
	if s.MaxTopics == 0 {
		s.MaxTopics = 32767
	}
	if s.ProducerWindowBytes == 0 {
		s.ProducerWindowBytes = 256 << 20
	}
	if c.DrainMax == 0 {
		c.DrainMax = 8 * clock.Second
	}
}

type phase uint8

const (
	phaseNew phase = iota
	phaseRecovering
	phaseStanding // recovered; the epoch is being made durable
	phaseServing
	phaseEnded
)

// Node is one broker.
type Node struct {
	config   Config
	phase    phase
	store    *store.Store
	machine  *machine.Machine
	view     machine.View
	replica  *replica.Replica
	sessions *session.Sessions

	now     clock.Reading
	out     *Effects
	refs    refQueue
	event   store.Event
	op      op.Op
	result  machine.Result
	scratch []byte

	appliedHeader op.Header
	appliedHash   op.Hash
	replayed      op.Number // entries that recovery applied
	checkpoint    checkpointing
	stalled       bool        // the journal waits for space
	early         *op.Builder // see applyEarly
	damages       damages
	space         spaceState
	started       clock.Instant
	startedWall   clock.WallMillis
	stopping      bool
	stopBy        clock.Instant
	queries       queries
	meters        meters
	ages          ages
}

type spaceState struct {
	free, total int64
	low         bool
}

// journal is the store as the replica sees it.
type journal struct{ n *Node }

func (j journal) CanAppend() bool { return j.n.store.CanAppend() }
func (j journal) Append(b *op.Builder) {
	j.n.meters.submit(j.n.now.Mono, b.Len())
	j.n.store.Append(b)
	if j.n.phase == phaseServing && fault.On("apply_before_commit") {
		j.n.early = b
	}
}
func (j journal) SetEpochs(promised, installed op.Epoch, installedOp op.Number, installedHash op.Hash) {
	j.n.store.SetEpochs(promised, installed, installedOp, installedHash)
}

// New gives a node that has done nothing yet. Its errors name an option that
// cannot be.
func New(c Config) (*Node, error) {
	c.setDefaults()
	if err := c.Session.Validate(); err != nil {
		return nil, err
	}
	if err := c.Store.Validate(); err != nil {
		return nil, err
	}
	if c.NewClusterID == [16]byte{} {
		return nil, errors.New("node: NewClusterID must not be zero")
	}
	n := &Node{config: c, store: store.New(c.Store), machine: machine.New()}
	n.view = n.machine.View()
	n.meters.init()
	n.replica = replica.New(journal{n}, c.Marks)
	n.sessions = session.New(c.Session, n.machine, broker{n})
	return n, nil
}

// Turn takes inputs in and fills out, which the caller has Reset. The first
// turn begins recovery. Inputs are borrowed for the call.
func (n *Node) Turn(now clock.Reading, in []Input, out *Effects) {
	if n.phase == phaseEnded {
		panic("node: invariant 5: a turn after the exit")
	}
	n.now, n.out = now, out
	if fault.Enabled {
		n.applyEarly()
	}
	if n.phase == phaseNew {
		n.phase = phaseRecovering
		n.started, n.startedWall = now.Mono, now.Wall
		n.store.Start(now.Mono)
	}
	if n.store.NextDeadline() <= now.Mono {
		n.store.Tick(now.Mono)
	}
	for i := range in {
		n.input(&in[i])
	}
	n.drainStore()
	if n.sessions.NextDeadline() <= now.Mono {
		n.sessions.Tick(now)
	}
	n.answerQueries()
	n.endTurn()
}

func (n *Node) input(in *Input) {
	switch in.Kind {
	case InputNet:
		n.sessions.OnEvent(n.now, &in.Net)
	case InputDisk:
		n.store.Complete(n.now.Mono, &in.Disk)
		n.drainStore()
	case InputQuery:
		n.addQuery(in.Query)
	case InputStop:
		n.beginStop()
	case InputInvalid:
		panic("node: an input of no kind")
	}
}

// drainStore takes every event that the store has.
func (n *Node) drainStore() {
	for n.phase != phaseEnded && n.store.Next(&n.event) {
		n.onStoreEvent(&n.event)
	}
}

func (n *Node) endTurn() {
	out := n.out
	if n.phase == phaseEnded {
		n.out = nil
		return
	}
	// The sessions' last word may propose ops: the batch goes out behind it.
	out.Net = n.sessions.EndTurn(n.now, out.Net)
	if n.phase == phaseServing && n.sessions.IDsUsedUp() {
		n.logf(LevelInfo, "leader epoch %d has used up its ids: starting the next one", n.replica.Epoch())
		n.phase = phaseStanding
		n.replica.EndEpoch()
	}
	n.replica.Flush(n.now.Mono)
	if n.phase != phaseEnded && n.replica.Ended() {
		n.exit(true, epochsUsedUp)
		n.out = nil
		return
	}
	n.advanceCheckpoint()
	out.Disk = n.store.Take(out.Disk)
	out.Deadline = min(n.store.NextDeadline(), n.sessions.NextDeadline(), n.queries.deadline())
	if n.early != nil {
		out.Deadline = n.now.Mono
	}
	if n.stopping {
		if n.drained() || n.now.Mono >= n.stopBy {
			n.exit(false, "stopped")
		}
		out.Deadline = min(out.Deadline, n.stopBy)
	}
	n.out = nil
}

func (n *Node) beginStop() {
	if n.stopping {
		return
	}
	n.stopping = true
	n.stopBy = n.now.Mono.Add(n.config.DrainMax)
	n.logf(LevelInfo, "stopping: draining connections")
	n.sessions.Stop(n.now)
}

func (n *Node) drained() bool {
	if n.phase != phaseServing {
		return true
	}
	return n.sessions.Drained() && n.replica.Pending() == 0
}

// exit ends the node: nothing it would still do is done.
func (n *Node) exit(failed bool, reason string) {
	n.phase = phaseEnded
	n.replica.Halt()
	n.out.Exit = &Exit{Failed: failed, Reason: reason}
	if failed {
		n.out.Net, n.out.Disk = n.out.Net[:0], n.out.Disk[:0]
	}
}

func (n *Node) logf(level Level, format string, args ...any) {
	n.out.Logs = append(n.out.Logs, LogRecord{Level: level, Text: fmt.Sprintf(format, args...)})
}

// Serving says whether the node leads and answers clients.
func (n *Node) Serving() bool { return n.phase == phaseServing }

// Standing says that recovery is over and the node's own epoch not yet begun: its
// state is what the disk held.
func (n *Node) Standing() bool { return n.phase == phaseStanding }

// Machine gives the replicated state, for checkers; nobody else changes it.
func (n *Node) Machine() *machine.Machine { return n.machine }

// Sessions gives the volatile half, for checkers.
func (n *Node) Sessions() *session.Sessions { return n.sessions }

package session

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// Sessions is everything volatile that a node knows of its clients.
//
// All methods belong to a turn; EndTurn is its last, and may propose ops. What
// EndTurn gave out is borrowed until any method is called again.
type Sessions struct {
	cfg    Config
	view   machine.View
	broker Broker

	now   clock.Instant
	wall  clock.WallMillis
	watch patience

	epoch       op.Epoch
	leading     bool
	stopping    bool
	leaderID    uint16
	leaderEpoch op.Epoch
	leaderAddr  string
	staleText   string
	depositions uint32
	memberCount uint64 // member ids given in this epoch
	given       uint64 // delivery ids given in this epoch

	conns  slab[conn]
	byID   map[net.ConnID]uint32
	timers deadlines // connections
	dirty  []uint32  // connections with something to send, close or pause
	resume []uint32  // connections whose held frames may go on
	wake   []uint32  // connections whose waiting PULL may find something

	turnAway []net.ConnID // new connections beyond the limit
	shutOut  []net.ConnID // new connections of a broker that stops

	buffers buffers
	topics  []topic // by id
	groups  groups
	jobs    jobs

	o        op.Op // scratch, so that proposing allocates nothing
	envelope []byte
	serving  serving

	stats Stats
}

// topic is what is volatile about a topic or twin.
type topic struct {
	turn  uint16 // round-robin of publishes without a key
	group uint32 // first group that reads it, plus one
}

// New gives sessions over m that serve nobody yet. It panics on a configuration
// that Validate refuses.
func New(cfg Config, m *machine.Machine, b Broker) *Sessions {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	s := &Sessions{cfg: cfg.withDefaults(), view: m.View(), broker: b, byID: map[net.ConnID]uint32{}}
	s.forgetGroups()
	if s.cfg.Quorum {
		s.SetLeader(wire.NoLeader, 0, "")
	} else { // nobody else can lead, also before this node does
		s.SetLeader(s.cfg.NodeID, 0, s.cfg.AdvertisedAddr)
	}
	return s
}

// begin takes note of the turn's reading. It is the same for a whole turn.
func (s *Sessions) begin(now clock.Reading) {
	s.now, s.wall = now.Mono, now.Wall
	s.watch.advance(now)
	s.reclaim()
}

// OnEvent takes what happened to a connection. ev.Data is borrowed for the call.
func (s *Sessions) OnEvent(now clock.Reading, ev *net.Event) {
	s.begin(now)
	if ev.Kind == net.EventOpened {
		s.open(ev)
		return
	}
	i, ok := s.byID[ev.Conn]
	if !ok {
		return
	}
	c := s.conns.at(i)
	switch ev.Kind {
	case net.EventBytes:
		s.receive(i, c, ev.Data)
	case net.EventProgress:
		s.progress(i, c, ev.Queued)
	case net.EventClosed:
		s.closed(i, c)
	case net.EventInvalid, net.EventOpened:
	}
}

// OnApplied takes the outcome of an op of this epoch: res.Code says whether it
// took effect. ref is what it was proposed with. An op whose fate is unknown
// (QUORUM_LOST) may be reported so first and applied later.
func (s *Sessions) OnApplied(now clock.Reading, h *op.Header, o *op.Op, res *machine.Result, ref Ref) {
	s.begin(now)
	if res.Append.Present {
		s.appended(o, res)
	}
	switch o.Kind {
	case op.KindPublish:
		s.published(o, res, ref)
		return
	case op.KindJoin:
		s.joined(o, res, ref)
	case op.KindLeave:
		s.left(o, res)
	case op.KindDeliver:
		s.delivered(o, res)
	case op.KindAck:
		s.acked(o, res)
	case op.KindNack, op.KindExpire:
		s.givenBack(o, res)
	case op.KindDeadLetter:
		s.buried(o, res)
	case op.KindTopicDelete:
		s.topicDeleted(res)
	case op.KindRevoked, op.KindAssign:
		s.confirmed(o, res)
	default:
	}
	if res.GroupChanged != 0 {
		s.syncGroup(res.GroupChanged)
	}
	if ref.Kind == refRequest {
		s.answerApplied(o, res, ref)
	}
}

// OnEpoch says that this node begins to lead epoch (its EpochStart is applied),
// or that it leads no more. What is volatile starts from the machine's state. The
// node has reported every op of the old epoch that it dropped, by OnApplied with
// a code: requests that wait for one would wait for ever.
func (s *Sessions) OnEpoch(now clock.Reading, epoch op.Epoch, leading bool) {
	s.begin(now)
	if s.leading && !leading {
		s.depositions++
	}
	s.epoch, s.leading = epoch, leading
	s.memberCount, s.given = 0, 0
	s.forgetGroups()
	if leading {
		s.SetLeader(s.cfg.NodeID, epoch, s.cfg.AdvertisedAddr)
		s.findDead()
	}
}

// SetLeader says who leads, for hints and refusals; wire.NoLeader: nobody known.
func (s *Sessions) SetLeader(id uint16, epoch op.Epoch, addr string) {
	s.leaderID, s.leaderEpoch, s.leaderAddr = id, epoch, addr
	s.setStaleText()
}

func (s *Sessions) setStaleText() {
	s.staleText = "this node does not lead: find the leader again"
	if s.leaderAddr != "" {
		s.staleText += "; leader=" + s.leaderAddr
	}
}

// OnRecords says that a record of the partition that was being read is there, or
// cannot be had.
func (s *Sessions) OnRecords(now clock.Reading, t op.TopicID, part op.PartitionID) {
	s.begin(now)
	s.recordsCame(t, part)
}

// Tick does what is due by now.
func (s *Sessions) Tick(now clock.Reading) {
	s.begin(now)
	for {
		i, ok := s.timers.due(s.now)
		if !ok {
			break
		}
		s.onTimer(i, s.conns.at(i))
	}
	if s.leading {
		s.expireLeases()
		s.expireMembers()
		s.expireRevokes()
		s.runHolds()
		s.runJobs()
	}
}

// NextDeadline is when Tick wants to be called next, or clock.Never.
func (s *Sessions) NextDeadline() clock.Instant {
	at := s.timers.earliest()
	if s.leading {
		at = min(at, s.watch.next(s.patientDeadline()), s.groups.holdAt, s.jobs.retryAt)
		if s.now < s.groups.pause {
			at = min(at, s.groups.pause)
		}
	}
	return at
}

// EndTurn does what the turn's events made possible, and appends what they send,
// close and pause to out: one Send per connection.
func (s *Sessions) EndTurn(now clock.Reading, out []net.Request) []net.Request {
	s.begin(now)
	if s.leading {
		s.runJobs()
	}
	for len(s.resume) > 0 || len(s.wake) > 0 {
		s.resumeAll()
		s.wakeAll()
	}
	s.watch.frozen = s.broker.Refusing() != wire.CodeOK
	return s.flush(out)
}

// Stop begins the drain: nothing new is read, what is committed is answered,
// each connection closes when it has no unanswered request.
func (s *Sessions) Stop(now clock.Reading) {
	s.begin(now)
	if s.stopping {
		return
	}
	s.stopping = true
	for i := range s.conns.used {
		c := s.conns.at(i)
		switch c.state {
		case connFree:
			continue
		case connClosing:
			if c.closeAt != clock.Never {
				c.closeAt = s.closeBy(c)
				s.timers.lower(i, c.closeAt)
			}
			continue
		default:
		}
		c.hold |= holdStop
		c.held = nil
		s.finishPulls(i, c)
		s.closeDrained(i, c)
	}
}

// Drained says that no connection is left after Stop.
func (s *Sessions) Drained() bool { return s.stopping && s.conns.inUse() == 0 }

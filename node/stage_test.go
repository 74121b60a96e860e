package node

import (
	"encoding/binary"
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store"
	"github.com/mortarmq/mortarmq/sim/simdisk"
	"github.com/mortarmq/mortarmq/wire"
)

// stage is a node on a simulated disk, with clients that speak frames and an
// operator who asks questions. Time is the test's.
type stage struct {
	t      *testing.T
	config Config
	disk   *simdisk.Disk
	node   *Node
	now    clock.Reading
	in     []Input
	out    Effects
	logs   []string

	peers   map[net.ConnID]*peer
	lastID  net.ConnID
	asked   uint64
	answers map[uint64]Answer
}

// peer is a client's end of a connection.
type peer struct {
	s      *stage
	id     net.ConnID
	reader wire.FrameReader
	frames []wire.Frame // not taken yet; payloads copied
	sub    wire.SubResult
	told   wire.Notice
	epochs []byte
}

func newStage(t *testing.T, change func(*Config)) *stage {
	t.Helper()
	s := &stage{
		t: t, disk: simdisk.New(simdisk.Options{Seed: 1}), answers: map[uint64]Answer{},
		now:    clock.Reading{Mono: clock.Instant(clock.Hour), Wall: 1_700_000_000_000},
		config: Config{NewClusterID: [16]byte{1}, Store: store.Options{NodeID: 1, JournalFileBytes: 4 << 20, JournalCapBytes: 64 << 20}},
	}
	s.config.Settings = op.Settings{DeliveryMaxAttempts: 1}
	if change != nil {
		change(&s.config)
	}
	s.start()
	return s
}

// start begins an incarnation and waits until it serves.
func (s *stage) start() {
	s.t.Helper()
	n, err := New(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.node, s.peers, s.in = n, map[net.ConnID]*peer{}, nil
	s.until("serving", s.node.Serving)
}

// kill ends the incarnation as kill -9 does, and starts the next one.
func (s *stage) kill() {
	s.t.Helper()
	s.crash(simdisk.Kill)
}

func (s *stage) crash(kind simdisk.CrashKind) {
	s.t.Helper()
	s.disk.Crash(kind)
	s.disk.Restart()
	s.start()
}

// turn gives the node what has happened.
func (s *stage) turn() {
	s.t.Helper()
	s.disk.Advance(s.now.Mono)
	for _, c := range s.disk.Poll(nil) {
		s.in = append(s.in, Input{Kind: InputDisk, Disk: c})
	}
	s.out.Reset()
	in := s.in
	s.in = nil
	s.node.Turn(s.now, in, &s.out)
	s.disk.Submit(s.out.Disk)
	for _, l := range s.out.Logs {
		s.logs = append(s.logs, l.Text)
	}
	for _, a := range s.out.Answers {
		s.answers[a.ID] = a
	}
	for i := range s.out.Net {
		s.carry(&s.out.Net[i])
	}
	if s.out.Exit != nil {
		s.t.Fatalf("the node ended: %s", s.out.Exit.Reason)
	}
}

func (s *stage) carry(r *net.Request) {
	p := s.peers[r.Conn]
	if p == nil {
		return
	}
	switch r.Kind {
	case net.RequestSend:
		p.reader.Feed(append([]byte(nil), r.Data...))
		for {
			f, ok, err := p.reader.Next()
			if err != nil {
				s.t.Fatal(err)
			}
			if !ok {
				return
			}
			f.Payload = append([]byte(nil), f.Payload...)
			p.frames = append(p.frames, f)
		}
	case net.RequestClose, net.RequestAbort:
		delete(s.peers, r.Conn)
		s.in = append(s.in, Input{Kind: InputNet, Net: net.Event{Kind: net.EventClosed, Conn: r.Conn}})
	default:
	}
}

// step lets time pass to whatever is due next, and takes the turn.
func (s *stage) step() {
	s.t.Helper()
	at := min(s.disk.NextDeadline(), s.out.Deadline)
	if len(s.in) > 0 || s.disk.Pending() {
		at = s.now.Mono
	}
	if at == clock.Never {
		at = s.now.Mono.Add(clock.Millisecond)
	}
	s.to(at)
	s.turn()
}

func (s *stage) to(at clock.Instant) {
	if at > s.now.Mono {
		before := s.now.Mono
		s.now.Mono = at
		s.now.Wall += clock.WallMillis(uint64(at)/uint64(clock.Millisecond) - uint64(before)/uint64(clock.Millisecond))
	}
}

func (s *stage) until(what string, done func() bool) {
	s.t.Helper()
	for range 200_000 {
		if done() {
			return
		}
		s.step()
	}
	s.t.Fatalf("%s: never", what)
}

// pass lets time pass.
func (s *stage) pass(d clock.Duration) {
	s.t.Helper()
	for end := s.now.Mono.Add(d); s.now.Mono < end; {
		at := min(s.disk.NextDeadline(), s.out.Deadline, end)
		if len(s.in) == 0 && !s.disk.Pending() {
			s.to(at)
		}
		s.turn()
	}
}

// begin puts a question without waiting for the answer.
func (s *stage) begin(q Query) uint64 {
	s.asked++
	q.ID = s.asked
	s.in = append(s.in, Input{Kind: InputQuery, Query: q})
	return q.ID
}

// ask puts a question and waits for the answer.
func (s *stage) ask(q Query) Answer {
	s.t.Helper()
	id := s.begin(q)
	s.until("an answer", func() bool { _, ok := s.answers[id]; return ok })
	return s.answers[id]
}

// must is ask for what is not refused.
func (s *stage) must(q Query) Answer {
	s.t.Helper()
	a := s.ask(q)
	if a.Code != wire.CodeOK {
		s.t.Fatalf("query %d: %v %s", q.Kind, a.Code, a.Message)
	}
	return a
}

// connect opens a connection and authenticates.
func (s *stage) connect() *peer {
	s.t.Helper()
	s.lastID++
	p := &peer{s: s, id: net.FirstAccepted + s.lastID}
	s.peers[p.id] = p
	s.in = append(s.in, Input{Kind: InputNet, Net: net.Event{Kind: net.EventOpened, Conn: p.id}})
	p.ok((&wire.Connect{ProtocolVersion: wire.Version}).Append(nil))
	return p
}

func (p *peer) send(b []byte) {
	p.s.in = append(p.s.in, Input{Kind: InputNet, Net: net.Event{Kind: net.EventBytes, Conn: p.id, Data: b}})
}

// take waits for a frame of a kind, and gives the first; those before it stay.
func (p *peer) take(kind wire.Op) []byte {
	p.s.t.Helper()
	var found []byte
	p.s.until("a frame", func() bool {
		for i, f := range p.frames {
			if f.Op == wire.OpErr && kind != wire.OpErr {
				var e wire.Err
				if err := e.Decode(f.Payload); err != nil {
					p.s.t.Fatal(err)
				}
				p.s.t.Fatalf("%v: %s", e.Code, e.Message)
			}
			if f.Op == kind {
				p.frames = append(p.frames[:i], p.frames[i+1:]...)
				found = f.Payload
				return true
			}
		}
		return false
	})
	return found
}

// ok sends a request and gives its result.
func (p *peer) ok(b []byte) []byte {
	p.s.t.Helper()
	p.send(b)
	return p.result()
}

func (p *peer) result() []byte {
	p.s.t.Helper()
	var ok wire.OK
	if err := ok.Decode(p.take(wire.OpOK)); err != nil {
		p.s.t.Fatal(err)
	}
	return ok.Result
}

// declare makes a topic and gives its id.
func (p *peer) declare(name string, partitions uint16) uint16 {
	p.s.t.Helper()
	var d wire.DeclareResult
	if err := d.Decode(p.ok((&wire.Declare{Topic: []byte(name), PartitionCount: partitions}).Append(nil))); err != nil {
		p.s.t.Fatal(err)
	}
	return d.TopicID
}

// publish publishes values to a partition.
func (p *peer) publish(topic, partition uint16, values ...string) {
	p.s.t.Helper()
	for _, v := range values {
		p.ok((&wire.Pub{TopicID: topic, Partition: partition, Key: []byte("key"), Value: []byte(v)}).Append(nil))
	}
}

// join makes the connection a member of a group and waits for its partitions.
func (p *peer) join(topic uint16, group string, partitions int, credit uint16) {
	p.s.t.Helper()
	bytes := uint32(0)
	if credit > 0 {
		bytes = 1 << 30
	}
	m := wire.Sub{Group: []byte(group), TopicID: topic, Partition: wire.PartitionAny, CreditCount: credit, CreditBytes: bytes}
	if err := p.sub.Decode(p.ok(m.Append(nil))); err != nil {
		p.s.t.Fatal(err)
	}
	p.epochs = nil
	for range partitions {
		if err := p.told.Decode(p.take(wire.OpNotice)); err != nil {
			p.s.t.Fatal(err)
		}
		p.epochs = binary.BigEndian.AppendUint64(p.epochs, p.told.OwnershipEpoch)
	}
}

// pull sends a PULL.
func (p *peer) pull(n, waitMs uint16, minBytes uint32) {
	m := wire.Pull{
		SubscriptionID: p.sub.SubscriptionID, MemberID: p.sub.MemberID, MembershipEpoch: p.told.MembershipEpoch,
		AssignmentEpoch: p.told.AssignmentEpoch, OwnershipEpochs: p.epochs, MaxMsgs: n, MaxBytes: 1 << 24, WaitMs: waitMs, MinBytes: minBytes,
	}
	p.send(m.Append(nil))
}

// consume pulls n messages that are there, or come within 5 s.
func (p *peer) consume(n int) []wire.Msg {
	p.s.t.Helper()
	var msgs []wire.Msg
	for len(msgs) < n {
		p.pull(uint16(n-len(msgs)), 5000, 1)
		p.result()
		rest := p.frames[:0]
		for _, f := range p.frames {
			if f.Op != wire.OpMsg {
				rest = append(rest, f)
				continue
			}
			var m wire.Msg
			if err := m.Decode(f.Payload); err != nil {
				p.s.t.Fatal(err)
			}
			msgs = append(msgs, m)
		}
		p.frames = rest
	}
	return msgs
}

func (p *peer) ack(m *wire.Msg) {
	p.s.t.Helper()
	p.ok((&wire.Ack{SubscriptionID: m.SubscriptionID, TopicID: m.TopicID, Partition: m.Partition, Seq: m.Sequence, DeliveryID: m.DeliveryID, OwnershipEpoch: m.OwnershipEpoch}).Append(nil))
}

func (p *peer) nack(m *wire.Msg, reason wire.NackReason, delayMs uint32) {
	p.s.t.Helper()
	n := wire.Nack{SubscriptionID: m.SubscriptionID, TopicID: m.TopicID, Partition: m.Partition, Seq: m.Sequence, DeliveryID: m.DeliveryID, OwnershipEpoch: m.OwnershipEpoch, Reason: reason}
	if delayMs > 0 {
		n.Flags, n.DelayMs = wire.FlagNackDelay, delayMs
	}
	p.ok(n.Append(nil))
}

// leave ends the membership.
func (p *peer) leave() {
	p.s.t.Helper()
	p.ok((&wire.Heartbeat{SubscriptionID: p.sub.SubscriptionID, MemberID: p.sub.MemberID, MembershipEpoch: p.told.MembershipEpoch, AssignmentEpoch: p.told.AssignmentEpoch, State: wire.HeartbeatLeave}).Append(nil))
}

// drop breaks the connection.
func (p *peer) drop() {
	delete(p.s.peers, p.id)
	p.s.in = append(p.s.in, Input{Kind: InputNet, Net: net.Event{Kind: net.EventClosed, Conn: p.id, Cause: net.CauseReset}})
}

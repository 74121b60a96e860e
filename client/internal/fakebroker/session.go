package fakebroker

import (
	"slices"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
)

// Session is one connection.
type Session struct {
	b *Broker
	// Out is what the client is to receive; whoever delivers it takes it.
	Out []byte
	// Closed says that nothing follows Out.
	Closed bool
	// NodeID is the node that it goes to: Broker.NodeID, unless the test says otherwise.
	NodeID uint16
	// Kick, if set, is called when Out has grown without a Feed.
	Kick func()

	reader    wire.FrameReader
	connected bool
	members   []*member // by subscription_id - 1
	pulls     []pull
}

type pull struct {
	m     *member
	req   wire.Pull
	until clock.Instant
	begun bool
	given bool
}

// Open is a new connection.
func (b *Broker) Open() *Session {
	s := &Session{b: b, NodeID: b.NodeID, reader: wire.FrameReader{FromClient: true}}
	b.Sessions = append(b.Sessions, s)
	return s
}

// Drop is the end of the connection, as the broker sees it.
func (s *Session) Drop() {
	s.Closed = true
	s.b.Sessions = slices.DeleteFunc(s.b.Sessions, func(o *Session) bool { return o == s })
	for _, m := range s.members {
		m.leave(true)
	}
	s.members, s.pulls = nil, nil
	s.b.serveAll()
}

// Feed takes what the client sent.
func (s *Session) Feed(data []byte) {
	s.reader.Feed(data)
	for !s.Closed {
		f, ok, err := s.reader.Next()
		if err != nil {
			s.b.broke("not a frame: %v", err)
			s.Drop()
			return
		}
		if !ok {
			return
		}
		s.request(f)
	}
}

func (s *Session) ok(op wire.Op) { s.Out = wire.AppendOKEmpty(s.Out, op) }

func (s *Session) err(op wire.Op, code wire.Code, text string) {
	s.Out = wire.AppendErr(s.Out, code, op, text)
	if info, _ := code.Info(); info.Close {
		s.Drop()
	}
}

func (s *Session) request(f wire.Frame) {
	s.b.Requests[f.Op]++
	if f.Op != wire.OpPull {
		s.servePulls(true)
	}
	switch {
	case f.Op == wire.OpPing:
		s.ok(f.Op)
		return
	case f.Op == wire.OpConnect:
		s.connect(f)
		return
	case !s.connected:
		s.err(f.Op, wire.CodeNotAuthenticated, "")
		return
	case s.NodeID != s.b.LeaderID:
		text := "not the leader"
		if s.b.LeaderAddr != "" {
			text += " leader=" + s.b.LeaderAddr
		}
		s.err(f.Op, wire.CodeStaleLeaderEpoch, text)
		return
	}
	if s.b.Refuse != nil {
		if code, text := s.b.Refuse(f.Op); code != wire.CodeOK {
			s.err(f.Op, code, text)
			return
		}
	}
	mark := len(s.Out)
	err := s.handle(f)
	if err != nil {
		s.b.broke("bad %v: %v", f.Op, err)
		s.err(f.Op, wire.CodeMalformedPayload, err.Error())
		return
	}
	if s.b.RefuseAfter != nil && f.Op != wire.OpPull && !s.Closed {
		if code, text := s.b.RefuseAfter(f.Op); code != wire.CodeOK {
			s.Out = s.Out[:mark]
			s.err(f.Op, code, text)
		}
	}
	s.b.serveAll()
}

func (s *Session) connect(f wire.Frame) {
	var m wire.Connect
	if err := m.Decode(f.Payload); err != nil || s.connected {
		s.b.broke("bad CONNECT: %v", err)
		s.err(f.Op, wire.CodeMalformedPayload, "")
		return
	}
	if s.b.Token != "" && string(m.Token) != s.b.Token {
		s.err(f.Op, wire.CodeAuthFailed, "check the token")
		return
	}
	s.connected = true
	if m.ClientFlags&wire.FlagConnectLeaderHint == 0 {
		s.ok(f.Op)
		return
	}
	res := wire.ConnectResult{HasHint: true, NodeID: s.NodeID, LeaderID: s.b.LeaderID, LeaderEpoch: 1, Addr: []byte(s.b.LeaderAddr)}
	s.Out = res.AppendOK(s.Out)
}

func (s *Session) handle(f wire.Frame) error {
	switch f.Op {
	case wire.OpDeclare:
		var m wire.Declare
		if err := m.Decode(f.Payload); err != nil {
			return err
		}
		s.declare(&m)
	case wire.OpPub:
		var m wire.Pub
		if err := m.Decode(f.Payload); err != nil {
			return err
		}
		seq, dup, code := s.b.Publish(&m)
		if code != wire.CodeOK {
			s.err(f.Op, code, "")
			return nil
		}
		res := wire.PubResult{Sequence: seq, LeaderEpoch: 1, CommitSeq: seq}
		if dup {
			res.ResultFlags = wire.ResultDeduplicated
		}
		s.Out = res.AppendOK(s.Out)
	default:
		return s.handleMember(f)
	}
	return nil
}

func (s *Session) declare(m *wire.Declare) {
	name := string(m.Topic)
	if source, ok := wire.DLQSource(m.Topic); ok {
		t := s.b.Topic(string(source))
		if t == nil {
			s.err(wire.OpDeclare, wire.CodeUnknownTopic, "")
			return
		}
		res := wire.DeclareResult{TopicID: t.ID + 1, PartitionCount: uint16(len(t.Partitions)), Created: wire.DeclareIdempotent}
		s.Out = res.AppendOK(s.Out)
		return
	}
	if err := wire.CheckTopicName(m.Topic); err != nil {
		s.err(wire.OpDeclare, wire.CodeInvalidTopic, "")
		return
	}
	if m.Flags&wire.FlagDeclareDelete != 0 {
		res := wire.DeclareResult{Created: wire.DeclareNotFound}
		if t := s.b.Topic(name); t != nil {
			t.Deleted = true
			res.Created = wire.DeclareDeleted
		}
		s.Out = res.AppendOK(s.Out)
		return
	}
	t, created := s.b.Declare(name, int(m.PartitionCount))
	if n := int(m.PartitionCount); n != 0 && n != len(t.Partitions) {
		s.err(wire.OpDeclare, wire.CodeTopicExistsMismatch, "")
		return
	}
	res := wire.DeclareResult{TopicID: t.ID, PartitionCount: uint16(len(t.Partitions)), Created: wire.DeclareIdempotent}
	if created {
		res.Created = wire.DeclareCreated
	}
	s.Out = res.AppendOK(s.Out)
}

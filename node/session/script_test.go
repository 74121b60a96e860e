package session

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"crypto/sha256"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

var rewrite = flag.Bool("rewrite", false, "write what the dialogues answer into testdata")

// script runs dialogues: blocks of lines, a line of dashes, what is answered. A
// line is a turn (with those that follow from it), but for one that ends in "+":
// it is an event of the next line's turn.
type script struct {
	t     *testing.T
	w     *world
	peers map[string]*client
	order []string
	next  net.ConnID
	fed   []byte
}

// client is what a client library would remember, so that scripts need not say it.
type client struct {
	*peer
	name string
	subs map[uint16]*clientSub
	got  []wire.Frame // since the last answers
}

type clientSub struct {
	topic                  uint16
	member                 uint64
	membership, assignment uint32
	group                  uint16
	owned                  map[uint16]uint64
	msgs                   map[uint64]wire.Msg // by sequence, the last MSG
	notices                map[uint64]wire.Notice
	left                   bool
}

// Goal: each rule of the protocol, and each code that one node can answer with,
// as a dialogue.
func TestDialogues(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no dialogues", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) { runFile(t, f) })
	}
}

func runFile(t *testing.T, name string) {
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	s := &script{t: t, peers: map[string]*client{}}
	var out strings.Builder
	lines := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	for i := 0; i < len(lines); {
		if l := lines[i]; l == "" || strings.HasPrefix(l, "#") {
			out.WriteString(l + "\n")
			i++
			continue
		}
		begin := i
		for ; i < len(lines) && lines[i] != "----"; i++ {
			if lines[i] == "" {
				t.Fatalf("%s:%d: a block without a line of dashes", name, begin+1)
			}
			out.WriteString(lines[i] + "\n")
			text, more := strings.CutSuffix(lines[i], " +")
			s.line(fmt.Sprintf("%s:%d", name, i+1), text)
			if !more {
				s.finish()
			}
		}
		i++
		got := s.answers()
		var want []string
		for ; i < len(lines) && lines[i] != ""; i++ {
			want = append(want, lines[i])
		}
		if !*rewrite && !slices.Equal(got, want) {
			t.Fatalf("%s:%d:\ngot:\n%s\nwant:\n%s", name, begin+1, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		out.WriteString("----\n")
		for _, l := range got {
			out.WriteString(l + "\n")
		}
	}
	if *rewrite {
		if err := os.WriteFile(name, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// finish ends the turn and lets the clients read what they got.
func (s *script) finish() {
	s.w.endTurn()
	for _, n := range s.order {
		c := s.peers[n]
		for _, f := range c.take() {
			c.learn(f)
			c.got = append(c.got, f)
		}
	}
}

// answers gives what every client got, in the order of their opening.
func (s *script) answers() []string {
	var out []string
	if len(s.fed) > 0 {
		out = append(out, strings.Split(strings.TrimRight(string(s.fed), "\n"), "\n")...)
		s.fed = nil
	}
	for _, n := range s.order {
		c := s.peers[n]
		last, count := "", 0
		flush := func() {
			if count > 1 {
				last += fmt.Sprintf(" (x%d)", count)
			}
			if count > 0 {
				out = append(out, n+"< "+last)
			}
		}
		for _, f := range c.got {
			text := show(f, 0)
			if text == last {
				count++
				continue
			}
			flush()
			last, count = text, 1
		}
		flush()
		c.got = nil
		if c.closed && c.subs != nil {
			out = append(out, n+" closed")
			c.subs = nil
		}
		if c.aborted {
			out = append(out, n+" aborted")
			c.aborted = false
		}
	}
	return out
}

func (c *client) learn(f wire.Frame) {
	switch f.Op {
	case wire.OpOK:
		var m wire.OK
		must(m.Decode(f.Payload))
		if m.RequestOp == wire.OpSub {
			var r wire.SubResult
			must(r.Decode(m.Result))
			c.sub(r.SubscriptionID).member = r.MemberID
			c.sub(r.SubscriptionID).membership, c.sub(r.SubscriptionID).assignment = r.MembershipEpoch, r.AssignmentEpoch
		}
	case wire.OpMsg:
		var m wire.Msg
		must(m.Decode(f.Payload))
		u := c.sub(m.SubscriptionID)
		u.topic = m.TopicID
		u.msgs[m.Sequence] = m
	case wire.OpNotice:
		var m wire.Notice
		must(m.Decode(f.Payload))
		for _, u := range c.subs {
			if u.member != m.MemberID {
				continue
			}
			u.membership, u.assignment, u.group = m.MembershipEpoch, m.AssignmentEpoch, m.GroupID
			u.notices[m.NoticeID] = m
			if m.Kind == wire.NoticeAssign {
				u.owned[m.Partition] = m.OwnershipEpoch
			} else {
				delete(u.owned, m.Partition)
			}
		}
	default:
	}
}

func (c *client) sub(id uint16) *clientSub {
	if c.subs == nil {
		c.subs = map[uint16]*clientSub{}
	}
	u := c.subs[id]
	if u == nil {
		u = &clientSub{owned: map[uint16]uint64{}, msgs: map[uint64]wire.Msg{}, notices: map[uint64]wire.Notice{}}
		c.subs[id] = u
	}
	return u
}

// words splits a line into its command and k=v arguments.
type words struct {
	cmd  string
	pos  []string
	args map[string]string
}

func parse(fields []string) words {
	a := words{cmd: fields[0], args: map[string]string{}}
	for _, f := range fields[1:] {
		if k, v, ok := strings.Cut(f, "="); ok {
			a.args[k] = v
		} else {
			a.pos = append(a.pos, f)
		}
	}
	return a
}

func (a words) has(flag string) bool { return slices.Contains(a.pos, flag) }

func (a words) num(k string, def uint64) uint64 {
	v, ok := a.args[k]
	if !ok {
		return def
	}
	if e, c, ok := strings.Cut(v, "."); ok {
		hi, _ := strconv.ParseUint(e, 10, 64)
		lo, _ := strconv.ParseUint(c, 10, 64)
		return hi<<op.IDCounterBits | lo
	}
	n, err := strconv.ParseUint(v, 0, 64)
	must(err)
	return n
}

func (a words) str(k, def string) string {
	if v, ok := a.args[k]; ok {
		if n, ok := strings.CutPrefix(v, "*"); ok { // *N stands for N bytes
			size, err := strconv.Atoi(n)
			must(err)
			return strings.Repeat("x", size)
		}
		return v
	}
	return def
}

func span(text string) clock.Duration {
	for _, u := range []struct {
		suffix string
		unit   clock.Duration
	}{{"ms", clock.Millisecond}, {"s", clock.Second}, {"h", clock.Hour}} {
		if n, ok := strings.CutSuffix(text, u.suffix); ok {
			v, err := strconv.Atoi(n)
			must(err)
			return clock.Duration(v) * u.unit
		}
	}
	panic("no span: " + text)
}

func code(name string) wire.Code {
	for _, c := range wire.Codes() {
		if c.Name == name {
			return c.Code
		}
	}
	panic("no code " + name)
}

// line carries out one line.
func (s *script) line(at, text string) {
	defer func() {
		if r := recover(); r != nil {
			s.t.Logf("%s: %s", at, text)
			panic(r)
		}
	}()
	a := parse(strings.Fields(text))
	if c, ok := s.peers[a.cmd]; ok {
		s.request(c, parse(strings.Fields(text)[1:]))
		return
	}
	w := s.w
	switch a.cmd {
	case "node":
		cfg := Config{
			NodeID: uint16(a.num("id", 1)), AdvertisedAddr: a.str("addr", "h:7188"), MaxConnections: int(a.num("max_connections", 0)),
			PublishRateLimit: int(a.num("rate", 0)), Quorum: a.has("quorum"),
		}
		if v, ok := a.args["lease"]; ok {
			cfg.DeliveryLease = span(v)
		}
		if v, ok := a.args["token"]; ok {
			cfg.TokenDigests = [][32]byte{sha256.Sum256([]byte("other")), sha256.Sum256([]byte(v))}
		}
		s.w = newWorld(cfg)
		s.w.settings = op.Settings{DeliveryMaxAttempts: uint16(a.num("attempts", 0)), MaxTopics: uint16(a.num("max_topics", 0))}
		if !a.has("follower") {
			s.w.lead()
		}
	case "open":
		s.next++
		s.peers[a.pos[0]] = &client{name: a.pos[0], peer: w.open(s.next), subs: map[uint16]*clientSub{}}
		s.order = append(s.order, a.pos[0])
	case "connected": // opens and connects without a word
		for _, n := range a.pos {
			s.next++
			s.peers[n] = &client{name: n, peer: w.connected(s.t, s.next), subs: map[uint16]*clientSub{}}
			s.order = append(s.order, n)
		}
	case "hush": // forgets what was answered
		s.finish()
		for _, c := range s.peers {
			c.got = nil
		}
		s.w.outs = nil
	case "topic":
		s.next++
		p := w.connected(s.t, s.next)
		w.declare(s.t, p, a.pos[0], uint16(a.num("parts", 1)))
		w.drop(p)
		w.endTurn()
	case "drop":
		w.drop(s.peers[a.pos[0]].peer)
		s.peers[a.pos[0]].subs = nil
	case "pass":
		w.pass(span(a.pos[0]))
	case "jump":
		w.jump(span(a.pos[0]))
	case "linger":
		w.linger = true
	case "turn":
		w.endTurn()
	case "manual":
		w.manual = true
	case "auto":
		w.manual = false
	case "apply":
		n := 1 << 30
		if len(a.pos) > 0 {
			n, _ = strconv.Atoi(a.pos[0])
		}
		w.apply(n)
	case "fail":
		w.failAll(code(a.pos[0]))
	case "doubt": // says so, and applies them later all the same
		kept := slices.Clone(w.queue)
		w.failAll(code(a.pos[0]))
		w.queue = kept
	case "refuse":
		w.refuse, w.only = code(a.pos[0]), 0
		if len(a.pos) > 1 {
			for k := op.KindInvalid; k < 20; k++ {
				if k.String() == a.pos[1] {
					w.only = k
				}
			}
		}
	case "freeze":
		w.refuse, w.frozen, w.only = code(a.pos[0]), code(a.pos[0]), 0
	case "accept":
		w.refuse, w.frozen = 0, 0
	case "cold":
		w.cold = true
	case "read":
		w.warmUp()
	case "damage":
		w.damaged[recordKey{op.TopicID(a.num("topic", 1)), op.PartitionID(a.num("part", 0)), op.Sequence(a.num("seq", 1))}] = true
	case "mend":
		clear(w.damaged)
	case "lead":
		w.lead()
	case "follow":
		w.s.OnEpoch(w.now, w.epoch, false)
		if len(a.pos) > 0 {
			w.s.SetLeader(2, w.epoch, a.pos[0])
		} else {
			w.s.SetLeader(wire.NoLeader, 0, "")
		}
	case "progress":
		w.event(net.Event{Kind: net.EventProgress, Conn: s.peers[a.pos[0]].id, Queued: int(a.num("queued", 0))})
	case "stop":
		w.s.Stop(w.now)
	case "drained":
		s.say("%v", w.s.Drained())
	case "paused":
		s.say("%v", s.peers[a.pos[0]].paused)
	case "ops":
		if text := names(w.outs); text != "" {
			s.say("%s", text)
		} else {
			s.say("none")
		}
		w.outs = nil
	case "group":
		g := op.GroupID(a.num("id", 1))
		v, _ := w.m.View().Group(g)
		for p := range v.Partitions {
			o, _ := w.m.View().Owner(g, op.PartitionID(p))
			cv, _ := w.m.View().Cursor(g, op.PartitionID(p))
			s.say("part=%d owner=%s own=%d floor=%d next=%d unsettled=%d delivered=%d dropped=%d dlq=%d quarantined=%d", p,
				showID(uint64(o.Member)), o.Epoch, cv.Floor, cv.NextFirst, cv.Unsettled, cv.Delivered, cv.Dropped, cv.DLQ, cv.Quarantined)
		}
	case "explain":
		x := w.s.Explain(op.GroupID(a.num("id", 1)), op.PartitionID(a.num("part", 0)))
		s.say("owned=%v told=%v revoking=%v out=%d waiting=%d full=%v reading=%v stuck=%v oversized=%v pulling=%v credit=%d/%d of %d/%d installed=%d",
			x.Owned, x.Told, x.Revoking, x.Out, x.Waiting, x.Full, x.Reading, x.Stuck, x.Oversized, x.Pulling, x.LeftCount, x.LeftBytes,
			x.WindowCount, x.WindowBytes, x.Installed)
	case "stats":
		x := w.s.Stats()
		s.say("connections=%d unanswered=%d pulls=%d subs=%d deliveries=%d messages=%d expired=%d", x.Connections, x.Unanswered, x.WaitingPulls,
			x.Subscriptions, x.Deliveries, x.Messages, x.Expired)
	default:
		s.t.Fatalf("%s: what is %q?", at, a.cmd)
	}
}

func (s *script) say(format string, args ...any) {
	s.fed = append(s.fed, fmt.Sprintf(format, args...)+"\n"...)
}

// request sends one request of a client, or several: n=.
func (s *script) request(c *client, a words) {
	var b []byte
	group, value := a.args["group"], a.args["value"]
	for k := range a.num("n", 1) { // "%" stands for the number
		if group != "" {
			a.args["group"] = strings.ReplaceAll(group, "%", strconv.Itoa(int(k)))
		}
		if value != "" {
			a.args["value"] = strings.ReplaceAll(value, "%", strconv.Itoa(int(k)))
		}
		b = append(b, s.encode(c, a)...)
	}
	if v, ok := a.args["cut"]; ok { // only the first bytes
		n, err := strconv.Atoi(v)
		must(err)
		b = b[:n]
	}
	s.w.send(c.peer, b)
}

func (s *script) encode(c *client, a words) []byte {
	id := uint16(a.num("sub", 1))
	var b []byte
	switch a.cmd {
	case "RAW":
		raw, err := hex.DecodeString(strings.Join(a.pos, ""))
		must(err)
		return append(raw, make([]byte, a.num("zeros", 0))...)
	case "CONNECT":
		m := wire.Connect{ProtocolVersion: uint8(a.num("version", 1)), Token: []byte(a.str("token", ""))}
		if a.has("hint") {
			m.ClientFlags |= wire.FlagConnectLeaderHint
		}
		b = m.Append(nil)
	case "PING":
		b = (&wire.Ping{}).Append(nil)
	case "ERR":
		b = wire.AppendErr(nil, 7, 0, "client says so")
	case "OK":
		b = wire.AppendOKEmpty(nil, wire.OpPing)
	case "MSG":
		b = (&wire.Msg{Attempt: 1}).Append(nil)
	case "NOTICE":
		b = (&wire.Notice{}).Append(nil)
	case "DECLARE", "DELETE":
		m := wire.Declare{Topic: []byte(a.str("name", "t")), PartitionCount: uint16(a.num("parts", 0)), Flags: uint16(a.num("flags", 0))}
		if a.cmd == "DELETE" {
			m.Flags |= wire.FlagDeclareDelete
		}
		b = m.Append(nil)
	case "PUB":
		m := wire.Pub{
			TopicID: uint16(a.num("topic", 1)), Partition: uint16(a.num("part", 0)), Key: []byte(a.str("key", "")), Value: []byte(a.str("value", "v")),
			Flags: uint16(a.num("flags", 0)),
		}
		if v, ok := a.args["producer"]; ok {
			id, seq, _ := strings.Cut(v, "/")
			m.ProducerID, _ = strconv.ParseUint(id, 10, 64)
			m.ProducerSeq, _ = strconv.ParseUint(seq, 10, 64)
		}
		if a.has("want") {
			m.Flags |= wire.FlagPubWantPartition
		}
		b = m.Append(nil)
	case "SUB":
		m := wire.Sub{
			Group: []byte(a.str("group", "g")), TopicID: uint16(a.num("topic", 1)), Partition: uint16(a.num("part", wire.PartitionAny)),
			StartPolicy: wire.StartPolicy(a.num("start", 0)), CreditCount: uint16(a.num("count", 0)), CreditBytes: uint32(a.num("bytes", 0)),
		}
		if a.has("must_exist") {
			m.Flags |= wire.FlagSubMustExist
		}
		b = m.Append(nil)
	case "CREDIT":
		m := wire.Credit{
			SubscriptionID: id, MembershipEpoch: uint32(a.num("membership", uint64(c.sub(id).membership))),
			CreditCount: uint16(a.num("count", 0)), CreditBytes: uint32(a.num("bytes", 0)),
		}
		if a.has("add") {
			m.Mode = wire.CreditAdd
		}
		b = m.Append(nil)
	case "HEARTBEAT", "LEAVE":
		u := c.sub(id)
		m := wire.Heartbeat{
			SubscriptionID: id, MemberID: a.num("member", u.member), MembershipEpoch: uint32(a.num("membership", uint64(u.membership))),
			AssignmentEpoch: uint32(a.num("assignment", uint64(u.assignment))),
		}
		if a.cmd == "LEAVE" {
			m.State = wire.HeartbeatLeave
		}
		b = m.Append(nil)
	case "PULL":
		b = c.pullFrame(id, a)
	case "CONTROL_ACK":
		n := a.num("id", 1)
		var known wire.Notice
		for _, u := range c.subs {
			if k, ok := u.notices[n]; ok {
				known = k
			}
		}
		m := wire.ControlAck{
			NoticeID: n, NoticeKind: wire.NoticeKind(a.num("kind", uint64(known.Kind))), GroupID: uint16(a.num("group", uint64(known.GroupID))),
			MembershipEpoch: known.MembershipEpoch, AssignmentEpoch: uint32(a.num("assignment", uint64(known.AssignmentEpoch))),
			OwnershipEpoch: a.num("own", known.OwnershipEpoch), Result: wire.ControlResult(a.num("result", 0)),
		}
		b = m.Append(nil)
	case "ACK", "PROGRESS", "NACK":
		b = c.settleFrame(id, a)
	default:
		s.t.Fatalf("no request %q", a.cmd)
	}
	if v, ok := a.args["tail"]; ok { // bytes behind the last field
		raw, err := hex.DecodeString(v)
		must(err)
		b = append(b, raw...)
		n := len(b) - 4
		b[0], b[1], b[2], b[3] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	}
	return b
}

func (c *client) pullFrame(id uint16, a words) []byte {
	u := c.sub(id)
	var parts []uint16
	for p := range u.owned {
		parts = append(parts, p)
	}
	slices.Sort(parts)
	m := wire.Pull{
		SubscriptionID: id, MemberID: a.num("member", u.member), MembershipEpoch: uint32(a.num("membership", uint64(u.membership))),
		AssignmentEpoch: uint32(a.num("assignment", uint64(u.assignment))), MaxMsgs: uint16(a.num("max", 100)),
		MaxBytes: uint32(a.num("bytes", 1<<20)), WaitMs: uint16(a.num("wait", 0)), MinBytes: uint32(a.num("min", 1)),
	}
	for _, p := range parts {
		m.OwnershipEpochs = wire.AppendEpochs(m.OwnershipEpochs, u.owned[p])
	}
	if v, ok := a.args["own"]; ok {
		m.OwnershipEpochs = nil
		for _, n := range strings.Split(v, ",") {
			e, err := strconv.ParseUint(n, 10, 64)
			must(err)
			m.OwnershipEpochs = wire.AppendEpochs(m.OwnershipEpochs, e)
		}
	}
	return m.Append(nil)
}

func (c *client) settleFrame(id uint16, a words) []byte {
	seq := a.num("seq", 1)
	k := c.sub(id).msgs[seq]
	m := wire.Nack{
		SubscriptionID: id, TopicID: uint16(a.num("topic", uint64(k.TopicID))), Partition: uint16(a.num("part", uint64(k.Partition))),
		Seq: seq, DeliveryID: a.num("delivery", k.DeliveryID), OwnershipEpoch: a.num("own", k.OwnershipEpoch), Reason: wire.NackReason(a.num("reason", 0)),
	}
	if a.cmd == "NACK" {
		if v, ok := a.args["delay"]; ok {
			m.Flags, m.DelayMs = wire.FlagNackDelay, uint32(span(v).Millis())
		}
		return m.Append(nil)
	}
	k2 := wire.Ack{
		SubscriptionID: m.SubscriptionID, TopicID: m.TopicID, Partition: m.Partition, Seq: m.Seq, DeliveryID: m.DeliveryID,
		OwnershipEpoch: m.OwnershipEpoch,
	}
	if a.cmd == "PROGRESS" {
		k2.Flags = wire.FlagAckProgress
	}
	return k2.Append(nil)
}

package session

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// randomRun is a world with clients that do whatever rapid draws, and a memory of what
// each of them asked and was told.
type randomRun struct {
	t       *rapid.T
	w       *world
	clients []*actor
	next    net.ConnID

	deliveries map[uint64]bool // every delivery id ever sent
	first      map[[3]uint64]uint64
	published  map[string]bool // values whose PUB was answered with OK
	count      int
}

// actor is one client.
type actor struct {
	client
	asked []wire.Op // requests without an answer
	pubs  []string  // values of PUBs without an answer
	open  map[uint64]wire.Msg
	last  wire.CreditResult // of the last CREDIT
}

func newRun(t *rapid.T) *randomRun {
	r := &randomRun{t: t, w: newWorld(Config{DeliveryLease: 3 * clock.Second}), deliveries: map[uint64]bool{}, first: map[[3]uint64]uint64{}, published: map[string]bool{}}
	r.w.settings = op.Settings{DeliveryMaxAttempts: 3}
	r.w.strict = func(w *world) {
		if err := check(w); err != nil {
			t.Fatal(err)
		}
	}
	r.w.lead()
	for k := range 2 {
		r.connect()
		r.ask(r.clients[k], wire.OpDeclare, (&wire.Declare{Topic: fmt.Appendf(nil, "t%d", k), PartitionCount: uint16(1 + 2*k)}).Append(nil))
		r.turn()
	}
	return r
}

func (r *randomRun) connect() {
	r.next++
	p := r.w.open(r.next)
	a := &actor{client: client{peer: p, subs: map[uint16]*clientSub{}}, open: map[uint64]wire.Msg{}}
	r.clients = append(r.clients, a)
	r.ask(a, wire.OpConnect, (&wire.Connect{ProtocolVersion: 1}).Append(nil))
}

// ask sends one request; FIFO is checked against asked.
func (r *randomRun) ask(a *actor, o wire.Op, frame []byte) {
	if a.closed {
		return
	}
	a.asked = append(a.asked, o)
	r.w.send(a.peer, frame)
}

// turn ends the turn and lets every client read.
func (r *randomRun) turn() {
	r.w.endTurn()
	r.read()
}

func (r *randomRun) read() {
	for _, a := range r.clients {
		for _, f := range a.take() {
			r.got(a, f)
		}
	}
}

func (r *randomRun) got(a *actor, f wire.Frame) {
	a.learn(f)
	switch f.Op {
	case wire.OpOK, wire.OpErr:
		var o wire.Op
		if f.Op == wire.OpOK {
			var m wire.OK
			must(m.Decode(f.Payload))
			o = m.RequestOp
			if o == wire.OpCredit {
				must(a.last.Decode(m.Result))
			}
		} else {
			var m wire.Err
			must(m.Decode(f.Payload))
			o = m.RequestOp
			if m.Code == wire.CodeMalformedPayload || m.Code == wire.CodeInternal {
				r.t.Fatalf("an honest client got %v: %s", m.Code, m.Message)
			}
		}
		if len(a.asked) == 0 || a.asked[0] != o {
			r.t.Fatalf("an answer to %v, asked were %v", o, a.asked)
		}
		a.asked = a.asked[1:]
		if o == wire.OpPub {
			if f.Op == wire.OpOK {
				r.published[a.pubs[0]] = true
			}
			a.pubs = a.pubs[1:]
		}
	case wire.OpMsg:
		var m wire.Msg
		must(m.Decode(f.Payload))
		r.gotMsg(a, m)
	}
}

func (r *randomRun) gotMsg(a *actor, m wire.Msg) {
	if r.deliveries[m.DeliveryID] {
		r.t.Fatalf("delivery id %s came twice", showID(m.DeliveryID))
	}
	r.deliveries[m.DeliveryID] = true
	u := a.sub(m.SubscriptionID)
	if own, ok := u.owned[m.Partition]; !ok || own != m.OwnershipEpoch {
		r.t.Fatalf("a MSG of partition %d under ownership %d, owned are %v", m.Partition, m.OwnershipEpoch, u.owned)
	}
	key := [3]uint64{uint64(u.group), uint64(m.Partition), 0}
	if m.Attempt == 1 {
		if m.Sequence != r.first[key]+1 {
			r.t.Fatalf("group %d partition %d: first delivery of %d after %d", u.group, m.Partition, m.Sequence, r.first[key])
		}
		r.first[key] = m.Sequence
	}
	a.open[m.DeliveryID] = m
}

// drawSub draws a subscription of a client, 0 for none.
func (r *randomRun) drawSub(a *actor) uint16 {
	var ids []uint16
	for id := range uint16(40) {
		if u := a.subs[id]; u != nil && u.member != 0 && !u.left {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return 0
	}
	return rapid.SampledFrom(ids).Draw(r.t, "sub")
}

func (r *randomRun) drawMsg(a *actor) (wire.Msg, bool) {
	var best []wire.Msg
	for _, m := range a.open {
		best = append(best, m)
	}
	if len(best) == 0 {
		return wire.Msg{}, false
	}
	// A draw must not depend on the order of a map.
	lowest := best[0]
	for _, m := range best {
		if m.DeliveryID < lowest.DeliveryID {
			lowest = m
		}
	}
	highest := best[0]
	for _, m := range best {
		if m.DeliveryID > highest.DeliveryID {
			highest = m
		}
	}
	if rapid.Bool().Draw(r.t, "highest") {
		return highest, true
	}
	return lowest, true
}

// act lets one client do one thing.
func (r *randomRun) act() {
	a := r.clients[rapid.IntRange(0, len(r.clients)-1).Draw(r.t, "client")]
	switch rapid.IntRange(0, 14).Draw(r.t, "what") {
	case 0, 1:
		r.count++
		value := fmt.Sprint("v", r.count)
		if !a.closed {
			a.pubs = append(a.pubs, value)
		}
		topic := rapid.SampledFrom([]uint16{1, 3}).Draw(r.t, "topic")
		r.ask(a, wire.OpPub, (&wire.Pub{TopicID: topic, Partition: wire.PartitionAny, Value: []byte(value), ProducerID: 0}).Append(nil))
	case 2:
		g := rapid.IntRange(0, 2).Draw(r.t, "group")
		r.ask(a, wire.OpSub, (&wire.Sub{
			Group: fmt.Appendf(nil, "g%d", g), TopicID: []uint16{1, 3, 3}[g], Partition: wire.PartitionAny,
			CreditCount: rapid.SampledFrom([]uint16{0, 3}).Draw(r.t, "credit"), CreditBytes: 100000,
		}).Append(nil))
	case 3, 4, 5:
		if id := r.drawSub(a); id != 0 {
			r.ask(a, wire.OpPull, a.pullFrame(id, words{args: map[string]string{
				"max": rapid.SampledFrom([]string{"1", "2", "50"}).Draw(r.t, "max"), "wait": rapid.SampledFrom([]string{"0", "2000"}).Draw(r.t, "wait"),
				"min": rapid.SampledFrom([]string{"0", "1", "6"}).Draw(r.t, "min"),
			}}))
		}
	case 6, 7:
		r.settle(a, rapid.IntRange(0, 5).Draw(r.t, "how"))
	case 8:
		if id := r.drawSub(a); id != 0 {
			u := a.subs[id]
			m := wire.Credit{SubscriptionID: id, MembershipEpoch: u.membership, CreditCount: 4, CreditBytes: 50}
			m.Mode = wire.CreditMode(rapid.IntRange(0, 1).Draw(r.t, "mode"))
			r.ask(a, wire.OpCredit, m.Append(nil))
		}
	case 9:
		if id := r.drawSub(a); id != 0 {
			r.heartbeat(a, id, rapid.IntRange(0, 9).Draw(r.t, "leave") == 0)
		}
	case 10:
		r.confirm(a)
	case 11:
		r.world()
	case 12:
		r.w.apply(rapid.IntRange(1, 4).Draw(r.t, "n"))
	case 13:
		r.w.pass(clock.Duration(rapid.SampledFrom([]int{1, 100, 1000, 4000}).Draw(r.t, "ms")) * clock.Millisecond)
	default:
		r.turn()
	}
}

// newEpoch begins a leader epoch: subscriptions of the one before are over.
func (r *randomRun) newEpoch() {
	r.w.lead()
	r.read()
	for _, a := range r.clients {
		for _, u := range a.subs { // order-free: sets
			u.left = true
		}
	}
	r.recount()
}

// recount takes up first deliveries where the ledger of a new epoch is: Deliver
// ops that were not in the log are lost.
func (r *randomRun) recount() {
	v := r.w.m.View()
	for g, ok := v.NextGroup(0); ok; g, ok = v.NextGroup(g.ID) {
		for p := range g.Partitions {
			cv, _ := v.Cursor(g.ID, op.PartitionID(p))
			r.first[[3]uint64{uint64(g.ID), uint64(p), 0}] = uint64(cv.NextFirst - 1)
		}
	}
}

func (r *randomRun) settle(a *actor, how int) {
	m, ok := r.drawMsg(a)
	if !ok {
		return
	}
	n := wire.Nack{
		SubscriptionID: m.SubscriptionID, TopicID: m.TopicID, Partition: m.Partition, Seq: m.Sequence, DeliveryID: m.DeliveryID,
		OwnershipEpoch: m.OwnershipEpoch,
	}
	k := wire.Ack{
		SubscriptionID: m.SubscriptionID, TopicID: m.TopicID, Partition: m.Partition, Seq: m.Sequence, DeliveryID: m.DeliveryID,
		OwnershipEpoch: m.OwnershipEpoch,
	}
	switch how {
	case 0:
		r.ask(a, wire.OpNack, n.Append(nil))
	case 1:
		n.Reason = wire.NackRelease
		r.ask(a, wire.OpNack, n.Append(nil))
	case 2:
		n.Reason = wire.NackReject
		r.ask(a, wire.OpNack, n.Append(nil))
	case 3:
		k.Flags = wire.FlagAckProgress
		r.ask(a, wire.OpAck, k.Append(nil))
		return
	default:
		r.ask(a, wire.OpAck, k.Append(nil))
	}
	if rapid.IntRange(0, 3).Draw(r.t, "keep") > 0 {
		delete(a.open, m.DeliveryID)
	}
}

func (r *randomRun) heartbeat(a *actor, id uint16, leave bool) {
	u := a.subs[id]
	m := wire.Heartbeat{SubscriptionID: id, MemberID: u.member, MembershipEpoch: u.membership, AssignmentEpoch: u.assignment}
	if leave {
		m.State = wire.HeartbeatLeave
		u.left = true
	}
	r.ask(a, wire.OpHeartbeat, m.Append(nil))
}

func (r *randomRun) confirm(a *actor) {
	var pick wire.Notice
	for id := range uint16(40) {
		if u := a.subs[id]; u != nil {
			for n := range uint64(200) {
				if k, ok := u.notices[n]; ok {
					pick = k
					delete(u.notices, n)
				}
			}
		}
	}
	if pick.NoticeID == 0 {
		return
	}
	r.ask(a, wire.OpControlAck, (&wire.ControlAck{
		NoticeID: pick.NoticeID, NoticeKind: pick.Kind, GroupID: pick.GroupID, MembershipEpoch: pick.MembershipEpoch,
		AssignmentEpoch: pick.AssignmentEpoch, OwnershipEpoch: pick.OwnershipEpoch,
	}).Append(nil))
}

// world changes the circumstances.
func (r *randomRun) world() {
	w := r.w
	switch rapid.IntRange(0, 10).Draw(r.t, "world") {
	case 0:
		w.manual = !w.manual
	case 1:
		w.cold = !w.cold
	case 2:
		w.refuse = rapid.SampledFrom([]wire.Code{0, 0, wire.CodeBackpressure, wire.CodeReadOnlyDegraded}).Draw(r.t, "refuse")
		w.only = rapid.SampledFrom([]op.Kind{0, op.KindDeliver, op.KindExpire, op.KindDeadLetter, op.KindLeave, op.KindRevoked}).Draw(r.t, "only")
	case 3:
		w.frozen = rapid.SampledFrom([]wire.Code{0, 0, wire.CodeReadOnlyDegraded}).Draw(r.t, "frozen")
	case 4, 5:
		w.warmUp()
	case 6:
		a := r.clients[rapid.IntRange(0, len(r.clients)-1).Draw(r.t, "drop")]
		r.turn() // what was sent to it is read first: it counts as delivered
		if !a.closed {
			w.drop(a.peer)
		}
		r.connect()
	case 7:
		w.failAll(wire.CodeQuorumLost)
		r.newEpoch()
	case 8:
		w.jump(2 * clock.Second)
	case 9: // a majority was missing for a while
		kept := slices.Clone(w.queue)
		w.failAll(wire.CodeQuorumLost)
		w.queue = kept
	case 10:
		w.failAll(wire.CodeQuorumLost)
		w.s.OnEpoch(w.now, w.epoch, false)
		r.turn()
		for _, a := range r.clients {
			if !a.closed {
				r.ask(a, wire.OpHeartbeat, (&wire.Heartbeat{SubscriptionID: 1}).Append(nil))
			}
		}
		r.turn()
		r.newEpoch()
	}
}

// Goal: whatever clients do, whenever ops are applied: answers come in the order
// of the requests, one each; no delivery id is used twice; nobody is sent what it
// does not own; first deliveries are in log order; the volatile state is that of
// the ledger; and in the end every message is settled.
func TestRandomRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRun(t)
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			r.act()
		}
		r.turn()
		r.drain()
	})
}

// Goal: whatever is under way, a stop answers what is committed and ends.
func TestRandomStops(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRun(t)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			r.act()
		}
		r.turn()
		r.w.manual = true
		for range rapid.IntRange(0, 10).Draw(t, "steps in flight") {
			r.act()
		}
		r.w.s.Stop(r.w.now)
		r.turn()
		for range rapid.IntRange(0, 10).Draw(t, "more") {
			r.act()
		}
		r.w.manual, r.w.refuse, r.w.cold = false, 0, false
		r.w.warmUp()
		r.turn()
		r.w.pass(clock.Second)
		if !r.w.s.Drained() {
			t.Fatalf("not drained: %+v", r.w.s.Stats())
		}
	})
}

// drain lets one patient client per group consume everything.
func (r *randomRun) drain() {
	w := r.w
	w.manual, w.cold, w.refuse, w.frozen = false, false, 0, 0
	w.warmUp()
	r.turn()
	for _, a := range r.clients {
		if !a.closed {
			w.drop(a.peer)
		}
	}
	r.turn()
	w.pass(3 * clock.Second)
	r.clients = nil
	r.connect()
	a := r.clients[0]
	r.turn()
	for g := range 3 {
		r.ask(a, wire.OpSub, (&wire.Sub{Group: fmt.Appendf(nil, "g%d", g), TopicID: []uint16{1, 3, 3}[g], Partition: wire.PartitionAny}).Append(nil))
		r.turn()
	}
	for range 60 {
		w.pass(clock.Second)
		r.read()
		for id := uint16(1); id <= 3; id++ {
			if a.subs[id] == nil {
				continue
			}
			r.heartbeat(a, id, false)
			r.ask(a, wire.OpPull, a.pullFrame(id, words{args: map[string]string{"max": "50"}}))
			r.turn()
		}
		for len(a.open) > 0 {
			m, _ := r.drawMsg(a)
			delete(a.open, m.DeliveryID)
			k := wire.Ack{
				SubscriptionID: m.SubscriptionID, TopicID: m.TopicID, Partition: m.Partition, Seq: m.Sequence, DeliveryID: m.DeliveryID,
				OwnershipEpoch: m.OwnershipEpoch,
			}
			r.ask(a, wire.OpAck, k.Append(nil))
			c := wire.Credit{SubscriptionID: m.SubscriptionID, MembershipEpoch: a.subs[m.SubscriptionID].membership, Mode: wire.CreditAdd, CreditCount: 1, CreditBytes: uint32(len(m.Value))}
			r.ask(a, wire.OpCredit, c.Append(nil))
		}
		r.turn()
		if r.settledAll() {
			break
		}
	}
	if !r.settledAll() {
		r.t.Fatalf("something is never settled: %+v %+v", w.s.Explain(1, 0), w.s.Stats())
	}
	r.allCredit(a)
	if len(a.asked) > 0 {
		r.t.Fatalf("requests without an answer: %v", a.asked)
	}
	if err := w.m.Check(); err != nil {
		r.t.Fatal(err)
	}
	r.kept()
}

// allCredit says that a subscription that gave everything back has its whole
// window again.
func (r *randomRun) allCredit(a *actor) {
	for id := uint16(1); id <= 3; id++ {
		c := wire.Credit{SubscriptionID: id, MembershipEpoch: a.subs[id].membership, Mode: wire.CreditAdd}
		r.ask(a, wire.OpCredit, c.Append(nil))
		r.turn()
		if k := a.last; k.GrantedCount != wire.DefaultCreditCount || k.GrantedBytes != wire.DefaultCreditBytes || k.OutstandingCount != 0 {
			r.t.Fatalf("credit is lost: %+v", k)
		}
	}
}

// kept says that every message whose PUB was answered with OK is in the log.
func (r *randomRun) kept() {
	stored := map[string]bool{}
	for _, rec := range r.w.records { // order-free: a set
		stored[string(rec.Value)] = true
	}
	for v := range r.published { // order-free: checks
		if !stored[v] {
			r.t.Fatalf("%s was acknowledged and is not in the log", v)
		}
	}
}

func (r *randomRun) settledAll() bool {
	v := r.w.m.View()
	for g, ok := v.NextGroup(0); ok; g, ok = v.NextGroup(g.ID) {
		for p := range g.Partitions {
			if cv, _ := v.Cursor(g.ID, op.PartitionID(p)); cv.Unsettled > 0 {
				return false
			}
		}
	}
	return true
}

// Goal: whatever bytes come, in whatever pieces, nothing panics, nothing grows
// beyond its bound, and another connection is not disturbed.
func TestHostileBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(Config{})
		w.strict = func(w *world) {
			if err := check(w); err != nil {
				t.Fatal(err)
			}
		}
		w.lead()
		good := w.open(1)
		w.send(good, (&wire.Connect{ProtocolVersion: 1}).Append(nil))
		w.send(good, (&wire.Declare{Topic: []byte("t"), PartitionCount: 2}).Append(nil))
		w.endTurn()
		w.send(good, (&wire.Sub{Group: []byte("g"), TopicID: 1, Partition: wire.PartitionAny}).Append(nil))
		w.endTurn()
		evil := w.open(2)
		if rapid.Bool().Draw(t, "connected") {
			w.send(evil, (&wire.Connect{ProtocolVersion: 1}).Append(nil))
		}
		w.manual = rapid.Bool().Draw(t, "manual")
		for range rapid.IntRange(1, 12).Draw(t, "pieces") {
			w.send(evil, drawHostile(t))
			if rapid.Bool().Draw(t, "turn") {
				w.endTurn()
			}
			if rapid.IntRange(0, 4).Draw(t, "pass") == 0 {
				w.pass(3 * clock.Second)
				w.send(good, (&wire.Ping{}).Append(nil))
			}
			if rapid.Bool().Draw(t, "apply") {
				w.apply(2)
			}
		}
		good.take()
		w.send(good, (&wire.Ping{}).Append(nil))
		w.endTurn()
		f := good.take()
		for _, k := range f {
			if k.Op != wire.OpOK && k.Op != wire.OpNotice { // it may join the same group
				t.Fatalf("another connection was disturbed: %v", show(k, 0))
			}
		}
		if len(f) == 0 || good.closed {
			t.Fatal("another connection got no answer")
		}
	})
}

// drawHostile draws bytes that are nearly frames, or not at all.
func drawHostile(t *rapid.T) []byte {
	id := rapid.Uint16Range(0, 3)
	num := rapid.OneOf(rapid.Uint64Range(0, 5), rapid.Uint64())
	var b []byte
	switch rapid.IntRange(0, 12).Draw(t, "shape") {
	case 0:
		return rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "raw")
	case 1:
		n := rapid.SampledFrom([]uint32{0, 1, 2, 67584, 67585, 1 << 24, 1<<24 + 1, 1 << 31}).Draw(t, "length")
		b = []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), rapid.Byte().Draw(t, "op")}
	case 2:
		b = (&wire.Ack{
			SubscriptionID: id.Draw(t, "s"), TopicID: id.Draw(t, "t"), Partition: id.Draw(t, "p"), Seq: num.Draw(t, "seq"),
			DeliveryID: num.Draw(t, "d"), OwnershipEpoch: num.Draw(t, "o"), Flags: id.Draw(t, "f"),
		}).Append(nil)
	case 3:
		b = (&wire.Nack{
			SubscriptionID: id.Draw(t, "s"), TopicID: id.Draw(t, "t"), Partition: id.Draw(t, "p"), Seq: num.Draw(t, "seq"),
			DeliveryID: num.Draw(t, "d"), OwnershipEpoch: num.Draw(t, "o"), Reason: wire.NackReason(id.Draw(t, "r")),
		}).Append(nil)
	case 4:
		b = (&wire.Pull{
			SubscriptionID: id.Draw(t, "s"), MemberID: num.Draw(t, "m"), MembershipEpoch: uint32(num.Draw(t, "e")), AssignmentEpoch: uint32(num.Draw(t, "a")),
			OwnershipEpochs: bytes.Repeat([]byte{1}, 8*rapid.IntRange(0, 300).Draw(t, "n")), MaxMsgs: id.Draw(t, "max"), MaxBytes: uint32(num.Draw(t, "b")),
			WaitMs: uint16(num.Draw(t, "w")), MinBytes: uint32(num.Draw(t, "min")),
		}).Append(nil)
	case 5:
		b = (&wire.Sub{
			Group: []byte("g"), TopicID: id.Draw(t, "t"), Partition: wire.PartitionAny, CreditCount: uint16(num.Draw(t, "c")), CreditBytes: uint32(num.Draw(t, "b")),
		}).Append(nil)
	case 6:
		b = (&wire.ControlAck{NoticeID: num.Draw(t, "n"), NoticeKind: wire.NoticeKind(id.Draw(t, "k")), GroupID: id.Draw(t, "g"), OwnershipEpoch: num.Draw(t, "o")}).Append(nil)
	case 7:
		b = (&wire.Credit{SubscriptionID: id.Draw(t, "s"), MembershipEpoch: uint32(num.Draw(t, "m")), Mode: wire.CreditMode(id.Draw(t, "mode")), CreditCount: uint16(num.Draw(t, "c"))}).Append(nil)
	case 8:
		b = (&wire.Heartbeat{SubscriptionID: id.Draw(t, "s"), MemberID: num.Draw(t, "m"), State: wire.HeartbeatState(id.Draw(t, "state"))}).Append(nil)
	case 9:
		b = (&wire.Declare{Topic: rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "name"), PartitionCount: id.Draw(t, "p"), Flags: id.Draw(t, "f")}).Append(nil)
	case 10:
		for range rapid.IntRange(1, 1100).Draw(t, "pings") {
			b = (&wire.Ping{}).Append(b)
		}
	case 11:
		b = (&wire.Declare{Topic: []byte("t"), PartitionCount: 2, Flags: uint16(rapid.IntRange(0, 1).Draw(t, "delete"))}).Append(nil)
	default:
		b = (&wire.Pub{
			TopicID: id.Draw(t, "t"), Partition: id.Draw(t, "p"), ProducerID: num.Draw(t, "pid"), ProducerSeq: num.Draw(t, "seq"), Flags: id.Draw(t, "f"),
			Key: make([]byte, rapid.IntRange(0, 255).Draw(t, "key")), Value: make([]byte, rapid.IntRange(0, 2000).Draw(t, "value")),
		}).Append(nil)
	}
	if rapid.IntRange(0, 5).Draw(t, "bend") == 0 && len(b) > 0 {
		b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
	}
	return b[:rapid.IntRange(len(b)/2, len(b)).Draw(t, "cut")]
}

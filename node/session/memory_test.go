package session

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/wire"
)

// heap gives the bytes in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// quiet answers a node's events without keeping what is sent.
type quiet struct {
	s    *Sessions
	now  clock.Reading
	reqs []net.Request
}

func (q *quiet) turn() { q.reqs = q.s.EndTurn(q.now, q.reqs[:0]) }

// Goal: an idle connection costs less than a kilobyte here, also after a burst.
func TestIdleConnections(t *testing.T) {
	const n = 10_000
	w := newWorld(Config{})
	w.lead()
	q := &quiet{s: w.s, now: w.now}
	hello := (&wire.Connect{ProtocolVersion: 1}).Append(nil)
	var pings []byte
	for range 200 {
		pings = (&wire.Ping{}).Append(pings)
	}
	before := heap()
	for id := net.ConnID(1); id <= n; id++ {
		w.s.OnEvent(q.now, &net.Event{Kind: net.EventOpened, Conn: id})
		w.s.OnEvent(q.now, &net.Event{Kind: net.EventBytes, Conn: id, Data: hello})
		if id%10 == 0 {
			w.s.OnEvent(q.now, &net.Event{Kind: net.EventBytes, Conn: id, Data: pings})
		}
		q.turn()
	}
	for range 30 {
		q.now.Mono = q.now.Mono.Add(clock.Second)
		w.s.Tick(q.now)
		q.turn()
	}
	each := (heap() - before) / n
	t.Logf("%d bytes a connection, %d of them the slot", each, unsafe.Sizeof(conn{}))
	if each > 1024 || w.s.Stats().Connections != n {
		t.Fatalf("%d bytes a connection", each)
	}
	runtime.KeepAlive(w)
}

// Goal: a frame that is declared and does not come costs nothing.
func TestDeclaredFrames(t *testing.T) {
	const n = 1000
	w := newWorld(Config{})
	w.lead()
	q := &quiet{s: w.s, now: w.now}
	hello := (&wire.Connect{ProtocolVersion: 1}).Append(nil)
	for id := net.ConnID(1); id <= n; id++ {
		w.s.OnEvent(q.now, &net.Event{Kind: net.EventOpened, Conn: id})
		w.s.OnEvent(q.now, &net.Event{Kind: net.EventBytes, Conn: id, Data: hello})
	}
	q.turn()
	before := heap()
	for id := net.ConnID(1); id <= n; id++ {
		w.s.OnEvent(q.now, &net.Event{Kind: net.EventBytes, Conn: id, Data: []byte{1, 0, 0, 0, byte(wire.OpPub)}})
	}
	q.turn()
	if grown := heap() - before; grown > 1<<20 {
		t.Fatalf("%d bytes for %d frames that are not there", grown, n)
	}
	runtime.KeepAlive(w)
}

// consumer is one member that pulls and acknowledges without a word too much.
type consumer struct {
	*world
	p    *peer
	c    *client
	pull []byte
	acks []byte
	reqs []net.Request
}

func newConsumer(t testing.TB, value, count int) *consumer {
	w := newWorld(Config{})
	w.lead()
	p := w.connected(t, 1)
	c := &client{peer: p, subs: map[uint16]*clientSub{}}
	topic := w.declare(t, p, "t", 1)
	for range count {
		w.send(p, (&wire.Pub{TopicID: uint16(topic), Value: make([]byte, value)}).Append(nil))
	}
	w.send(p, (&wire.Sub{Group: []byte("g"), TopicID: uint16(topic), Partition: wire.PartitionAny, CreditCount: 65535, CreditBytes: 1 << 31}).Append(nil))
	w.endTurn()
	for _, f := range p.take() {
		c.learn(f)
	}
	k := &consumer{world: w, p: p, c: c}
	k.pull = c.pullFrame(1, words{args: map[string]string{"max": "64", "bytes": "100000000"}})
	return k
}

// round is one PULL, its MSGs, an ACK for each of them and the credit back.
func (k *consumer) round(t testing.TB) int {
	s := k.s
	ev := net.Event{Kind: net.EventBytes, Conn: k.p.id, Data: k.pull}
	s.OnEvent(k.now, &ev)
	k.reqs = s.EndTurn(k.now, k.reqs[:0])
	if len(k.reqs) != 1 {
		t.Fatalf("%d requests", len(k.reqs))
	}
	k.acks = k.acks[:0]
	n, size := 0, 0
	for b := k.reqs[0].Data; len(b) > 4; {
		length := int(b[0])<<24 | int(b[1])<<16 | int(b[2])<<8 | int(b[3])
		if wire.Op(b[4]) == wire.OpMsg {
			var m wire.Msg
			must(m.Decode(b[5 : 4+length]))
			a := wire.Ack{SubscriptionID: 1, TopicID: m.TopicID, Partition: m.Partition, Seq: m.Sequence, DeliveryID: m.DeliveryID, OwnershipEpoch: m.OwnershipEpoch}
			k.acks = a.Append(k.acks)
			n++
			size += len(m.Value)
		}
		b = b[4+length:]
	}
	cr := wire.Credit{SubscriptionID: 1, MembershipEpoch: k.c.subs[1].membership, Mode: wire.CreditAdd, CreditCount: uint16(n), CreditBytes: uint32(size)}
	k.acks = cr.Append(k.acks)
	ev.Data = k.acks
	s.OnEvent(k.now, &ev)
	k.apply(1 << 30)
	k.reqs = s.EndTurn(k.now, k.reqs[:0])
	k.outs, k.ops = k.outs[:0], k.ops[:0]
	return n
}

// Goal: in steady state delivering a message and taking its ACK allocates nothing
// in this package (the world around it allocates for each op it queues).
func TestDeliverAllocates(t *testing.T) {
	if fault.Enabled {
		t.Skip("asking for planted bugs allocates")
	}
	k := newConsumer(t, 100, 64*40)
	b := &silentBroker{world: k.world}
	k.s.broker = b
	for range 3 {
		b.round(t, k)
	}
	n := testing.AllocsPerRun(30, func() {
		if b.round(t, k) != 64 {
			t.Fatal("no full round")
		}
	})
	if n != 0 {
		t.Fatalf("%v allocations per 64 messages", n)
	}
}

// Goal: at most 65 536 sequences of a partition are handed out and unsettled;
// then first deliveries wait, and any settle ends that.
func TestUnsettledBound(t *testing.T) {
	const total = wire.MaxUnsettled + 10
	k := newConsumer(t, 1, total)
	k.s.broker = &silentBroker{world: k.world}
	got := uint64(0)
	var last wire.Msg
	pull := func() {
		k.send(k.p, k.c.pullFrame(1, words{args: map[string]string{"max": "60000", "bytes": "100000000"}}))
		k.flush(k.s.broker.(*silentBroker))
		n := uint16(0)
		for _, f := range k.p.take() {
			if f.Op == wire.OpMsg {
				must(last.Decode(f.Payload))
				got++
				n++
			}
		}
		c := wire.Credit{SubscriptionID: 1, MembershipEpoch: k.c.subs[1].membership, Mode: wire.CreditAdd, CreditCount: n, CreditBytes: uint32(n)}
		k.send(k.p, c.Append(nil))
		k.flush(k.s.broker.(*silentBroker))
		k.p.take()
	}
	for range 3 {
		pull()
	}
	if x := k.s.Explain(1, 0); got != wire.MaxUnsettled || !x.Full {
		t.Fatalf("%d were handed out, full %v", got, x.Full)
	}
	k.send(k.p, k.c.pullFrame(1, words{args: map[string]string{"max": "60000", "wait": "1000"}}))
	k.flush(k.s.broker.(*silentBroker))
	a := wire.Ack{SubscriptionID: 1, TopicID: last.TopicID, Seq: last.Sequence, DeliveryID: last.DeliveryID, OwnershipEpoch: last.OwnershipEpoch}
	k.send(k.p, a.Append(nil))
	k.flush(k.s.broker.(*silentBroker))
	k.p.take()
	pull()
	if got != wire.MaxUnsettled+1 {
		t.Fatalf("%d after one was settled", got)
	}
	if err := check(k.world); err != nil {
		t.Fatal(err)
	}
}

// Goal: one PULL gives at most 32 MiB of MSG, and a connection with much to write
// is given no more until it has written it.
func TestPullBytes(t *testing.T) {
	k := newConsumer(t, 5<<20, 10)
	pull := k.c.pullFrame(1, words{args: map[string]string{"bytes": "4000000000"}})
	k.send(k.p, append(append([]byte{}, pull...), pull...))
	k.endTurn()
	if n := len(k.p.take()); n != 7 { // 6 MSG and an OK
		t.Fatalf("%d frames", n)
	}
	k.event(net.Event{Kind: net.EventProgress, Conn: 1, Queued: 31 << 20})
	k.pass(clock.Second)
	if n := len(k.p.take()); n != 0 {
		t.Fatalf("%d frames while 31 MiB are not written", n)
	}
	k.event(net.Event{Kind: net.EventProgress, Conn: 1, Queued: 100})
	k.endTurn()
	if n := len(k.p.take()); n != 5 {
		t.Fatalf("%d frames", n)
	}
}

// BenchmarkDeliver is PULL, MSG, ACK and CREDIT through this package and the
// machine, 64 messages of 1 KiB a round.
func BenchmarkDeliver(b *testing.B) {
	var sb *silentBroker
	var k *consumer
	left, n := 0, 0
	for b.Loop() {
		if left == 0 {
			b.StopTimer()
			left = 600
			k = newConsumer(b, 1024, 64*left)
			sb = &silentBroker{world: k.world}
			k.s.broker = sb
			heap()
			b.StartTimer()
		}
		n += sb.round(b, k)
		left--
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/msg")
}

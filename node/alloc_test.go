package node

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/node/store"
	"github.com/mortarmq/mortarmq/wire"
)

// rig is a node on a nullDisk with one client that speaks frames.
type rig struct {
	t    testing.TB
	node *Node
	disk *nullDisk
	now  clock.Reading
	in   []Input
	out  Effects

	reader  wire.FrameReader
	payload [][]byte // of the frames that came since they were last taken, copied
	ops     []wire.Op
	keep    bool
	// firstDelivery is the delivery id of the first MSG since send. One owner and
	// first deliveries alone take the ids behind it in turn.
	firstDelivery uint64
}

const rigConn = net.FirstAccepted + 1

func newRig(t testing.TB) *rig {
	n, err := New(Config{NewClusterID: [16]byte{1}, Store: store.Options{NodeID: 1}})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, node: n, disk: newNullDisk(), now: clock.Reading{Mono: 1, Wall: 1_700_000_000_000}, keep: true}
	for !n.Serving() {
		r.turn()
	}
	r.in = append(r.in, Input{Kind: InputNet, Net: net.Event{Kind: net.EventOpened, Conn: rigConn, Remote: "rig"}})
	return r
}

// turn runs one turn, carries its effects out, and lets a millisecond pass.
func (r *rig) turn() {
	r.now.Mono += clock.Instant(clock.Millisecond)
	r.now.Wall++
	r.out.Reset()
	r.node.Turn(r.now, r.in, &r.out)
	r.in = r.disk.carry(r.out.Disk, r.in[:0])
	for i := range r.out.Net {
		if r.out.Net[i].Kind == net.RequestSend {
			r.take(r.out.Net[i].Data)
		}
	}
	if r.out.Exit != nil {
		r.t.Fatal(r.out.Exit.Reason)
	}
}

func (r *rig) take(data []byte) {
	r.reader.Feed(data)
	for {
		f, ok, err := r.reader.Next()
		if err != nil {
			r.t.Fatal(err)
		}
		if !ok {
			return
		}
		if f.Op == wire.OpErr {
			var e wire.Err
			if err := e.Decode(f.Payload); err != nil {
				r.t.Fatal(err)
			}
			r.t.Fatalf("%v: %s", e.Code, e.Message)
		}
		if f.Op == wire.OpMsg && r.firstDelivery == 0 {
			var m wire.Msg
			if err := m.Decode(f.Payload); err != nil {
				r.t.Fatal(err)
			}
			r.firstDelivery = m.DeliveryID
		}
		r.ops = append(r.ops, f.Op)
		if r.keep {
			r.payload = append(r.payload, append([]byte(nil), f.Payload...))
		}
	}
}

// send gives bytes to the node and runs turns until n frames have come back.
func (r *rig) send(data []byte, n int) {
	r.ops, r.payload, r.firstDelivery = r.ops[:0], r.payload[:0], 0
	r.in = append(r.in, Input{Kind: InputNet, Net: net.Event{Kind: net.EventBytes, Conn: rigConn, Data: data}})
	for turns := 0; len(r.ops) < n; turns++ {
		if turns > 100_000 {
			r.t.Fatalf("%d frames of %d", len(r.ops), n)
		}
		r.turn()
	}
}

func (r *rig) result(i int) []byte {
	var ok wire.OK
	if err := ok.Decode(r.payload[i]); err != nil {
		r.t.Fatal(err)
	}
	return ok.Result
}

// Goal: a million publishes through Turn, journal, ledger and segments - each
// delivered to a group and acknowledged - cost less than 0.01 allocations each,
// growth of every table included.
func TestTurnAllocations(t *testing.T) {
	publishes := 1_000_000
	if testing.Short() {
		publishes = 100_000
	}
	const batch = 250
	r := newRig(t)
	hello := (&wire.Connect{ProtocolVersion: wire.Version}).Append(nil)
	hello = (&wire.Declare{Topic: []byte("t"), PartitionCount: 1}).Append(hello)
	r.send(hello, 2)
	var topic wire.DeclareResult
	if err := topic.Decode(r.result(1)); err != nil {
		t.Fatal(err)
	}
	r.send((&wire.Sub{Group: []byte("g"), TopicID: topic.TopicID, Partition: wire.PartitionAny, CreditCount: 65535, CreditBytes: 1 << 31}).Append(nil), 2)
	var sub wire.SubResult
	var notice wire.Notice
	if err := sub.Decode(r.result(0)); err != nil {
		t.Fatal(err)
	}
	if err := notice.Decode(r.payload[1]); err != nil {
		t.Fatal(err)
	}
	p := &pipeline{r: r, topic: topic.TopicID, sub: sub, notice: notice}
	p.round(batch) // tables grow to their working size once
	r.keep = false
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range publishes / batch {
		p.round(batch)
	}
	runtime.ReadMemStats(&after)
	per := float64(after.Mallocs-before.Mallocs) / float64(publishes)
	t.Logf("%.5f allocations and %.1f bytes per publish, delivery and ACK", per, float64(after.TotalAlloc-before.TotalAlloc)/float64(publishes))
	if per >= 0.01 {
		t.Fatalf("%.4f allocations per publish, at most 0.01", per)
	}
	c, ok := r.node.Machine().View().Cursor(1, 0)
	if want := uint64(publishes + batch); !ok || c.Delivered != want || c.Unsettled != 0 {
		t.Fatalf("%+v, want %d delivered", c, want)
	}
}

// pipeline publishes, pulls, acknowledges and gives credit back in rounds.
type pipeline struct {
	r      *rig
	topic  uint16
	sub    wire.SubResult
	notice wire.Notice
	seq    uint64
	acked  uint64
	buf    []byte
	value  [1024]byte
	epochs []byte
}

func (p *pipeline) round(n int) {
	b := p.buf[:0]
	for range n {
		p.seq++
		b = (&wire.Pub{TopicID: p.topic, ProducerID: 7, ProducerSeq: p.seq, Key: p.value[:8], Value: p.value[:]}).Append(b)
	}
	p.r.send(b, n)
	p.epochs = binary.BigEndian.AppendUint64(p.epochs[:0], p.notice.OwnershipEpoch)
	pull := wire.Pull{
		SubscriptionID: p.sub.SubscriptionID, MemberID: p.sub.MemberID, MembershipEpoch: p.notice.MembershipEpoch, AssignmentEpoch: p.notice.AssignmentEpoch,
		OwnershipEpochs: p.epochs, MaxMsgs: uint16(n), MaxBytes: 1 << 30,
	}
	keep := p.r.keep
	p.r.keep = false
	p.r.send(pull.Append(b[:0]), n+1)
	b = b[:0]
	for i := range n {
		p.acked++
		b = (&wire.Ack{
			SubscriptionID: p.sub.SubscriptionID, TopicID: p.topic, Seq: p.acked,
			DeliveryID: p.r.firstDelivery + uint64(i), OwnershipEpoch: p.notice.OwnershipEpoch,
		}).Append(b)
	}
	b = (&wire.Credit{SubscriptionID: p.sub.SubscriptionID, MembershipEpoch: p.notice.MembershipEpoch, Mode: wire.CreditAdd, CreditCount: uint16(n), CreditBytes: uint32(n * len(p.value))}).Append(b)
	p.r.send(b, n+1)
	p.buf = b[:0]
	p.r.keep = keep
}

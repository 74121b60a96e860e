package session

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// world is a node reduced to what sessions see of it: a real machine, a log that
// is applied when the test says so, and clients that are byte buffers.
type world struct {
	m   *machine.Machine
	s   *Sessions
	now clock.Reading

	number   op.Number
	epoch    op.Epoch
	settings op.Settings

	queue   []queued
	manual  bool // ops wait for apply
	refuse  wire.Code
	only    op.Kind // refuse only this kind
	frozen  wire.Code
	records map[recordKey]format.Record
	cold    bool // records must be read first
	damaged map[recordKey]bool
	asked   []recordKey
	warm    map[recordKey]bool

	conns  map[net.ConnID]*peer
	ops    []op.Op // applied
	outs   []op.Op // proposed
	reqs   []net.Request
	strict func(*world)
	linger bool // Close takes until Abort
	ended  []net.ConnID
}

type queued struct {
	bytes []byte
	ref   Ref
}

type recordKey struct {
	t op.TopicID
	p op.PartitionID
	s op.Sequence
}

// peer is the client's end of a connection.
type peer struct {
	id      net.ConnID
	reader  wire.FrameReader
	frames  []wire.Frame
	sent    int
	closed  bool
	aborted bool
	paused  bool
}

func newWorld(cfg Config) *world {
	w := &world{
		m: machine.New(), now: clock.Reading{Mono: clock.Instant(clock.Hour), Wall: 1_700_000_000_000},
		records: map[recordKey]format.Record{}, damaged: map[recordKey]bool{}, warm: map[recordKey]bool{},
		conns: map[net.ConnID]*peer{},
	}
	w.s = New(cfg, w.m, w)
	return w
}

func (w *world) Propose(o *op.Op, ref Ref) wire.Code {
	if w.refuse != wire.CodeOK && (w.only == 0 || w.only == o.Kind) {
		return w.refuse
	}
	if o.Kind == op.KindPublish && w.Damaged(o.Topic, o.Partition) {
		return wire.CodeInternal
	}
	w.queue = append(w.queue, queued{o.Append(nil), ref})
	kept := *o
	kept.Key, kept.Value, kept.Name = bytes.Clone(o.Key), bytes.Clone(o.Value), bytes.Clone(o.Name)
	w.outs = append(w.outs, kept)
	return wire.CodeOK
}

func (w *world) Refusing() wire.Code { return w.frozen }

func (w *world) Record(t op.TopicID, p op.PartitionID, seq op.Sequence) (format.Record, Lookup) {
	k := recordKey{t, p, seq}
	r, ok := w.records[k]
	switch {
	case !ok:
		return r, LookupMissing
	case w.damaged[k]:
		return format.Record{}, LookupDamaged
	case w.cold && !w.warm[k]:
		w.asked = append(w.asked, k)
		return format.Record{}, LookupPending
	}
	return r, LookupHit
}

func (w *world) Damaged(t op.TopicID, p op.PartitionID) bool {
	for k := range w.damaged {
		if k.t == t && k.p == p {
			return true
		}
	}
	return false
}

func (w *world) Unreadable(t op.TopicID, p op.PartitionID, seq op.Sequence) string {
	return fmt.Sprintf("partition %d of topic %d is damaged at %d; diagnostic id here", p, t, seq)
}

func (w *world) LogTime() op.LogMillis {
	return op.LogMillis(clock.Duration(w.now.Mono) / clock.Millisecond)
}

func (w *world) header() op.Header {
	w.number++
	return op.Header{Number: w.number, Epoch: w.epoch, LogTime: w.LogTime(), Ops: 1}
}

// lead begins a leader epoch.
func (w *world) lead() {
	w.epoch++
	w.queue = nil
	h := w.header()
	o := op.Op{Kind: op.KindEpochStart, Settings: w.settings}
	var res machine.Result
	w.m.Apply(&h, &o, &res)
	w.s.OnEpoch(w.now, w.epoch, true)
	w.endTurn()
}

// apply applies up to n queued ops.
func (w *world) apply(n int) {
	for ; n > 0 && len(w.queue) > 0; n-- {
		q := w.queue[0]
		w.queue = w.queue[1:]
		h := w.header()
		var o op.Op
		if rest, err := o.Decode(q.bytes); err != nil || len(rest) > 0 {
			panic(fmt.Sprint("a proposed op does not decode: ", err))
		}
		var res machine.Result
		w.m.Apply(&h, &o, &res)
		if a := &res.Append; a.Present {
			w.records[recordKey{a.Topic, a.Partition, a.Sequence}] = format.Record{
				Sequence: a.Sequence, ProducerID: a.ProducerID, ProducerSeq: a.ProducerSeq, Timestamp: a.Timestamp,
				LeaderEpoch: a.LeaderEpoch, Kind: format.RecordKind(a.Kind), Key: o.Key, Envelope: o.Envelope, Value: o.Value,
			}
		}
		w.ops = append(w.ops, o)
		w.s.OnApplied(w.now, &h, &o, &res, q.ref)
	}
}

// failAll reports every queued op as one whose fate is unknown, and drops it.
func (w *world) failAll(code wire.Code) {
	pending := w.queue
	w.queue = nil
	for _, q := range pending {
		var o op.Op
		if _, err := o.Decode(q.bytes); err != nil {
			panic(err)
		}
		h := op.Header{Epoch: w.epoch, LogTime: w.LogTime()}
		w.s.OnApplied(w.now, &h, &o, &machine.Result{Code: code}, q.ref)
	}
}

// event hands over one event; the turn goes on.
func (w *world) event(ev net.Event) {
	data := ev.Data
	ev.Data = bytes.Clone(data)
	w.s.OnEvent(w.now, &ev)
	for k := range ev.Data { // it was borrowed for the call
		ev.Data[k] = 0xAA
	}
}

func (w *world) open(id net.ConnID) *peer {
	p := &peer{id: id}
	w.conns[id] = p
	w.event(net.Event{Kind: net.EventOpened, Conn: id})
	return p
}

func (w *world) send(p *peer, b []byte) {
	w.event(net.Event{Kind: net.EventBytes, Conn: p.id, Data: b})
}

func (w *world) drop(p *peer) {
	p.closed = true
	w.event(net.Event{Kind: net.EventClosed, Conn: p.id, Cause: net.CauseReset})
}

// endTurn ends the turn and takes what it sends; where ops are applied at once
// further turns follow until nothing is left to do.
func (w *world) endTurn() {
	for {
		if w.s.NextDeadline() <= w.now.Mono {
			w.s.Tick(w.now)
		}
		w.reqs = w.s.EndTurn(w.now, w.reqs[:0])
		w.deliver()
		if w.strict != nil {
			w.strict(w)
		}
		if len(w.ended) > 0 {
			for _, id := range w.ended {
				w.event(net.Event{Kind: net.EventClosed, Conn: id})
			}
			w.ended = w.ended[:0]
			continue
		}
		if w.manual || len(w.queue) == 0 {
			return
		}
		w.apply(len(w.queue))
	}
}

func (w *world) deliver() {
	sent := map[net.ConnID]bool{}
	for _, r := range w.reqs {
		p := w.conns[r.Conn]
		switch r.Kind {
		case net.RequestSend:
			if sent[r.Conn] {
				panic("two Sends of one connection in one turn")
			}
			sent[r.Conn] = true
			if p.closed {
				panic("a Send after Close")
			}
			p.sent += len(r.Data)
			p.reader.Feed(bytes.Clone(r.Data))
			for {
				f, ok, err := p.reader.Next()
				if err != nil {
					panic(err)
				}
				if !ok {
					break
				}
				f.Payload = bytes.Clone(f.Payload)
				p.frames = append(p.frames, f)
			}
		case net.RequestClose, net.RequestAbort:
			p.closed = true
			p.aborted = p.aborted || r.Kind == net.RequestAbort
			if !w.linger || p.aborted {
				w.ended = append(w.ended, r.Conn)
			}
		case net.RequestPauseRead:
			p.paused = true
		case net.RequestResumeRead:
			p.paused = false
		default:
			panic("an unexpected request")
		}
	}
}

// pass lets time pass in steps that a node would take at its deadlines.
func (w *world) pass(d clock.Duration) {
	end := w.now.Mono.Add(d)
	for {
		at := w.s.NextDeadline()
		if at > end {
			break
		}
		if at > w.now.Mono {
			w.jump(at.Sub(w.now.Mono))
		}
		w.s.Tick(w.now)
		w.endTurn()
		if w.s.NextDeadline() <= w.now.Mono {
			w.jump(clock.Millisecond)
		}
	}
	w.jump(end.Sub(w.now.Mono))
	w.endTurn()
}

// jump moves the clock without a turn.
func (w *world) jump(d clock.Duration) {
	if d <= 0 {
		return
	}
	w.now.Mono = w.now.Mono.Add(d)
	w.now.Wall += clock.WallMillis(d / clock.Millisecond)
}

// warmUp completes the reads that were asked for.
func (w *world) warmUp() {
	asked := w.asked
	w.asked = nil
	for _, k := range asked {
		w.warm[k] = true
	}
	for _, k := range asked {
		w.s.OnRecords(w.now, k.t, k.p)
	}
}

// take gives the frames that a peer got since the last time.
func (p *peer) take() []wire.Frame {
	f := p.frames
	p.frames = nil
	return f
}

// show gives a frame in readable form.
func show(f wire.Frame, last wire.Op) string {
	var b strings.Builder
	switch f.Op {
	case wire.OpErr:
		var m wire.Err
		must(m.Decode(f.Payload))
		fmt.Fprintf(&b, "ERR %v %v: %s", m.Code, m.RequestOp, m.Message)
		if m.RequestOp == wire.OpNone {
			return strings.Replace(b.String(), "OP_00", "-", 1)
		}
	case wire.OpOK:
		var m wire.OK
		must(m.Decode(f.Payload))
		fmt.Fprintf(&b, "OK %v", m.RequestOp)
		showResult(&b, m)
	case wire.OpMsg:
		var m wire.Msg
		must(m.Decode(f.Payload))
		fmt.Fprintf(&b, "MSG sub=%d topic=%d part=%d seq=%d delivery=%s attempt=%d own=%d", m.SubscriptionID, m.TopicID, m.Partition,
			m.Sequence, showID(m.DeliveryID), m.Attempt, m.OwnershipEpoch)
		if m.ProducerID != 0 {
			fmt.Fprintf(&b, " producer=%d/%d", m.ProducerID, m.ProducerSeq)
		}
		if m.Flags&wire.FlagMsgRedelivered != 0 {
			b.WriteString(" REDELIVERED")
		}
		if m.Flags&wire.FlagMsgFromDLQ != 0 {
			b.WriteString(" FROM_DLQ")
		}
		if len(m.Key) > 0 {
			fmt.Fprintf(&b, " key=%s", m.Key)
		}
		if len(m.Value) > 40 {
			fmt.Fprintf(&b, " value=(%d bytes)", len(m.Value))
		} else {
			fmt.Fprintf(&b, " value=%s", m.Value)
		}
	case wire.OpNotice:
		var m wire.Notice
		must(m.Decode(f.Payload))
		kind := [...]string{"ASSIGN", "REVOKE"}[m.Kind]
		fmt.Fprintf(&b, "NOTICE %d %s group=%d epochs=%d/%d own=%d topic=%d part=%d member=%s", m.NoticeID, kind, m.GroupID,
			m.MembershipEpoch, m.AssignmentEpoch, m.OwnershipEpoch, m.TopicID, m.Partition, showID(m.MemberID))
	default:
		fmt.Fprintf(&b, "%v", f.Op)
	}
	return b.String()
}

func showResult(b *strings.Builder, m wire.OK) {
	switch m.RequestOp {
	case wire.OpConnect:
		var r wire.ConnectResult
		must(r.Decode(m.Result, len(m.Result) > 0))
		if r.HasHint {
			fmt.Fprintf(b, " node=%d leader=%d epoch=%d addr=%s", r.NodeID, r.LeaderID, r.LeaderEpoch, r.Addr)
		}
	case wire.OpDeclare:
		var r wire.DeclareResult
		must(r.Decode(m.Result))
		fmt.Fprintf(b, " topic=%d parts=%d created=%d", r.TopicID, r.PartitionCount, r.Created)
	case wire.OpPub:
		var r wire.PubResult
		must(r.Decode(m.Result, len(m.Result) > 26))
		fmt.Fprintf(b, " seq=%d durability=%d epoch=%d commit=%d", r.Sequence, r.Durability, r.LeaderEpoch, r.CommitSeq)
		if r.ResultFlags != 0 {
			b.WriteString(" DEDUPLICATED")
		}
		if r.HasPartition {
			fmt.Fprintf(b, " part=%d", r.Partition)
		}
	case wire.OpSub:
		var r wire.SubResult
		must(r.Decode(m.Result))
		fmt.Fprintf(b, " sub=%d member=%s epochs=%d/%d", r.SubscriptionID, showID(r.MemberID), r.MembershipEpoch, r.AssignmentEpoch)
	case wire.OpCredit:
		var r wire.CreditResult
		must(r.Decode(m.Result))
		fmt.Fprintf(b, " granted=%d/%d outstanding=%d/%d epoch=%d", r.GrantedCount, r.GrantedBytes, r.OutstandingCount, r.OutstandingBytes, r.CreditEpoch)
	default:
		if len(m.Result) > 0 {
			fmt.Fprintf(b, " result=%x", m.Result)
		}
	}
}

func showID(id uint64) string {
	return fmt.Sprintf("%d.%d", id>>op.IDCounterBits, id&(1<<op.IDCounterBits-1))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// names gives the kinds of ops, for messages.
func names(ops []op.Op) string {
	var out []string
	for k := range ops {
		out = append(out, ops[k].Kind.String())
	}
	return strings.Join(out, " ")
}

// connected opens a connection that has sent its CONNECT.
func (w *world) connected(t testing.TB, id net.ConnID) *peer {
	t.Helper()
	p := w.open(id)
	m := wire.Connect{ProtocolVersion: 1}
	w.send(p, m.Append(nil))
	w.endTurn()
	if f := p.take(); len(f) != 1 || f[0].Op != wire.OpOK {
		t.Fatalf("CONNECT was answered by %d frames", len(f))
	}
	return p
}

// declare makes a topic on p.
func (w *world) declare(t testing.TB, p *peer, name string, parts uint16) op.TopicID {
	t.Helper()
	m := wire.Declare{Topic: []byte(name), PartitionCount: parts}
	w.send(p, m.Append(nil))
	w.endTurn()
	f := p.take()
	if len(f) != 1 {
		t.Fatalf("DECLARE was answered by %d frames", len(f))
	}
	var ok wire.OK
	var r wire.DeclareResult
	must(ok.Decode(f[0].Payload))
	must(r.Decode(ok.Result))
	return op.TopicID(r.TopicID)
}

var _ = slices.Sort[[]int]

package machine

import (
	"cmp"
	"flag"
	"slices"
	"testing"

	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
	"pgregory.net/rapid"
)

// logged is an op with the header of its entry.
type logged struct {
	h op.Header
	o op.Op
}

// world holds a machine and its model against each other.
type world struct {
	*rapid.T
	m     *Machine
	v     View
	md    *model
	h     op.Header
	ids   uint64
	picks uint64 // so far
	log   []logged
	seen  map[string]*epochs // highest epochs by group name

	base   []byte // a snapshot, taken when baseAt ops were applied
	baseAt int
	ckpt   *pieces
}

// pieces is a checkpoint that is being taken.
type pieces struct {
	at       int // ops applied at Begin
	metadata []byte
	log      [][]byte
	cursor   [][]byte
	done     [pieceKinds]bool
}

func (w *world) settings() op.Settings {
	return op.Settings{
		DeliveryMaxAttempts:   uint16(rapid.IntRange(1, 3).Draw(w.T, "attempts")),
		RetryBackoffBaseMs:    1000,
		RetryBackoffMaxMs:     3000,
		PartitionDefaultCount: 2,
		MaxTopics:             3,
		ProducerWindowBytes:   uint64(rapid.SampledFrom([]int{1 << 20, 600}).Draw(w.T, "budget")),
	}
}

func (w *world) apply(o op.Op) (res Result) {
	w.h.Number++
	w.log = append(w.log, logged{w.h, o})
	digest := [16]byte{}
	w.m.number = w.h.Number // what a refusal may change
	watch := w.pick("watch", 8) == 0
	if watch {
		w.m.epoch, w.m.logTime = w.h.Epoch, w.h.LogTime
		digest = w.m.Digest()
	}
	w.m.Apply(&w.h, &o, &res)
	w.md.now, w.md.epoch = w.h.LogTime, w.h.Epoch
	if watch && res.Code != wire.CodeOK && res.Code != wire.CodeDLQPathOverflow && w.m.Digest() != digest {
		w.Fatalf("%v refused with %v left a trace", o.Kind, res.Code)
	}
	return res
}

func (w *world) want(o op.Op, res Result, code wire.Code) bool {
	if res.Code != code {
		w.Fatalf("%+v: got %v (%s), want %v", o, res.Code, res.Message, code)
	}
	return code == wire.CodeOK
}

// pick draws from 0 to n-1 evenly. What rapid draws itself prefers small numbers:
// it is spread by a counter, which keeps the run a function of the draws.
func (w *world) pick(label string, n int) int {
	w.picks++
	return int(mix(rapid.Uint64().Draw(w.T, label)+w.picks*0x9E3779B97F4A7C15) % uint64(n))
}

func (w *world) topicName() string {
	return rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(w.T, "topic")
}

// anyTopic is mostly one that exists.
func (w *world) anyTopic() op.TopicID {
	var live []op.TopicID
	for _, t := range w.md.topics {
		if t != nil {
			live = append(live, t.id)
		}
	}
	if len(live) == 0 || w.pick("any", 16) == 0 {
		return op.TopicID(1 + w.pick("topic", 2*len(w.md.topics)+3))
	}
	id := live[w.pick("topic", len(live))]
	if w.pick("twin", 4) == 0 {
		id++
	}
	return id
}

func (w *world) groupIDs() (ids []op.GroupID) {
	for id := range w.md.groups {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (w *world) anyGroup() *mGroup {
	ids := w.groupIDs()
	if len(ids) == 0 {
		w.Skip("no groups")
	}
	return w.md.groups[ids[w.pick("group", len(ids))]]
}

func (w *world) EpochStart(*rapid.T) {
	if w.h.Epoch > 0 && w.pick("sure", 8) != 0 {
		w.Skip("not now")
	}
	w.h.Epoch++
	w.ids = 0
	o := op.Op{Kind: op.KindEpochStart, Settings: w.settings()}
	w.apply(o)
	w.md.set = o.Settings
	for _, g := range w.md.groups {
		if len(g.members) == 0 && g.hold == 0 {
			continue
		}
		g.hold = w.h.LogTime + 1000
		if len(g.members) == 0 {
			continue
		}
		g.members = nil
		g.mem++
		targets := false
		for _, gp := range g.parts {
			targets = targets || gp.target != 0
			gp.target = 0
			if gp.owner != 0 {
				w.md.lose(gp)
			}
		}
		if targets {
			g.asg++
		}
	}
}

func (w *world) Time(*rapid.T) {
	w.h.LogTime += op.LogMillis(rapid.SampledFrom([]int{1, 50, 1000, 30_000}).Draw(w.T, "ms"))
}

// Snapshot moves the point that metadata is replayed from.
func (w *world) Snapshot(*rapid.T) {
	w.base, w.baseAt = w.m.EncodeMetadata(nil), len(w.log)
}

// Checkpoint begins a checkpoint or takes its next piece; when it is whole it is
// loaded, the ops behind it are replayed, and that machine goes on.
func (w *world) Checkpoint(*rapid.T) {
	if w.ckpt == nil {
		w.m.BeginCheckpoint()
		w.ckpt = &pieces{at: len(w.log), metadata: w.m.EncodeMetadata(nil)}
		return
	}
	c := w.ckpt
	kind := PieceKind(w.pick("kind", 2))
	if c.done[kind] {
		kind = 1 - kind
	}
	b, done := w.m.NextCheckpointPiece(kind, nil, rapid.SampledFrom([]int{1, 100, 1 << 20}).Draw(w.T, "limit"))
	if kind == PieceLog {
		c.log = append(c.log, b)
	} else {
		c.cursor = append(c.cursor, b)
	}
	if c.done[kind] = done; c.done[0] && c.done[1] {
		w.ckpt = nil
		w.reload(c)
	}
}

func (w *world) reload(c *pieces) {
	m := New()
	must := func(err error) {
		if err != nil {
			w.Fatal(err)
		}
	}
	if w.base != nil && w.baseAt <= c.at && rapid.Bool().Draw(w.T, "replay metadata") {
		must(m.LoadMetadata(w.base))
		for _, e := range w.log[w.baseAt:c.at] {
			if e.o.Kind.Metadata() {
				m.ApplyMetadata(&e.h, &e.o)
			}
		}
	} else {
		must(m.LoadMetadata(c.metadata))
	}
	for _, b := range rapid.Permutation(c.log).Draw(w.T, "log") {
		must(m.LoadLogPiece(b))
	}
	for _, b := range rapid.Permutation(c.cursor).Draw(w.T, "cursor") {
		must(m.LoadCursorPiece(b))
	}
	must(m.FinishLoad())
	for _, e := range w.log[c.at:] {
		var res Result
		m.Apply(&e.h, &e.o, &res)
	}
	m.number = w.m.number
	if m.logTime, m.epoch = w.m.logTime, w.m.epoch; m.Digest() != w.m.Digest() {
		w.Fatal("a reloaded machine differs")
	}
	if rapid.Bool().Draw(w.T, "go on with it") {
		w.m, w.v = m, m.View()
	}
}

// Check compares all that can be seen, and the invariants.
func (w *world) check() {
	if err := w.m.Check(); err != nil {
		w.Fatal(err)
	}
	for i, t := range w.md.topics {
		_, ok := w.v.Topic(op.TopicID(2*i + 1))
		if ok != (t != nil) {
			w.Fatalf("topic %d: %v", 2*i+1, ok)
		}
		if t != nil {
			w.checkTopic(t)
		}
	}
	if w.v.Groups() != len(w.md.groups) || w.v.WindowBytes() != w.md.cost() {
		w.Fatalf("%d groups, %d of windows; want %d, %d", w.v.Groups(), w.v.WindowBytes(), len(w.md.groups), w.md.cost())
	}
	for id, g := range w.md.groups {
		gv, _ := w.v.Group(id)
		if gv.Name != g.name || gv.Topic != g.topic || gv.MembershipEpoch != g.mem || gv.AssignmentEpoch != g.asg || gv.HoldUntil != g.hold || !slices.Equal(gv.Members, g.members) {
			w.Fatalf("%+v, want %+v", gv, *g)
		}
		high := epochs{g.mem, g.asg, 0}
		for p, gp := range g.parts {
			w.checkPart(g, op.PartitionID(p), gp)
			high.ownership = max(high.ownership, gp.epoch)
		}
		old := w.seen[g.name]
		if old == nil {
			old = &epochs{}
			w.seen[g.name] = old
		}
		if old.membership > high.membership || old.assignment > high.assignment || old.ownership > high.ownership {
			w.Fatalf("epochs of %s fell from %+v to %+v", g.name, *old, high)
		}
		*old = high
	}
}

func (w *world) checkTopic(t *mTopic) {
	for twin := range t.parts {
		id := t.id + op.TopicID(twin)
		tv, _ := w.v.Topic(id)
		if tv.Partitions != t.n || tv.IsTwin != (twin == 1) || tv.CreatedEpoch != t.epoch {
			w.Fatalf("%+v, want %+v", tv, *t)
		}
		if byName, ok := w.v.TopicByName([]byte(tv.Name)); !ok || byName != tv {
			w.Fatalf("%+v is not found by its name", tv)
		}
		for p, mp := range t.parts[twin] {
			pv, _ := w.v.Partition(id, op.PartitionID(p))
			if int(pv.LastSeq) != len(mp.stamps) || pv.PurgedTo != mp.purged || int(pv.Redriven) != len(mp.redriven) || pv.Purged != mp.purgedLive() {
				w.Fatalf("topic %d partition %d: %+v, want %d", id, p, pv, len(mp.stamps))
			}
			if n := len(mp.stamps); n > 0 && pv.LastTimestamp != mp.stamps[n-1] {
				w.Fatalf("timestamp %d, want %d", pv.LastTimestamp, mp.stamps[n-1])
			}
		}
	}
}

func (w *world) checkPart(g *mGroup, p op.PartitionID, gp *mGP) {
	ow, _ := w.v.Owner(g.id, p)
	if ow.Member != gp.owner || ow.Target != gp.target || ow.Epoch != gp.epoch || ow.Revoking != gp.revoking {
		w.Fatalf("%s/%d: %+v, want %+v", g.name, p, ow, *gp)
	}
	c, _ := w.v.Cursor(g.id, p)
	last := len(w.md.part(g.topic, p).stamps)
	if c.Floor != gp.floor() || c.NextFirst != gp.next || int(c.LastSeq) != last || c.Start != gp.start || c.Delivered != gp.delivered ||
		c.Dropped != gp.dropped || c.DLQ != gp.dlq || c.Quarantined != gp.quarantined || c.Retries != gp.retries || int(c.Handed) != len(gp.msgs) {
		w.Fatalf("%s/%d: %+v, want %+v", g.name, p, c, *gp)
	}
	// broker.md, "Accounting".
	if int64(c.LastSeq)-c.Start != int64(c.Delivered+c.Dropped+c.Unsettled) || c.DLQ > c.Dropped {
		w.Fatalf("%s/%d: the books: %+v", g.name, p, c)
	}
	seqs := make([]op.Sequence, 0, len(gp.msgs))
	for s := range gp.msgs {
		seqs = append(seqs, s)
	}
	slices.SortFunc(seqs, cmp.Compare[op.Sequence])
	after := op.Sequence(0)
	for _, s := range seqs {
		msg := gp.msgs[s]
		d, ok := w.v.NextDelivery(g.id, p, after)
		want := DeliveryView{s, msg.delivery, msg.own, uint16(msg.attempts), uint16(msg.charges), msg.state, msg.due}
		if byseq, _ := w.v.Delivery(g.id, p, s); !ok || d != want || byseq != want || w.v.Settled(g.id, p, s) {
			w.Fatalf("%s/%d: %+v, want %+v", g.name, p, d, want)
		}
		after = s
	}
	if d, ok := w.v.NextDelivery(g.id, p, after); ok {
		w.Fatalf("%s/%d: %+v is too much", g.name, p, d)
	}
}

// Goal: whatever the ops and whenever checkpoints are taken and loaded, the
// machine does what the model says.
func TestMachineAgainstModel(t *testing.T) {
	// Longer histories and more of them than by default, unless asked otherwise.
	for name, v := range map[string][2]string{"rapid.checks": {"100", "500"}, "rapid.steps": {"30", "150"}} {
		if f := flag.Lookup(name); f.Value.String() == v[0] {
			if err := f.Value.Set(v[1]); err != nil {
				t.Fatal(err)
			}
			defer f.Value.Set(v[0])
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		m := New()
		w := &world{T: t, m: m, v: m.View(), md: &model{groups: map[op.GroupID]*mGroup{}}, seen: map[string]*epochs{}}
		w.EpochStart(t)
		for _, n := range []uint16{1, 3} {
			o := op.Op{Kind: op.KindTopicCreate, Name: []byte{'a' + byte(n)/2}, Partitions: n}
			w.apply(o)
			w.md.create(&o)
			for range 4 {
				w.publish(op.Op{Kind: op.KindPublish, Topic: op.TopicID(2*len(w.md.topics) - 1)})
			}
			w.Join(t)
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { w.T = t; w.check() },

			"epoch": w.on(w.EpochStart), "create": w.on(w.Create), "delete": w.on(w.Delete),
			"publish": w.on(w.Publish), "publish2": w.on(w.Publish), "forget": w.on(w.Forget),
			"join": w.on(w.Join), "join2": w.on(w.Join), "leave": w.on(w.Leave), "revoked": w.on(w.Revoked), "assign": w.on(w.Assign),
			"deliver": w.on(w.Deliver), "deliver4": w.on(w.Deliver), "expire3": w.on(w.Expire), "nack2": w.on(w.Nack), "deliver2": w.on(w.Deliver), "deliver3": w.on(w.Deliver),
			"ack": w.on(w.Ack), "nack": w.on(w.Nack), "expire": w.on(w.Expire), "expire2": w.on(w.Expire),
			"dead letter": w.on(w.DeadLetter), "dead letter2": w.on(w.DeadLetter), "redrive": w.on(w.Redrive), "redrive2": w.on(w.Redrive), "purge": w.on(w.Purge),
			"reset": w.on(w.ResetGroup), "delete group": w.on(w.DeleteGroup), "time": w.on(w.Time),
			"snapshot": w.on(w.Snapshot), "checkpoint": w.on(w.Checkpoint), "checkpoint2": w.on(w.Checkpoint), "checkpoint3": w.on(w.Checkpoint),
		})
	})
}

// on runs an action with the T of the moment.
func (w *world) on(f func(*rapid.T)) func(*rapid.T) {
	return func(t *rapid.T) { w.T = t; f(t) }
}

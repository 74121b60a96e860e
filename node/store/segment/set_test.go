package segment

import (
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/sim/simdisk"
	"pgregory.net/rapid"
)

// model is what a partition should hold: the sizes of its records' values.
type model struct {
	topic op.TopicID
	part  op.PartitionID
	sizes []int
}

type machine struct {
	*world
	t          *rapid.T
	partitions []*model
	nextTopic  op.TopicID
	positions  []Position // of the last flush that ended
	durable    []*model   // the partitions as of then
	token      uint64
	capped     bool
}

func (m *machine) pick(t *rapid.T) *model {
	if len(m.partitions) == 0 {
		t.Skip("no partition")
	}
	return m.partitions[rapid.IntRange(0, len(m.partitions)-1).Draw(t, "partition")]
}

func (m *machine) create(t *rapid.T) {
	if len(m.partitions) > 12 {
		t.Skip("enough")
	}
	m.nextTopic++
	for i := range rapid.IntRange(1, 3).Draw(t, "partitions") {
		p := &model{topic: m.nextTopic, part: op.PartitionID(i)}
		m.s.CreatePartition(p.topic, p.part)
		m.partitions = append(m.partitions, p)
	}
}

func (m *machine) append(t *rapid.T, p *model, size int) {
	p.sizes = append(p.sizes, size)
	r := record(p.topic, p.part, op.Sequence(len(p.sizes)), size)
	if got := m.s.Append(p.topic, p.part, &r); got != r.Sequence {
		t.Fatalf("sequence %d, not %d", got, r.Sequence)
	}
}

func (m *machine) publish(t *rapid.T) {
	p := m.pick(t)
	sizes := rapid.SampledFrom([][2]int{{0, 40}, {100, 900}, {3000, 9000}, {40000, 70000}}).Draw(t, "sizes")
	count := rapid.IntRange(1, 40).Draw(t, "count")
	if sizes[0] == 40000 {
		count = min(count, 3)
	}
	for range count {
		m.append(t, p, rapid.IntRange(sizes[0], sizes[1]).Draw(t, "size"))
		if rapid.IntRange(0, 7).Draw(t, "turn") == 0 {
			m.turn()
		}
	}
}

func (m *machine) verify(t *rapid.T, p *model, seq op.Sequence) {
	want := record(p.topic, p.part, seq, p.sizes[seq-1])
	got, st := m.read(p.topic, p.part, seq)
	if st != Hit || !same(&got, &want) {
		t.Fatalf("%d/%d sequence %d: status %d, %d bytes; want %d", p.topic, p.part, seq, st, len(got.Value), len(want.Value))
	}
}

func (m *machine) readSome(t *rapid.T) {
	p := m.pick(t)
	if len(p.sizes) == 0 {
		t.Skip("empty")
	}
	from := rapid.IntRange(1, len(p.sizes)).Draw(t, "from")
	for seq := from; seq <= min(len(p.sizes), from+rapid.IntRange(0, 60).Draw(t, "count")); seq++ {
		m.verify(t, p, op.Sequence(seq))
	}
	if _, st := m.s.Read(p.topic, p.part, op.Sequence(len(p.sizes)+1)); st != Missing {
		t.Fatalf("status %d for what is not there", st)
	}
}

func (m *machine) noteDurable(at []Position) {
	m.positions, m.durable = at, nil
	for _, p := range m.partitions {
		m.durable = append(m.durable, &model{p.topic, p.part, append([]int(nil), p.sizes...)})
	}
}

func (m *machine) checkpoint(t *rapid.T) {
	if m.capped {
		t.Skip("the disk is full")
	}
	var at []Position
	m.s.Positions(func(p Position) bool { at = append(at, p); return true })
	m.token++
	m.s.Flush(m.token)
	durable := &machine{partitions: m.partitions}
	durable.noteDurable(at)
	if rapid.Bool().Draw(t, "meanwhile") && len(m.partitions) > 0 {
		m.publish(t)
	}
	m.until(EventFlushed, func(e Event) bool { return e.Token == m.token })
	m.positions, m.durable = durable.positions, durable.durable
	m.s.Unlink()
}

// crashAll crashes, recovers, replays what the journal would, and reads on.
func (m *machine) crashAll(t *rapid.T) {
	kind := rapid.SampledFrom([]simdisk.CrashKind{simdisk.Kill, simdisk.PowerLoss}).Draw(t, "crash")
	for range rapid.IntRange(0, 4).Draw(t, "turns before") {
		m.pass(m.now + 1e6)
	}
	m.uncap(t)
	m.d.Crash(kind)
	m.d.Restart()
	for range rapid.IntRange(0, 2).Draw(t, "recoveries cut off") {
		m.boot()
		m.s.Tick(m.now)
		m.s.Recover(m.positions, true)
		for range rapid.IntRange(0, 30).Draw(t, "turns") {
			m.pass(m.now + 1e6)
		}
		m.d.Crash(kind)
		m.d.Restart()
	}
	if r := m.world.verify(m.positions); r.Damaged() {
		t.Fatalf("verify finds damage after a crash: %v", r.Findings)
	}
	m.boot()
	m.recover(m.positions)
	for _, f := range m.world.verify(m.positions).Findings {
		if !strings.HasSuffix(f.Path, format.IndexSuffix) {
			t.Fatalf("verify finds something after recovery: %v", f)
		}
	}
	if len(m.s.order) != len(m.positions) {
		t.Fatalf("%d partitions after recovery", len(m.s.order))
	}
	for i, p := range m.s.order {
		if d := m.s.Damage(p.topic, p.part); d != nil {
			t.Fatalf("damage: %v", &d[0])
		}
		if at := m.positions[i]; p.last != at.Last || at.Last > 0 && m.d.Size(p.path(at.Base, format.SegmentSuffix)) != at.Offset {
			t.Fatalf("%+v after recovery to %+v", p, at)
		}
	}
	old := m.partitions
	m.partitions = m.durable
	m.noteDurable(m.positions)
	for _, p := range old {
		m.replay(t, p)
	}
}

// replay appends again what p had beyond the flush, or what comes in its place.
func (m *machine) replay(t *rapid.T, p *model) {
	for _, q := range m.partitions {
		if q.topic == p.topic && q.part == p.part {
			for _, size := range p.sizes[len(q.sizes):] {
				m.append(t, q, size)
			}
			return
		}
	}
	q := &model{topic: p.topic, part: p.part}
	m.s.CreatePartition(p.topic, p.part)
	m.partitions = append(m.partitions, q)
	for _, size := range p.sizes {
		m.append(t, q, size+1)
	}
}

func (m *machine) drop(t *rapid.T) {
	p := m.pick(t)
	m.s.DropTopic(p.topic)
	var kept []*model
	for _, q := range m.partitions {
		if q.topic != p.topic {
			kept = append(kept, q)
		}
	}
	m.partitions = kept
}

func (m *machine) wait(t *rapid.T) {
	for range rapid.IntRange(1, 20).Draw(t, "turns") {
		m.pass(m.now + 2e9)
	}
}

func (m *machine) full(t *rapid.T) {
	m.d.SetCapacity(1)
	m.capped = true
}

func (m *machine) uncap(t *rapid.T) {
	m.d.SetCapacity(1 << 40)
	m.capped = false
}

func (m *machine) loseIndex(t *rapid.T) {
	p := m.pick(t)
	real := m.s.find(p.topic, p.part)
	if len(real.segments) < 2 || m.s.Busy() {
		t.Skip("no sealed segment")
	}
	i := rapid.IntRange(0, len(real.segments)-2).Draw(t, "segment")
	path := real.path(real.segments[i].base, format.IndexSuffix)
	if m.d.Size(path) < 200 {
		t.Skip("not written")
	}
	if rapid.Bool().Draw(t, "rot") {
		m.d.Rot(path, rapid.Int64Range(64, m.d.Size(path)-1).Draw(t, "offset"), []byte{byte(rapid.IntRange(1, 255).Draw(t, "mask"))})
		return
	}
	m.d.Lose(path)
}

func (m *machine) expect(t *rapid.T) {
	for _, ev := range m.events {
		if ev.Kind == EventDamage || ev.Kind == EventFailed {
			t.Fatalf("event %+v", ev)
		}
	}
	m.events = m.events[:0]
}

// Goal: whatever is appended, flushed, dropped, read, crashed and run out of
// space, the set holds what the naive model holds, and after a crash exactly
// what was flushed.
func TestSetAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{t: t}
		m.world = newWorld(t, rapid.Uint64().Draw(t, "seed"), smallOptions())
		m.recover(nil)
		t.Repeat(map[string]func(*rapid.T){
			"":           m.expect,
			"create":     m.create,
			"publish":    m.publish,
			"publish2":   m.publish,
			"read":       m.readSome,
			"checkpoint": m.checkpoint,
			"crash":      m.crashAll,
			"drop":       m.drop,
			"wait":       m.wait,
			"full":       m.full,
			"uncap":      m.uncap,
			"lose index": m.loseIndex,
		})
		m.uncap(t)
		for _, p := range m.partitions {
			for seq := range p.sizes {
				m.verify(t, p, op.Sequence(seq+1))
			}
		}
		m.flush(1 << 40)
		m.settle()
	})
}

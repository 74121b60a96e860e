package sim

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/node"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/session"
	"github.com/mortarmq/mortarmq/node/store"
	"github.com/mortarmq/mortarmq/sim/prng"
	"github.com/mortarmq/mortarmq/sim/simclock"
	"github.com/mortarmq/mortarmq/sim/simdisk"
	"github.com/mortarmq/mortarmq/sim/simnet"
)

const (
	nodeName = "node"
	nodeAddr = "node:7000"
	token    = "let me in"
)

var tokenDigest = sha256.Sum256([]byte(token))

// host is the machine that the node runs on: what node/host is in production.
// The disk outlives the incarnations of the node.
type host struct {
	w       *world
	rand    *prng.Rand
	disk    *simdisk.Disk
	clock   *simclock.Clock
	net     *simnet.Host
	node    *node.Node // nil while it is down
	journal journalTracker
	leases  leases

	incarnation int
	startedAt   clock.Instant
	deadline    clock.Instant // the node's, in world time
	turnAt      clock.Instant // Never while none is wanted
	pausedUntil clock.Instant
	restarting  bool
	pending     []disk.Completion
	queries     []node.Input
	in          []node.Input
	events      []net.Event
	out         node.Effects
	turns       uint64
	lived       clock.Instant // of incarnations that ended, by their own clocks
	asked       uint64        // queries

	midturn  *crash // waits for the end of the next turn
	trigger  int64  // or for this effect of the disk, see onWords
	tripped  bool   // which has happened
	armed    crash
	loops    int   // further crashes while it recovers
	crashBy  crash // as which they happen
	applied  op.Number
	digest   digestAt // of the incarnation before
	failures int      // exits by failure since it served last
	onAnswer func(*node.Answer)
	lastDown string // why it went down
	stopping bool   // for good: it is not started again
	served   bool   // this incarnation has served
}

func newHost(w *world) *host {
	h := &host{w: w, rand: w.rand.Fork("host"), deadline: clock.Never, turnAt: clock.Never}
	h.disk = simdisk.New(simdisk.Options{Seed: w.rand.SubSeed("disk"), Capacity: w.plan.Knob("capacity"), Observe: w.diskEffect})
	h.disk.SetSlow(w.plan.Knob("slow"))
	h.clock = simclock.New(simclock.Options{Wall: clock.WallMillis(w.plan.Knob("wall"))})
	h.journal.host, h.leases.w = h, w
	h.net = w.net.Host(nodeName)
	h.start()
	return h
}

// diskEffect sees every effect of the disk.
func (w *world) diskEffect(e simdisk.Effect) {
	w.note("disk "+e.What, sum([]byte(e.Path)), uint64(e.Offset), uint64(e.Length), uint64(e.Err))
	if h := w.host; h != nil && h.trigger != 0 && h.node != nil {
		h.tripped = h.tripped || e.What == triggers[h.trigger].what && strings.HasPrefix(e.Path, triggers[h.trigger].prefix)
	}
}

// triggers are the effects that onWords name.
var triggers = [...]struct{ what, prefix string }{
	{}, {"write", "journal/"}, {"zero", "journal/"}, {"write", "superblock"}, {"write", "checkpoints/"}, {"open", "topics/"}, {"write", "metadata/"},
}

func (h *host) config() node.Config {
	p := h.w.plan
	c := node.Config{
		Version:  "sim",
		DrainMax: 2 * clock.Second,
		Marks:    h.w.marks,
		Settings: op.Settings{
			DeliveryMaxAttempts: uint16(p.Knob("attempts")),
			RetryBackoffBaseMs:  uint32(p.Span("backoff").Millis()),
			RetryBackoffMaxMs:   uint32(p.Span("backoff_max").Millis()),
		},
		Session: session.Config{
			NodeID: 1, AdvertisedAddr: nodeAddr,
			PublishRateLimit: int(p.Knob("rate_limit")),
			DeliveryLease:    p.Span("lease"),
			PollMaxWait:      p.Span("poll_wait"),
		},
		Store: store.Options{
			NodeID:                  1,
			JournalFileBytes:        p.Knob("journal_file"),
			JournalCapBytes:         max(p.Knob("journal_cap"), 2*p.Knob("journal_file")),
			CheckpointBytes:         p.Knob("checkpoint_bytes"),
			CheckpointEvery:         p.Span("checkpoint_every"),
			SegmentMaxBytes:         p.Knob("segment_bytes"),
			MetadataSnapshotRecords: int(p.Knob("snapshot_records")),
			ReadChunkBytes:          int(p.Knob("read_chunk")),
			PieceBytes:              int(p.Knob("piece_bytes")),
			ReservePercent:          int(p.Knob("reserve_percent")),
		},
	}
	prng.New(p.Seed).Fill(c.NewClusterID[:])
	if p.Knob("tokens") != 0 {
		c.Session.TokenDigests = [][32]byte{tokenDigest}
	}
	return c
}

// start begins an incarnation.
func (h *host) start() {
	n, err := node.New(h.config())
	if err != nil {
		h.w.finding(PropertyPlan, "the plan's knobs make no node: %v", err)
		return
	}
	h.incarnation++
	h.node, h.restarting = n, false
	h.startedAt = h.w.now
	h.clock.Advance(h.w.now)
	h.clock.Restart()
	h.applied, h.served = 0, false
	h.journal.reset()
	h.leases.reset()
	h.disk.Restart()
	h.net.Restart()
	if _, err := h.net.Listen(nodeAddr, net.PlaneClient); err != nil {
		panic(err)
	}
	h.w.note("node start", uint64(h.incarnation))
	h.deadline = h.w.now
	if h.loops > 0 {
		h.loops--
		h.planLoopCrash()
	}
}

// due is when the host wants the world's attention.
func (h *host) due() clock.Instant {
	at := h.disk.NextDeadline()
	if h.node == nil {
		return at
	}
	return min(at, max(h.turnAt, h.pausedUntil), max(h.deadline, h.pausedUntil))
}

// advance moves the disk and gives the node the turns that are due.
func (h *host) advance() {
	h.disk.Advance(h.w.now)
	if h.node == nil || h.w.stopped {
		return
	}
	if h.tripped {
		h.w.marks.Mark("sim.crash_on_" + onWords[h.trigger])
		h.trigger, h.tripped = 0, false
		h.crash(h.armed)
		return
	}
	if h.disk.Pending() || h.net.Pending() || len(h.queries) > 0 {
		h.want()
	}
	if h.w.now < h.pausedUntil {
		return
	}
	if h.turnAt <= h.w.now || h.deadline <= h.w.now {
		h.turn()
	}
}

// want asks for a turn soon.
func (h *host) want() {
	if h.turnAt == clock.Never {
		p := h.w.plan
		h.turnAt = h.w.now.Add(clock.Duration(h.rand.Range(int64(p.Span("turn_min")), int64(p.Span("turn_max")))))
	}
}

// gather takes in what has happened, or a part of it, in an order that is drawn:
// completions of the disk and events of the network each keep theirs.
func (h *host) gather() {
	h.turnAt = clock.Never
	h.pending = h.disk.Poll(h.pending)
	budget, completions := 1<<20, len(h.pending)
	if h.rand.Bool(int(h.w.plan.Knob("split"))) {
		budget = 1 + h.rand.Intn(2000)
		completions = h.rand.Intn(len(h.pending) + 1)
	}
	h.events = h.net.Poll(h.events[:0], budget)
	h.in = append(h.in[:0], h.queries...)
	h.queries = h.queries[:0]
	i, j := 0, 0
	for i < completions || j < len(h.events) {
		if j == len(h.events) || i < completions && h.rand.Bool(500) {
			h.in = append(h.in, node.Input{Kind: node.InputDisk, Disk: h.pending[i]})
			i++
		} else {
			h.in = append(h.in, node.Input{Kind: node.InputNet, Net: h.events[j]})
			j++
		}
	}
	rest := copy(h.pending, h.pending[completions:])
	h.pending = h.pending[:rest]
	if rest > 0 || h.net.Pending() {
		h.want()
	}
}

// turn gives the node one.
func (h *host) turn() {
	h.clock.Advance(h.w.now)
	h.gather()
	h.turns++
	h.out.Reset()
	if !h.guarded(func() { h.node.Turn(h.clock.Read(), h.in, &h.out) }) {
		return
	}
	h.deadline = h.clock.WorldAt(h.out.Deadline)
	h.noteEffects()
	for i := range h.out.Logs {
		h.log(&h.out.Logs[i])
	}
	if h.midturn != nil && (len(h.out.Net)+len(h.out.Disk) > 0) {
		h.crashInTurn(*h.midturn)
		return
	}
	h.submit(h.out.Net, h.out.Disk)
	for i := range h.out.Answers {
		if a := &h.out.Answers[i]; h.w.operator.answered(a) {
			continue
		}
		if h.onAnswer != nil {
			h.onAnswer(&h.out.Answers[i])
		}
	}
	if e := h.out.Exit; e != nil {
		h.exited(*e)
		return
	}
	h.served = h.served || h.serving()
	h.w.judge.afterTurn()
}

// submit carries effects out, bytes first as the production driver does.
func (h *host) submit(reqs []net.Request, disks []disk.Request) {
	h.journal.note(disks)
	h.w.judge.beforeSend()
	h.leases.sent(reqs)
	h.net.Submit(reqs)
	h.disk.Submit(disks)
}

// noteEffects takes a turn's effects into the hash.
func (h *host) noteEffects() {
	for i := range h.out.Net {
		r := &h.out.Net[i]
		h.w.note("node "+netKind(r.Kind), uint64(r.Conn), sum(r.Data))
	}
	for i := range h.out.Disk {
		r := &h.out.Disk[i]
		content := uint64(0)
		if r.Kind == disk.KindWrite {
			content = sum(r.Buf)
		}
		h.w.note("node disk "+r.Kind.String(), uint64(r.Lane), uint64(r.Handle), uint64(r.Offset), uint64(r.Length), content)
	}
}

func netKind(k net.RequestKind) string {
	return [...]string{"?", "dial", "send", "close", "abort", "pause", "resume"}[k]
}

// guarded runs f; a panic of it is a finding.
func (h *host) guarded(f func()) (ok bool) {
	if h.w.options.Panics {
		f()
		return true
	}
	defer func() {
		if r := recover(); r != nil {
			h.w.finding(PropertyPanic, "the node panicked: %v", r)
			ok = false
		}
	}()
	f()
	return true
}

// log looks at what the node says.
func (h *host) log(r *node.LogRecord) {
	h.w.tell("node: %s", r.Text)
	h.w.atlas.hear(r)
}

// uptime is how long the node has run, all incarnations together, by its own
// clock: what log time measures.
func (h *host) uptime() clock.Instant {
	if h.node == nil {
		return h.lived
	}
	h.clock.Advance(h.w.now)
	return h.lived + h.clock.Read().Mono
}

// serving says whether clients are answered.
func (h *host) serving() bool { return h.node != nil && h.node.Serving() }

// wasServing says whether this incarnation, or the one that just ended, came to
// serve.
func (h *host) wasServing() bool { return h.served }

// ask puts a question to the node's admin side, and gives its id.
func (h *host) ask(q node.Query) uint64 {
	h.asked++
	q.ID = h.asked
	h.queries = append(h.queries, node.Input{Kind: node.InputQuery, Query: q})
	return q.ID
}

// paths of the area that a fault is aimed at.
func (h *host) files(area int64) (paths []string) {
	prefix := areaPrefix(area)
	for _, p := range h.disk.Files() {
		if strings.HasPrefix(p, prefix) {
			paths = append(paths, p)
		}
	}
	return paths
}

func areaPrefix(area int64) string {
	if area < 0 || area >= int64(len(areaWords)) {
		area = 0
	}
	return [...]string{"journal/", "superblock", "metadata/", "topics/", "checkpoints/"}[area]
}

func (h *host) String() string { return fmt.Sprintf("incarnation %d", h.incarnation) }

package host

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	stdnet "net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/clock/osclock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/net/tcp"
	"github.com/mortarmq/mortarmq/node"
	"github.com/mortarmq/mortarmq/node/store"
	"github.com/mortarmq/mortarmq/wire"
)

// Goal, invariant 3: no test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stalling is a disk whose inline runs, and what is submitted to the journal's
// lane, wait while it is stalled.
type stalling struct {
	storage
	stalled chan struct{} // one token for each run that is held
	release chan struct{} // closed: runs go on
	on      atomic.Bool
	runs    atomic.Int64
	worked  atomic.Int64 // journal requests that were submitted
	host    *Host
	claimed func() // nil, or called before an inline run
	polled  func() // nil, or called by Poll
	visited bool   // a reader had the loop in the held run
}

func prepareStalling(t *testing.T) (*Host, *stalling) {
	h := prepare(t, t.TempDir())
	d := &stalling{storage: h.disk, stalled: make(chan struct{}, 1), release: make(chan struct{}), host: h}
	h.disk = d
	return h, d
}

func (d *stalling) Poll(into []disk.Completion) []disk.Completion {
	if d.polled != nil {
		d.polled()
	}
	return d.storage.Poll(into)
}

func (d *stalling) ClaimInline(reqs []disk.Request) bool {
	if d.claimed != nil {
		d.claimed()
	}
	if d.on.Load() {
		d.visited = d.host.loop.visitor != nil
	}
	return d.storage.ClaimInline(reqs)
}

func (d *stalling) RunInline(reqs []disk.Request, into []disk.Completion, keep func() bool) ([]disk.Completion, bool) {
	d.runs.Add(1)
	if !d.on.Load() {
		return d.storage.RunInline(reqs, into, keep)
	}
	d.stalled <- struct{}{}
	return d.storage.RunInline(reqs, into, func() bool {
		<-d.release
		return keep()
	})
}

func (d *stalling) Submit(reqs []disk.Request) {
	for i := range reqs {
		if reqs[i].Lane == disk.LaneJournal {
			d.worked.Add(1)
		}
	}
	d.storage.Submit(reqs)
}

// stall lets p publish until a run is held. What it returns tells the number of the
// publish that was held, when that is answered, or 0 when it never will be.
func (d *stalling) stall(p *peer) (published chan uint64) {
	published = make(chan uint64, 1)
	d.on.Store(true)
	go func() {
		for d.on.Load() {
			if _, err := p.Write(publish()); err != nil {
				break
			}
			f, err := p.frame()
			if err != nil {
				break
			}
			var ok wire.OK
			var r wire.PubResult
			if ok.Decode(f[1:]) == nil && r.Decode(ok.Result, false) == nil && !d.on.Load() {
				published <- r.Sequence
				return
			}
		}
		published <- 0
	}()
	<-d.stalled
	return published
}

// broker is a host that runs.
type broker struct {
	*Host
	t     *testing.T
	ended chan error
}

func prepare(t *testing.T, dir string) *Host {
	t.Helper()
	h, err := Open(Options{
		DataDir: dir, ListenClient: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
		Node: node.Config{
			NewClusterID: [16]byte{1}, Version: "test",
			Store: store.Options{NodeID: 1, JournalFileBytes: 4 << 20, ReservePercent: -1, ReserveBytes: -1},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

func run(t *testing.T, h *Host) *broker {
	b := &broker{Host: h, t: t, ended: make(chan error, 1)}
	go func() { b.ended <- h.Run(context.Background()) }()
	return b
}

// stopped stops the host and waits for its end.
func (b *broker) stopped() {
	b.t.Helper()
	b.Stop()
	if err := <-b.ended; err != nil {
		b.t.Fatal(err)
	}
}

// peer is a client by hand.
type peer struct {
	stdnet.Conn
	t  *testing.T
	in *bufio.Reader
}

func (b *broker) dial() *peer {
	b.t.Helper()
	c, err := stdnet.Dial("tcp", b.ClientAddr())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	return &peer{Conn: c, t: b.t, in: bufio.NewReader(c)}
}

// connected is a client whose CONNECT was answered, and what its hint said.
func (b *broker) connected() (*peer, wire.ConnectResult) {
	b.t.Helper()
	p := b.dial()
	p.send((&wire.Connect{ProtocolVersion: wire.Version, ClientFlags: wire.FlagConnectLeaderHint}).Append(nil))
	var res wire.ConnectResult
	if err := res.Decode(p.ok(wire.OpConnect), true); err != nil {
		b.t.Fatal(err)
	}
	return p, res
}

// declared is a client that has declared the topic.
func (b *broker) declared() *peer {
	b.t.Helper()
	p, _ := b.connected()
	p.send(declare())
	p.ok(wire.OpDeclare)
	return p
}

func (p *peer) send(frame []byte) {
	p.t.Helper()
	if _, err := p.Write(frame); err != nil {
		p.t.Fatal(err)
	}
}

// ok reads the next frame, which is OK to a request of that kind, and gives its
// result.
func (p *peer) ok(o wire.Op) []byte {
	p.t.Helper()
	f, err := p.frame()
	if err != nil {
		p.t.Fatal(err)
	}
	var ok wire.OK
	if wire.Op(f[0]) != wire.OpOK {
		p.t.Fatalf("instead of OK to %v: %q", o, f)
	}
	if err := ok.Decode(f[1:]); err != nil || ok.RequestOp != o {
		p.t.Fatalf("instead of OK to %v: OK to %v, %v", o, ok.RequestOp, err)
	}
	return ok.Result
}

func (p *peer) frame() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(p.in, head[:]); err != nil {
		return nil, err
	}
	f := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(p.in, f)
	return f, err
}

func ping() []byte { return (&wire.Ping{}).Append(nil) }

func declare() []byte { return (&wire.Declare{Topic: []byte("t"), PartitionCount: 1}).Append(nil) }

func publish() []byte { return (&wire.Pub{TopicID: 1, Value: []byte("m")}).Append(nil) }

// Goal: what is acknowledged through the loop's own writes is there after a restart.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	for start := range 3 {
		b := run(t, prepare(t, dir))
		p := b.declared()
		for i := range 20 {
			p.send(publish())
			var r wire.PubResult
			if err := r.Decode(p.ok(wire.OpPub), false); err != nil || r.Sequence != uint64(start*20+i+1) {
				t.Fatalf("sequence %d, %v", r.Sequence, err)
			}
		}
		b.stopped()
		b.Close()
	}
}

// Goal: a client that comes before the node serves waits, and finds a node that
// leads and names itself; one that comes while it stops finds nobody.
func TestAcceptsWhileItServes(t *testing.T) {
	h := prepare(t, t.TempDir())
	b := &broker{Host: h, t: t, ended: make(chan error, 1)}
	early := b.dial()
	early.send(append((&wire.Connect{ProtocolVersion: wire.Version}).Append(nil), declare()...))
	if h.net.ConnCount() != 0 {
		t.Error("a connection was accepted before Run")
	}
	go func() { b.ended <- h.Run(context.Background()) }()
	early.ok(wire.OpConnect)
	early.ok(wire.OpDeclare)
	if _, res := b.connected(); res.NodeID != 1 || res.LeaderID != 1 || res.LeaderEpoch == 0 || string(res.Addr) != b.ClientAddr() {
		t.Errorf("the hint is %+v", res)
	}
	b.stopped()
	if f, err := early.frame(); err != io.EOF {
		t.Errorf("%q, %v instead of the end", f, err)
	}
	if c, err := stdnet.Dial("tcp", b.ClientAddr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a connection after the stop: %v, %v", c, err)
	}
}

// Goal, invariant 1: a disk that stalls in an inline run holds up what waits for it
// and nothing else: other clients are answered, also what is asked behind it comes
// in order when it goes on, and its worker has the disk for a while then.
func TestStalledDisk(t *testing.T) {
	h, d := prepareStalling(t)
	b := run(t, h)
	p := b.declared()
	q, _ := b.connected()

	published := d.stall(p)
	for range 10 {
		q.send(ping())
		q.ok(wire.OpPing)
	}
	if _, err := h.Query(context.Background(), node.Query{Kind: node.QueryBroker}); err != nil {
		t.Error(err)
	}
	q.send(publish())
	third, _ := b.connected()
	third.send(ping())
	third.ok(wire.OpPing)
	select {
	case n := <-published:
		t.Errorf("publish %d was answered before it was durable", n)
	default:
	}
	d.on.Store(false)
	close(d.release)
	n := <-published
	var r wire.PubResult
	if err := r.Decode(q.ok(wire.OpPub), false); err != nil || r.Sequence != n+1 {
		t.Errorf("behind the stall of %d: sequence %d, %v", n, r.Sequence, err)
	}
	runs := d.runs.Load()
	p.send(publish())
	p.ok(wire.OpPub)
	if d.runs.Load() != runs || d.worked.Load() == 0 {
		t.Error("a disk that has stalled was used inline again at once")
	}
	b.stopped()
}

// Goal: a reader that the disk holds up while it has the loop leaves both to others:
// clients are answered, and the end of its own connection is seen.
func TestStalledVisit(t *testing.T) {
	for {
		h, d := prepareStalling(t)
		b := run(t, h)
		p := b.declared()
		q, _ := b.connected()
		published := d.stall(p)
		visited := d.visited
		q.send(ping())
		q.ok(wire.OpPing)
		if visited {
			p.Close()
			for h.net.ConnCount() != 1 {
				time.Sleep(time.Millisecond)
			}
		}
		d.on.Store(false)
		close(d.release)
		if n := <-published; (n == 0) != visited {
			t.Errorf("publish %d was answered, p closed %v", n, visited)
		}
		q.send(publish())
		q.ok(wire.OpPub)
		b.stopped()
		b.Close()
		if visited {
			return
		}
	}
}

// Goal: a reader gives the loop back to its own goroutine if there is something left
// to do, or a timer that has fired; a later one does not take it before that.
func TestHandBack(t *testing.T) {
	h := &Host{clock: osclock.New(), baton: newBaton()}
	l := newLoop(h)
	h.loop = l
	l.now = h.clock.Read().Mono
	for _, c := range []struct {
		name   string
		change func()
		roused bool
	}{
		{"nothing", func() {}, false},
		{"a timer to be set", func() { l.out.Deadline = l.now.Add(clock.Hour) }, false},
		{"a timer that runs", func() { l.armed, l.out.Deadline = l.now.Add(clock.Hour), clock.Never }, false},
		{"a timer that has fired", func() { l.armed, l.out.Deadline = l.now, l.now.Add(clock.Hour) }, true},
		{"a deadline that has passed", func() { l.out.Deadline = l.now }, true},
		{"disk requests", func() { l.left = true }, true},
		{"an exit", func() { l.out.Exit = &node.Exit{} }, true},
		{"a second stop", func() { h.stop.Store(2) }, true},
	} {
		l.armed, l.out.Deadline, l.out.Exit, l.left = clock.Never, clock.Never, nil, false
		h.baton.look()
		c.change()
		l.handBack()
		if roused := len(h.baton.wake) == 1; roused != c.roused {
			t.Errorf("%s: the loop's own goroutine was woken: %v", c.name, roused)
		}
		if l.left || l.out.Exit != nil {
			<-h.baton.wake
			if !h.visit(nil) || l.visitor != nil || len(h.baton.wake) != 1 {
				t.Errorf("%s: a reader took the loop before that was done", c.name)
			}
		}
		select {
		case <-h.baton.wake:
		default:
		}
		if !h.baton.try() {
			t.Fatalf("%s: the baton was kept", c.name)
		}
	}
	l.timer.Stop()
}

// Goal: a reader's turn that ends the node, and asks the disk for something at the
// same time, is the last one.
func TestExitInVisit(t *testing.T) {
	h, d := prepareStalling(t)
	exited := false // of who has the loop
	turned := make(chan struct{}, 1)
	d.claimed = func() {
		if h.loop.visitor != nil && !exited {
			exited = true
			h.loop.out.Exit = &node.Exit{}
		}
	}
	d.polled = func() {
		if exited {
			select {
			case turned <- struct{}{}:
			default:
			}
		}
	}
	b := run(t, h)
	p, _ := b.connected()
	go func() {
		frame := append(declare(), publish()...)
		for {
			if _, err := p.Write(frame); err != nil {
				return
			}
			time.Sleep(time.Millisecond) // the loop waits then
		}
	}()
	select {
	case err := <-b.ended:
		if err != nil {
			t.Error(err)
		}
	case <-turned:
		t.Error("there was a turn after the exit")
		b.stopped()
	}
}

// Goal: nothing is left unanswered, however often the loop changes hands: clients
// with pauses of their own, that publish and ask, and the admin side beside them.
func TestManyHands(t *testing.T) {
	b := run(t, prepare(t, t.TempDir()))
	b.declared()
	var tasks sync.WaitGroup
	for i := range 6 {
		p, _ := b.connected()
		r := rand.New(rand.NewPCG(7, uint64(i)))
		tasks.Go(func() {
			for range 400 {
				o, frame := wire.OpPub, publish()
				if r.IntN(3) == 0 {
					o, frame = wire.OpPing, ping()
				}
				n := 1 + r.IntN(3)
				for range n {
					if _, err := p.Write(frame); err != nil {
						t.Error(err)
						return
					}
				}
				for range n {
					f, err := p.frame()
					if err != nil || wire.Op(f[0]) != wire.OpOK || wire.Op(f[1]) != o {
						t.Errorf("%q, %v instead of OK to %v", f, err, o)
						return
					}
				}
				time.Sleep(time.Duration(r.IntN(4)) * 50 * time.Microsecond)
			}
		})
	}
	tasks.Go(func() {
		for range 300 {
			if _, err := b.Query(context.Background(), node.Query{Kind: node.QueryBroker}); err != nil {
				t.Error(err)
			}
			time.Sleep(200 * time.Microsecond)
		}
	})
	tasks.Wait()
	b.stopped()
}

// Goal: publish after publish, the journal goes from file to file, which takes
// requests of another lane: what a reader leaves of them is carried out.
func TestManyFiles(t *testing.T) {
	b := run(t, prepare(t, t.TempDir()))
	p := b.declared()
	pub := (&wire.Pub{TopicID: 1, Value: make([]byte, 8<<10)}).Append(nil)
	for range 1200 {
		p.send(pub)
		p.ok(wire.OpPub)
	}
	b.stopped()
}

// Goal: after a stall the loop comes back to inline runs.
func TestInlineAgain(t *testing.T) {
	h, d := prepareStalling(t)
	b := run(t, h)
	p := b.declared()
	for before := d.runs.Load(); d.runs.Load() == before; {
		p.send(publish())
		p.ok(wire.OpPub)
	}
	b.stopped()
}

// Goal: a second Stop ends Run at once, whatever the disk does; Close waits for the
// disk, and leaves nothing behind.
func TestSecondStopWhileStalled(t *testing.T) {
	h, d := prepareStalling(t)
	b := run(t, h)
	p := b.declared()
	published := d.stall(p)
	b.Stop()
	b.stopped()
	closed := make(chan struct{})
	go func() {
		h.Close()
		close(closed)
	}()
	if n := <-published; n != 0 {
		t.Error("a publish was answered that is not durable")
	}
	select {
	case <-closed:
		t.Error("Close did not wait for the disk")
	default:
	}
	close(d.release)
	<-closed
}

// Goal: wait returns for a wake-up, however early, for a deadline that has passed
// and for one that comes, and does not set the timer for a later deadline.
func TestWait(t *testing.T) {
	h := &Host{clock: osclock.New(), baton: newBaton()}
	l := newLoop(h)
	l.out.Deadline = clock.Never
	h.baton.call()
	h.baton.call()
	l.wait() // one for both
	h.baton.look()
	go h.baton.call()
	l.wait()
	h.baton.look()

	l.out.Deadline = h.clock.Read().Mono
	l.wait()
	if l.armed != clock.Never {
		t.Error("the timer was set for a deadline that had passed")
	}
	soon := h.clock.Read().Mono.Add(clock.Hour)
	l.out.Deadline = soon
	h.baton.call()
	l.wait()
	h.baton.look()
	if l.armed != clock.Never {
		t.Error("the timer was set while there was a wake-up")
	}
	go h.baton.call()
	l.wait()
	for _, later := range []clock.Instant{clock.Never, soon.Add(1), soon} {
		l.out.Deadline = later
		h.baton.look()
		go h.baton.call()
		if l.wait(); l.armed != clock.Never && l.armed != soon {
			t.Errorf("the timer was set anew, for %d", later)
		}
	}
	h.baton.look()
	l.out.Deadline = h.clock.Read().Mono.Add(clock.Millisecond)
	l.wait()
	if h.clock.Read().Mono < l.out.Deadline || l.armed != clock.Never {
		t.Errorf("wait returned before the deadline, armed %d", l.armed)
	}
}

// Goal: the watchdog takes over from a run that lasts, once, and from no other; it
// stops looking when nothing runs.
func TestWatchdog(t *testing.T) {
	taken := make(chan struct{}, 10)
	w := watchdog{takeOver: func() { taken <- struct{}{} }}
	defer w.stop()
	for range 1000 {
		if run := w.begin(); !w.end(run) {
			<-taken // the machine was slow, not the run
		}
	}
	run := w.begin()
	<-taken
	if w.end(run) {
		t.Error("a run that was left behind ended as if it had not been")
	}
	if run = w.begin(); !w.end(run) {
		<-taken
	}
	for w.armed.Load() {
		time.Sleep(watchPeriod)
	}
	if len(taken) != 0 {
		t.Error("somebody took over twice")
	}
	if run = w.begin(); !w.armed.Load() && w.end(run) {
		t.Error("nobody looks at a run")
	}
	w.end(run)
}

// Goal: a query is answered by the node, given up with its context, and refused by a
// host that has ended.
func TestQuery(t *testing.T) {
	b := run(t, prepare(t, t.TempDir()))
	b.connected() // it serves
	a, err := b.Query(context.Background(), node.Query{Kind: node.QueryBroker})
	if err != nil || !a.Broker.Serving {
		t.Errorf("%+v, %v", a.Broker, err)
	}
	b.stopped()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := b.Query(ctx, node.Query{Kind: node.QueryBroker}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	waiting := make(chan error)
	go func() {
		_, err := b.Query(context.Background(), node.Query{Kind: node.QueryBroker})
		waiting <- err
	}()
	b.Close()
	if err := <-waiting; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := b.Query(context.Background(), node.Query{Kind: node.QueryBroker}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// Goal: a port or a directory in use is an error that gives back what was taken.
func TestOpenInUse(t *testing.T) {
	dir := t.TempDir()
	h := prepare(t, dir)
	if _, err := Open(Options{DataDir: dir, ListenClient: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("two hosts in one directory")
	}
	other := t.TempDir()
	if _, err := Open(Options{DataDir: other, ListenClient: h.ClientAddr(), Log: slog.New(slog.DiscardHandler)}); !errors.Is(err, tcp.ErrInUse) {
		t.Error(err)
	}
	prepare(t, other)
}

package host

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/clock/osclock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/disk/osdisk"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/net/tcp"
	"github.com/mortarmq/mortarmq/node"
)

// turnBytesMax bounds the client bytes that one turn takes in.
const turnBytesMax = 4 << 20

// inlineBytesMax is the largest journal write that the loop carries out itself.
// Below it the hand-off to the append worker costs more than it gains.
const inlineBytesMax = 64 << 10

// Options are what a host needs beside the node's own configuration.
type Options struct {
	DataDir      string
	ListenClient string
	Node         node.Config
	Log          *slog.Logger
}

// Host drives one node.
type Host struct {
	log     *slog.Logger
	clock   *osclock.Clock
	disk    *osdisk.Disk
	net     *tcp.Network
	node    *node.Node
	queries queryInbox
	wake    chan struct{}
	stop    atomic.Int32
	addr    string
	opened  time.Time
}

// Open takes the directory and the port, and prepares the node; Run starts it.
// Its errors are for the operator: they name what is in the way.
func Open(o Options) (*Host, error) {
	h := &Host{log: o.Log, clock: osclock.New(), wake: make(chan struct{}, 1), opened: time.Now()}
	var err error
	if h.disk, err = osdisk.Open(o.DataDir, h.poke); err != nil {
		return nil, err
	}
	h.net = tcp.New(tcp.Options{Wake: h.poke})
	addr, err := h.net.Listen(o.ListenClient, net.PlaneClient)
	if err != nil {
		h.Close()
		return nil, fmt.Errorf("listen_client: %w", err)
	}
	h.addr = addr
	if o.Node.Session.AdvertisedAddr == "" {
		o.Node.Session.AdvertisedAddr = h.addr
	}
	if h.node, err = node.New(o.Node); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// ClientAddr gives the address that clients connect to.
func (h *Host) ClientAddr() string { return h.addr }

// poke makes the loop look; it may be called from any goroutine.
func (h *Host) poke() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Stop asks the node to drain and end. A second call ends it at once.
func (h *Host) Stop() {
	h.stop.Add(1)
	h.poke()
}

// Run drives the node until it exits. It returns nil after a drain that was
// asked for, and an error that says what ended the node otherwise.
func (h *Host) Run(ctx context.Context) error {
	release := context.AfterFunc(ctx, h.Stop)
	defer release()
	l := loop{Host: h, timer: time.NewTimer(time.Hour), armed: clock.Never}
	defer l.timer.Stop()
	l.timer.Stop()
	return l.run()
}

// Close gives the port, the goroutines and the directory back.
func (h *Host) Close() {
	h.queries.close()
	if h.net != nil {
		h.net.Close()
	}
	if h.disk != nil {
		h.disk.Close()
	}
}

// loop is what one Run needs and reuses from turn to turn.
type loop struct {
	*Host
	timer       *time.Timer
	armed       clock.Instant // when the timer fires; Never: it is not set
	in          []node.Input
	events      []net.Event
	completions []disk.Completion
	inlined     []disk.Completion
	out         node.Effects
	stopped     bool
	ready       bool
}

func (l *loop) run() error {
	l.turn() // the first one starts recovery
	for {
		if exit := l.out.Exit; exit != nil {
			if exit.Failed {
				return fmt.Errorf("%s", exit.Reason)
			}
			return nil
		}
		if len(l.inlined) == 0 {
			l.wait()
		}
		if l.stop.Load() > 1 {
			return nil
		}
		l.gather()
		l.turn()
	}
}

// wait blocks until something happened or the node's deadline is reached. The
// timer is set again only for an earlier deadline: one that moves away with each
// turn, as the idle mark's does, would cost the runtime a wake-up of its poller
// every time.
func (l *loop) wait() {
	for {
		select {
		case <-l.wake:
			return
		default:
		}
		if l.out.Deadline < l.armed {
			d := l.out.Deadline.Sub(l.clock.Read().Mono)
			if d <= 0 {
				return
			}
			l.timer.Reset(time.Duration(d))
			l.armed = l.out.Deadline
		}
		select {
		case <-l.wake:
			return
		case <-l.timer.C:
			l.armed = clock.Never
		}
	}
}

// gather takes in what has happened: completions first, they free what the
// events may need.
func (l *loop) gather() {
	l.in = l.in[:0]
	l.completions = append(l.disk.Poll(l.completions[:0]), l.inlined...)
	l.inlined = l.inlined[:0]
	for i := range l.completions {
		l.in = append(l.in, node.Input{Kind: node.InputDisk, Disk: l.completions[i]})
	}
	l.events = l.net.Poll(l.events[:0], turnBytesMax)
	for i := range l.events {
		l.in = append(l.in, node.Input{Kind: node.InputNet, Net: l.events[i]})
	}
	l.in = l.queries.take(l.in)
	if !l.stopped && l.stop.Load() > 0 {
		l.stopped = true
		l.in = append(l.in, node.Input{Kind: node.InputStop})
	}
}

func (l *loop) turn() {
	l.out.Reset()
	l.node.Turn(l.clock.Read(), l.in, &l.out)
	for _, r := range l.out.Logs {
		l.log.Log(context.Background(), slog.Level(r.Level), r.Text)
	}
	if len(l.out.Net) > 0 {
		l.net.Submit(l.out.Net)
	}
	for i := range l.out.Answers {
		l.queries.answer(&l.out.Answers[i])
	}
	l.submit(l.out.Disk)
	if !l.ready && l.node.Serving() {
		l.ready = true
		c := l.disk.Counters()
		l.log.Info("ready", "seconds", time.Since(l.opened).Seconds(), "read_bytes", c.ReadBytes, "written_bytes", c.WriteBytes)
	}
}

// submit carries disk requests out: a small journal batch here, the rest by the
// disk's own workers.
func (l *loop) submit(reqs []disk.Request) {
	if len(reqs) == 0 {
		return
	}
	bytes := 0
	for i := range reqs {
		if reqs[i].Lane != disk.LaneJournal {
			l.disk.Submit(reqs)
			return
		}
		bytes += len(reqs[i].Buf)
	}
	if bytes <= inlineBytesMax {
		var ok bool
		if l.inlined, ok = l.disk.RunInline(reqs, l.inlined); ok {
			return
		}
	}
	l.disk.Submit(reqs)
}

package host

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/node"
)

// loop is what one Run needs and reuses from turn to turn. It belongs to one
// goroutine at a time: see watchdog for when that changes.
type loop struct {
	*Host
	ended       chan error
	timer       *time.Timer
	armed       clock.Instant // when the timer fires; Never: it is not set
	in          []node.Input
	events      []net.Event
	completions []disk.Completion
	inline      inline
	watch       watchdog
	out         node.Effects
	stopped     bool
	ready       bool
}

func newLoop(h *Host) *loop {
	l := &loop{Host: h, ended: make(chan error, 1), timer: time.NewTimer(time.Hour), armed: clock.Never}
	l.timer.Stop()
	l.watch.takeOver = func() { h.tasks.Go(l.takeOver) }
	return l
}

// begin is the loop's first goroutine.
func (l *loop) begin() {
	if l.turn() { // the first one starts recovery
		l.goOn()
	}
}

// takeOver goes on with the loop of a goroutine that the disk holds up.
func (l *loop) takeOver() {
	l.inline.leave()
	l.goOn()
}

// goOn takes turns until the node exits, or another goroutine has taken over.
func (l *loop) goOn() {
	for {
		if exit := l.out.Exit; exit != nil {
			var err error
			if exit.Failed {
				err = errors.New(exit.Reason)
			}
			l.ended <- err
			return
		}
		if len(l.inline.done) == 0 {
			l.wait()
		}
		if l.stop.Load() > 1 {
			l.ended <- nil
			return
		}
		l.gather()
		if !l.turn() {
			return
		}
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
	l.completions = append(l.disk.Poll(l.completions[:0]), l.inline.take()...)
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
		l.listener.Close() // nobody new is served
		l.in = append(l.in, node.Input{Kind: node.InputStop})
	}
}

// turn lets the node take a turn and carries its effects out. It reports false when
// another goroutine has taken over meanwhile: then the loop is not this one's.
func (l *loop) turn() bool {
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
	if !l.ready && l.node.Serving() {
		l.ready = true
		if !l.stopped {
			l.listener.Accept()
		}
		c := l.disk.Counters()
		l.log.Info("ready", "seconds", time.Since(l.opened).Seconds(), "read_bytes", c.ReadBytes, "written_bytes", c.WriteBytes)
	}
	return l.submit(l.out.Disk)
}

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

// loop is what one Run needs and reuses from turn to turn. It belongs to who has the
// baton, one goroutine at a time.
type loop struct {
	*Host
	ended       chan error
	timer       *time.Timer
	armed       clock.Instant // when the timer fires; Never: it is not set
	now         clock.Instant // of the last turn
	in          []node.Input
	events      []net.Event
	completions []disk.Completion
	inline      inline
	watch       watchdog
	out         node.Effects
	left        bool   // out.Disk is not submitted yet
	visitor     func() // while a reader has the loop: the rest of its own work
	stopped     bool
	ready       bool
}

func newLoop(h *Host) *loop {
	l := &loop{Host: h, ended: make(chan error, 1), timer: time.NewTimer(time.Hour), armed: clock.Never}
	l.timer.Stop()
	l.watch.takeOver = func() { h.tasks.Go(l.takeOver) }
	return l
}

// begin is the loop's own goroutine, which has the baton.
func (l *loop) begin() {
	l.turn() // the first one starts recovery
	if l.submit(l.out.Disk) {
		l.goOn()
	}
}

// takeOver goes on with the work of a goroutine that the disk holds up: the loop,
// or the reading of the connection whose reader was at it.
func (l *loop) takeOver() {
	l.inline.leave()
	if read := l.visitor; read != nil {
		l.visitor = nil
		l.handBack()
		read()
		return
	}
	l.goOn()
}

// goOn takes turns until the node exits, or another goroutine has taken over.
func (l *loop) goOn() {
	for {
		if l.left {
			l.left = false
			if !l.submit(l.out.Disk) {
				return
			}
		}
		if exit := l.out.Exit; exit != nil {
			var err error
			if exit.Failed {
				err = errors.New(exit.Reason)
			}
			l.ended <- err
			return
		}
		if len(l.inline.done) == 0 {
			if l.wait(); l.left || l.out.Exit != nil {
				continue // a visitor took a turn
			}
		}
		if l.stop.Load() > 1 {
			l.ended <- nil
			return
		}
		l.gather()
		l.turn()
		l.left = true
	}
}

// visit takes the loop for the turn that a reader's bytes are worth, and for the one
// behind it if the first was about the disk; what else there is to do is for the
// loop's own goroutine. It returns false when it took so long that read, the rest of
// the reader's work, was left to another goroutine.
func (h *Host) visit(read func()) bool {
	if !h.baton.try() {
		h.baton.call()
		return true
	}
	l := h.loop
	if l.left || l.out.Exit != nil {
		l.handBack() // the loop's own goroutine is about to take it
		return true
	}
	l.tasks.Add(1)
	defer l.tasks.Done()
	l.visitor = read
	l.gather()
	l.turn()
	if !l.submit(l.out.Disk) {
		return false // nothing of the loop is this goroutine's any more
	}
	if len(l.inline.done) > 0 && l.out.Exit == nil {
		l.gather()
		l.turn()
		l.left = len(l.out.Disk) > 0
	}
	l.visitor = nil
	l.handBack()
	return true
}

// handBack gives the baton up, to the loop's own goroutine if there is something
// for it to do. A timer that has fired is for it to take in, and to set again; a
// second Stop is for it to obey.
func (l *loop) handBack() {
	if l.left || l.out.Exit != nil || l.stop.Load() > 1 || l.armed <= l.now || !l.arm() {
		l.baton.call()
	}
	l.baton.leave()
}

// wait blocks until something happened or the node's deadline is reached.
func (l *loop) wait() {
	if !l.baton.called() && l.arm() && l.baton.await(l.timer.C) {
		l.armed = clock.Never
	}
}

// arm sets the timer for the node's deadline; false means that it has passed. The
// timer is set again only for an earlier one: a deadline that moves away with each
// turn, as the idle mark's does, would cost the runtime a wake-up of its poller
// every time.
func (l *loop) arm() bool {
	if l.out.Deadline >= l.armed {
		return true
	}
	d := l.out.Deadline.Sub(l.clock.Read().Mono)
	if d <= 0 {
		return false
	}
	l.timer.Reset(time.Duration(d))
	l.armed = l.out.Deadline
	return true
}

// gather takes in what has happened: completions first, they free what the
// events may need.
func (l *loop) gather() {
	l.baton.look()
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

// turn lets the node take a turn and carries its effects out, but for what it asks
// of the disk.
func (l *loop) turn() {
	l.out.Reset()
	now := l.clock.Read()
	l.now = now.Mono
	l.node.Turn(now, l.in, &l.out)
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
}

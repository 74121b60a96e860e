package msgtrans

import (
	"errors"
	"sync"
	"time"
)

// idleChecks is how often per IdleTimeout a connection is looked at. Nothing is
// done per packet: a check compares the counters with those of the last one.
const idleChecks = 4

// idleWatch ends a connection on which no whole packet comes and no byte goes: a peer
// that takes a large packet slowly is not idle.
type idleWatch struct {
	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
	moved   uint64 // packets and bytes, as of the last check that saw a change
	quietly int    // checks since then
}

func (w *idleWatch) start(c *Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.timer = time.AfterFunc(c.set.IdleTimeout/idleChecks, func() { w.check(c) })
	}
}

func (w *idleWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (w *idleWatch) check(c *Conn) {
	moved := c.stats.packetsIn.Load() + c.link.written()
	w.mu.Lock()
	if moved != w.moved {
		w.moved, w.quietly = moved, 0
	} else {
		w.quietly++
	}
	idle := w.quietly >= idleChecks
	if !idle && !w.stopped {
		w.timer.Reset(c.set.IdleTimeout / idleChecks)
	}
	w.mu.Unlock()
	if idle {
		c.end(&Error{Op: "idle", Kind: ErrTimeout, Cause: errors.New("no packet came and no byte went for " + c.set.IdleTimeout.String())})
	}
}

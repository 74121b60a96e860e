package sim

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/sim/simclock"
	"github.com/mortarmq/mortarmq/sim/simdisk"
	"github.com/mortarmq/mortarmq/sim/simnet"
)

// crash is how the node dies.
type crash struct {
	kind simdisk.CrashKind
	down clock.Duration
	why  string
}

// digestAt is the state that an incarnation had when it died. Up to vouched the
// journal cannot be taken for torn.
type digestAt struct {
	known   bool
	number  op.Number
	vouched op.Number
	back    op.Number // the least that a successor recovered, until one serves
	digest  [16]byte
}

// planLoopCrash lets the node die again while it recovers.
func (h *host) planLoopCrash() {
	incarnation, c := h.incarnation, h.crashBy
	h.w.after(clock.Duration(h.rand.Range(0, int64(20*clock.Millisecond))), func() {
		if h.incarnation == incarnation && h.node != nil {
			if !h.served {
				h.w.marks.Mark("sim.crash_in_recovery")
			}
			h.crash(c)
		}
	})
}

// crashInTurn dies after a prefix of the turn's effects.
func (h *host) crashInTurn(c crash) {
	h.w.marks.Mark("sim.crash_in_turn")
	cut := h.rand.Intn(len(h.out.Net) + len(h.out.Disk) + 1)
	n := min(cut, len(h.out.Net))
	h.submit(h.out.Net[:n], h.out.Disk[:cut-n])
	h.crash(c)
}

// crash ends the incarnation.
func (h *host) crash(c crash) {
	if h.node == nil {
		return
	}
	h.w.note("crash "+c.why, uint64(c.kind))
	h.w.judge.beforeCrash()
	h.end(c)
}

// end takes the incarnation away and plans the next one.
func (h *host) end(c crash) {
	h.lived = h.uptime()
	h.node, h.midturn = nil, nil
	h.lastDown = c.why
	h.disk.Crash(c.kind)
	if c.kind == simdisk.PowerLoss {
		h.w.atlas.powerLost()
	}
	h.net.Crash(simnet.CrashKind(c.kind))
	h.pending, h.queries = h.pending[:0], h.queries[:0]
	h.deadline, h.turnAt = clock.Never, clock.Never
	h.pausedUntil = 0
	if !h.stopping {
		h.restarting = true
		h.w.after(c.down, func() {
			if h.node == nil && !h.w.stopped {
				h.start()
			}
		})
	}
}

// exited takes note of an end that the node chose itself.
func (h *host) exited(e node.Exit) {
	h.w.note("exit "+e.Reason, uint64(bit(e.Failed)))
	h.w.judge.beforeCrash()
	if !e.Failed {
		h.end(crash{kind: simdisk.Kill, down: h.crashBy.down, why: "stop"})
		return
	}
	h.failures++
	if !h.w.atlas.mayExit(e.Reason) {
		return
	}
	h.end(crash{kind: simdisk.Kill, down: 50 * clock.Millisecond << min(h.failures, 6), why: "exit: " + e.Reason})
}

// heal ends what is wrong with the machine.
func (h *host) heal() {
	h.disk.ClearFaults()
	h.disk.SetCapacity(h.w.plan.Knob("capacity"))
	h.loops, h.midturn, h.trigger, h.tripped = 0, nil, 0, false
	h.pausedUntil = 0
	h.clock.Advance(h.w.now)
	h.clock.SetRate(simclock.RateNormal)
	if h.node == nil && !h.restarting {
		h.start()
	}
}

// stop asks the node to drain and end.
func (h *host) stop(down clock.Duration) {
	h.crashBy.down = down
	h.queries = append(h.queries, node.Input{Kind: node.InputStop})
}

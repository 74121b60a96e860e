package sim

import (
	"slices"
	"strings"

	"github.com/mortarmq/mortarmq/checker"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node"
)

// atlas knows which faults have happened and what they excuse.
//
// Inside it, to be survived without anything being lost, and without a refusal:
// every crash, stop and pause; unsynced bytes and names kept, dropped or torn;
// slow and stalled disks; a full disk for a while; a write or sync that fails
// once (the node may end, and must come back); clocks; clients; the network.
//
// Beyond it, on a single node: a disk that lies about syncs, rot of synced
// bytes, a lost or unreadable file, a misdirected write. The node may then
// refuse: it names the damage, and the run ends as held. What it may not do is
// lose something and serve on as if nothing had happened, where storage.md says
// that it can be known. It cannot be known after a power loss while a lying disk
// held acknowledged bytes back, nor where damage hits what looks like the
// unsynced end of the journal: then losses are excused.
type atlas struct {
	w *world

	io         bool   // a write or sync was made to fail
	beyondWhat string // the first fault beyond the atlas, "" without
	lies       bool
	damaged    bool // the node has named damage
	refused    string
	spots      int  // places that were spoiled
	unlied     bool // a power loss came after a lie
	gone       bool // a file was lost, or a write misdirected
	forgot     bool // a loss happened that cannot be known
}

// ioFault notes that a request will fail.
func (a *atlas) ioFault() { a.io = true }

// beyond notes a fault beyond the atlas and how many places it spoils.
func (a *atlas) beyond(what string, spots int, lie bool) {
	a.spots += spots
	a.gone = a.gone || what == "lose" || what == "misdirect"
	if a.beyondWhat == "" {
		a.beyondWhat = what
	}
	a.lies = a.lies || lie
}

// lying says whether what the disk model calls durable and what the disk answered
// may differ by a lie, or by a write that went elsewhere.
func (a *atlas) lying() bool { return a.lies || a.gone }

// mayLose says whether losses are excused.
func (a *atlas) mayLose() bool { return a.unlied || a.forgot }

// powerLost notes a power loss: it takes what a lie had promised.
func (a *atlas) powerLost() { a.unlied = a.unlied || a.lies }

// mayForget judges a restarted node that came back to less than had been
// applied. One spoiled place in the journal can hide what no durable mark names,
// and nothing more; a lie, or two places, can hide anything.
func (a *atlas) mayForget(d *digestAt) bool {
	if a.unlied || a.spots > 1 || a.spots == 1 && d.back >= d.vouched {
		a.forgot = true
		a.w.marks.Mark("sim.loss_excused")
		return true
	}
	return false
}

// heard are beginnings of log lines and the marks that they stand for.
var heard = [...]struct{ text, mark string }{
	{"checkpoint at op", "sim.checkpoint"},
	{"the disk is full: the journal", "sim.journal_stalled"},
	{"the disk is full: ", "sim.segment_or_checkpoint_stalled"},
	{"free space is below", "sim.low_space"},
	{"recovery set ", "sim.segment_cut_back"},
	{"stopping: draining", "sim.drain"},
}

// hear takes in what the node says.
func (a *atlas) hear(r *node.LogRecord) {
	for _, h := range heard {
		if strings.HasPrefix(r.Text, h.text) {
			a.w.marks.Mark(h.mark)
			break
		}
	}
	if !strings.HasPrefix(r.Text, "damage:") {
		return
	}
	a.damaged = true
	if a.beyondWhat == "" {
		a.w.finding(PropertyAvailability, "the node names damage that nobody did: %s", r.Text)
	}
}

// mayExit judges an exit by failure. It is false when the run is over.
func (a *atlas) mayExit(reason string) bool {
	if a.io && a.w.host.failures < 20 && strings.Contains(reason, disk.ErrIO.String()) {
		a.w.marks.Mark("sim.exit_after_io_fault")
		return true
	}
	if a.beyondWhat != "" {
		// Loud, as it must be. A node that ended because of a failed request may
		// start again; one that refuses at start is done for.
		if a.damaged || a.w.host.failures > 2 || !a.w.host.wasServing() {
			a.refused = reason
			a.w.marks.Mark("sim.refused")
			a.w.stopped = true
			return false
		}
		return true
	}
	if a.io && a.w.host.failures < 20 {
		a.w.marks.Mark("sim.exit_after_io_fault")
		return true
	}
	a.w.finding(PropertyAvailability, "the node ended by itself: %s", reason)
	return false
}

// excuse takes out of findings what a loss that is excused brings with it.
func (a *atlas) excuse(found []checker.Finding) []checker.Finding {
	if !a.mayLose() {
		return found
	}
	return slices.DeleteFunc(found, func(f checker.Finding) bool { return f.Property != checker.PropertyBooks })
}

package store

import (
	"strconv"
	"strings"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/store/flight"
	"github.com/mortarmq/mortarmq/node/store/journal"
	"github.com/mortarmq/mortarmq/node/store/segment"
)

// state is what a store is at as a whole.
type state uint8

const (
	stateNew state = iota
	stateRecovering
	stateFresh // waits for Form
	stateForming
	stateRunning
	stateEnded // damaged, refused or failed: nothing more happens
)

// Owners of tags, and by that of handles: the owner is a handle's high byte.
const (
	ownerStore    = 1
	ownerJournal  = 2
	ownerSegments = 3
)

// Slots of the procedures in tags.
const (
	slotSuperblock = iota + 1
	slotForm
	slotProbe
	slotRecover
	slotLoad
	slotLoadWindow
	slotCut
	slotMetadata
	slotSnapshot
	slotCheckpoint
	slotClean
	slotSpace
)

// The store's own handles.
const (
	handleSuperblock disk.Handle = ownerStore<<24 + iota
	handleProbe
	handleLoad
	handleMetadata
	handleSnapshot
	handleCheckpoint // and the one after it
)

// Store is a node's files. One turn at a time uses it.
type Store struct {
	options  Options
	state    state
	identity Identity
	now      clock.Instant

	queue   flight.Queue
	events  []Event
	eventAt int

	journal   *journal.Journal
	super     superblock
	former    former
	prober    prober
	recoverer recoverer
	loader    loader
	cutter    cutter

	segments     *segment.Set // known once the cluster is
	metadata     metadata
	snapshotter  snapshotter
	checkpointer checkpointer
	cleaner      cleaner
	space        space
}

// New gives a store that has not started. It panics on options that Validate
// refuses.
func New(o Options) *Store {
	if err := o.Validate(); err != nil {
		panic(err)
	}
	o = o.withDefaults()
	s := &Store{options: o}
	s.journal = journal.New(journal.Options{
		FileBytes: o.JournalFileBytes, FreeFiles: int(max(1, o.CheckpointBytes/o.JournalFileBytes)),
		IdleMarkAfter: o.IdleMarkAfter, RetryEvery: o.RetryEvery, ReadChunkBytes: o.ReadChunkBytes,
		Owner: ownerJournal, Handles: ownerJournal << 24,
	})
	s.super.flight = flight.Flight{Owner: ownerStore, Slot: slotSuperblock}
	s.super.buf = disk.AlignedBuffer(disk.Alignment)
	s.former.flight = flight.Flight{Owner: ownerStore, Slot: slotForm}
	s.former.retryAt = clock.Never
	s.prober.flight = flight.Flight{Owner: ownerStore, Slot: slotProbe}
	s.recoverer.flight = flight.Flight{Owner: ownerStore, Slot: slotRecover}
	s.loader.flight = flight.Flight{Owner: ownerStore, Slot: slotLoad}
	s.loader.window = flight.Window{Flight: flight.Flight{Owner: ownerStore, Slot: slotLoadWindow}, Queue: &s.queue, Handle: handleLoad, Chunk: o.ReadChunkBytes}
	s.cutter.flight = flight.Flight{Owner: ownerStore, Slot: slotCut}
	s.metadata.flight = flight.Flight{Owner: ownerStore, Slot: slotMetadata}
	s.metadata.rotate = -1
	s.snapshotter.flight = flight.Flight{Owner: ownerStore, Slot: slotSnapshot}
	s.checkpointer.flight = flight.Flight{Owner: ownerStore, Slot: slotCheckpoint}
	s.checkpointer.since = clock.Never
	s.cleaner.flight = flight.Flight{Owner: ownerStore, Slot: slotClean}
	s.space.flight = flight.Flight{Owner: ownerStore, Slot: slotSpace}
	return s
}

// Start begins recovery.
func (s *Store) Start(now clock.Instant) {
	if s.state != stateNew {
		panic("store: started twice")
	}
	s.now = now
	s.recoverStart()
}

// Complete takes the outcome of a request. Those of others, and stale ones, are
// dropped.
func (s *Store) Complete(now clock.Instant, c *disk.Completion) {
	s.now = max(s.now, now)
	switch c.Tag.Owner {
	case ownerJournal:
		s.journal.Complete(now, c)
		s.pumpJournal()
	case ownerSegments:
		if s.segments != nil {
			s.segments.Tick(s.now)
			s.segments.Complete(c)
			s.pumpSegments()
		}
	case ownerStore:
		s.completeOwn(now, c)
	}
}

// completeOwn takes the outcome of a request of the store's own procedures.
func (s *Store) completeOwn(now clock.Instant, c *disk.Completion) {
	switch c.Tag.Slot {
	case slotSuperblock:
		if s.super.flight.Land(c) {
			s.superLanded(now)
		}
	case slotForm:
		if s.former.flight.Land(c) {
			s.formLanded()
		}
	case slotProbe:
		if s.prober.flight.Land(c) {
			s.probeLanded()
		}
	case slotRecover:
		if s.recoverer.flight.Land(c) {
			s.recoverLanded()
		}
	case slotLoad:
		if s.loader.flight.Land(c) {
			s.loadLanded()
		}
	case slotLoadWindow:
		if s.loader.window.Land(c) {
			s.loader.window.Took() // Next goes on
		}
	case slotCut:
		if s.cutter.flight.Land(c) {
			s.cutLanded()
		}
	default:
		s.completeRunning(now, c)
	}
}

// completeRunning takes the outcome of a request of what a running store does.
func (s *Store) completeRunning(now clock.Instant, c *disk.Completion) {
	switch c.Tag.Slot {
	case slotMetadata:
		if s.metadata.flight.Land(c) {
			s.metadataLanded(now)
		}
	case slotSnapshot:
		if s.snapshotter.flight.Land(c) {
			s.snapshotLanded(now)
		}
	case slotCheckpoint:
		s.checkpointOpened(c)
		if s.checkpointer.flight.Land(c) {
			s.checkpointLanded(now)
		}
	case slotClean:
		if s.cleaner.flight.Land(c) {
			s.cleanLanded()
		}
	case slotSpace:
		if s.space.flight.Land(c) {
			s.spaceLanded(now)
		}
	}
}

// Take appends the requests queued since the last call to out: at the end of
// the turn, after the last call of Next.
func (s *Store) Take(out []disk.Request) []disk.Request {
	out = s.queue.Take(s.journal.Take(out))
	if s.segments != nil {
		out = s.segments.Take(out)
	}
	return out
}

// Next overwrites ev with the next event and says whether there was one. What
// the last event lent is taken back.
func (s *Store) Next(ev *Event) bool {
	for {
		if s.eventAt < len(s.events) {
			*ev = s.events[s.eventAt]
			s.events[s.eventAt] = Event{}
			if s.eventAt++; s.eventAt == len(s.events) {
				s.events, s.eventAt = s.events[:0], 0
			}
			return true
		}
		if s.state == stateRecovering && s.pull(ev) {
			return true
		}
		if len(s.events) == 0 {
			return false
		}
	}
}

// pull asks the stages of recovery that lend their bytes for the next event.
func (s *Store) pull(ev *Event) bool {
	switch s.recoverer.stage {
	case recoverLoad:
		return s.loadNext(ev)
	case recoverStream:
		if s.segments.DirtyBytes() > replayDirtyMax {
			return false // until the disk has taken some
		}
		var je journal.Event
		if !s.journal.Next(&je) {
			return false
		}
		if je.Kind == journal.EventEntry {
			*ev = Event{Kind: EventEntry, Entry: je.Entry}
			return true
		}
		s.journalEvent(&je)
	}
	return false
}

func (s *Store) emit(e Event) { s.events = append(s.events, e) }

// fail ends the store's life: nothing more is acknowledged (invariant 6).
func (s *Store) fail(err disk.Errno, path string) {
	if s.state == stateEnded {
		return
	}
	s.state = stateEnded
	s.emit(Event{Kind: EventJournalFailed, Err: err, Path: path, What: fileKind(path) + path + ": " + err.String()})
}

// fileKind says what kind of file path is, for people.
func fileKind(path string) string {
	dir, _, inDir := strings.Cut(path, "/")
	switch {
	case path == superblockPath:
		return "the superblock "
	case !inDir:
		return "" // a directory
	case dir == "journal":
		return "the journal file "
	case dir == format.MetadataDir:
		return "the metadata file "
	case dir == format.CheckpointsDir:
		return "the checkpoint "
	case dir == "topics":
		return "the segment "
	default:
		return ""
	}
}

// damage reports damage, and ends the store's life if it is fatal.
func (s *Store) damage(e Event) {
	if s.state == stateEnded {
		return
	}
	if e.Fatal {
		s.state = stateEnded
	}
	e.Kind = EventDamage
	s.emit(e)
}

// refuse ends the start: these files are not this binary's, or not this node's.
func (s *Store) refuse(path string, version uint8, what string) {
	if s.state == stateEnded {
		return
	}
	s.state = stateEnded
	if version > 0 {
		what = "SEGMENT_VERSION_TOO_NEW: " + path + ": format version " + utoa(uint64(version)) + ": " + what
	} else {
		what = path + ": " + what
	}
	s.emit(Event{Kind: EventRefused, Path: path, Version: version, What: what})
}

// NextDeadline is when Tick wants to be called, or Never.
func (s *Store) NextDeadline() clock.Instant {
	if s.state == stateEnded || s.state == stateNew {
		return clock.Never
	}
	at := min(s.journal.NextDeadline(), s.former.retryAt)
	if s.segments != nil {
		at = min(at, s.segments.NextDeadline())
	}
	if s.super.stage == superStalled {
		at = min(at, s.super.retryAt)
	}
	if s.state != stateRunning {
		return at
	}
	at = min(at, s.space.at)
	if s.metadata.stage == metadataStalled {
		at = min(at, s.metadata.retryAt)
	}
	if s.snapshotter.stalled {
		at = min(at, s.snapshotter.retryAt)
	}
	switch k := &s.checkpointer; {
	case k.stage == checkpointStalled:
		at = min(at, k.retryAt)
	case k.stage == checkpointIdle && k.since != clock.Never && s.now < k.since.Add(s.options.CheckpointEvery):
		at = min(at, k.since.Add(s.options.CheckpointEvery))
	}
	return at
}

// Tick does what is due by now.
func (s *Store) Tick(now clock.Instant) {
	s.now = max(s.now, now)
	if s.state == stateEnded || s.state == stateNew {
		return
	}
	s.journal.Tick(now)
	s.pumpJournal()
	if s.segments != nil {
		s.segments.Tick(now)
		s.pumpSegments()
	}
	s.superTick(now)
	s.formTick(now)
	if s.state != stateRunning {
		return
	}
	s.metadataTick(now)
	s.snapshotTick(now)
	s.checkpointTick(now)
	s.spaceTick(now)
}

// begin goes over to running.
func (s *Store) begin() {
	if number, _ := s.journal.Last(); number > s.super.durable.CheckpointOp {
		s.checkpointer.since = s.now
	}
	s.space.at = s.now
	s.metadataGo() // what replay has appended
}

func utoa(n uint64) string { return strconv.FormatUint(n, 10) }

package store

import (
	"hash/crc32"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store/flight"
)

// snapshotRef names a metadata snapshot that is synced.
type snapshotRef struct {
	records uint64
	epoch   op.Epoch
}

func (r snapshotRef) path() string { return format.SnapshotName(r.records, r.epoch) }

// snapshotter writes snapshots of the metadata, one at a time. A snapshot is
// used once a checkpoint at or behind it names it.
type snapshotter struct {
	flight  flight.Flight
	busy    bool
	stalled bool
	opened  bool // the handle, while it is begun again
	written bool // whole and synced; only the close is left
	retryAt clock.Instant

	last   uint64 // records at the last one begun
	bytes  int64  // of log since then
	ref    snapshotRef
	header [format.MetadataHeaderSize]byte
	data   []byte
	done   []snapshotRef // whole and synced, in order; the first may be the named one
}

// SnapshotDue says that the metadata log has grown enough for a snapshot.
func (s *Store) SnapshotDue() bool {
	n := &s.snapshotter
	return s.state == stateRunning && !n.busy && s.metadata.records > n.last &&
		(s.metadata.records-n.last >= uint64(s.options.MetadataSnapshotRecords) || n.bytes >= s.options.MetadataSnapshotBytes)
}

// WriteSnapshot writes the metadata's state as of the last AppendMetadata; epoch
// goes into its name. data is borrowed until EventSnapshotWritten.
func (s *Store) WriteSnapshot(epoch op.Epoch, data []byte) {
	n, m := &s.snapshotter, &s.metadata
	if n.busy || s.state != stateRunning || m.records <= n.last {
		panic("store: WriteSnapshot while one is under way, or without a record since the last one")
	}
	n.ref = snapshotRef{m.records, epoch}
	n.last, n.bytes = m.records, 0
	n.busy, n.opened, n.written, n.data = true, false, false, data
	h := format.SnapshotHeader{ClusterID: s.identity.ClusterID, Offset: m.records, Epoch: epoch, CRC: crc32.Checksum(data, op.Castagnoli), Length: uint64(len(data))}
	h.Put(n.header[:])
	s.metadataRotate()
	s.snapshotSubmit()
}

func (s *Store) snapshotSubmit() {
	n := &s.snapshotter
	requests := [...]disk.Request{
		{Kind: disk.KindOpen, Flags: disk.FlagCreate, Path: n.ref.path()},
		{Kind: disk.KindTruncate},
		{Kind: disk.KindWrite, Buf: n.header[:]},
		{Kind: disk.KindWrite, Offset: format.MetadataHeaderSize, Buf: n.data},
		{Kind: disk.KindSync},
		{Kind: disk.KindSyncDir, Path: format.MetadataDir},
	}
	for i, r := range requests {
		if i == 0 && n.opened || r.Kind == disk.KindWrite && len(r.Buf) == 0 {
			continue
		}
		r.Lane, r.Handle = disk.LaneBackground, handleSnapshot
		n.flight.Submit(&s.queue, r)
	}
}

// snapshotLanded takes in the outcome.
func (s *Store) snapshotLanded(now clock.Instant) {
	n := &s.snapshotter
	switch {
	case s.state == stateEnded:
		return
	case n.flight.Err == disk.ErrNoSpace && !n.flight.SyncFailed():
		n.opened = n.flight.ErrKind != disk.KindOpen
		n.stalled, n.retryAt = true, now.Add(s.options.RetryEvery)
		return
	case n.flight.Err != disk.OK:
		s.fail(n.flight.Err, n.ref.path())
		return
	case !n.written:
		n.data, n.written = nil, true
		n.done = append(n.done, n.ref)
		s.emit(Event{Kind: EventSnapshotWritten})
		n.flight.Submit(&s.queue, disk.Request{Kind: disk.KindClose, Lane: disk.LaneBackground, Handle: handleSnapshot})
		return
	}
	n.busy = false
}

// snapshotTick repeats what a full disk refused.
func (s *Store) snapshotTick(now clock.Instant) {
	if n := &s.snapshotter; n.stalled && now >= n.retryAt {
		n.stalled = false
		s.snapshotSubmit()
	}
}

// best gives the newest snapshot of at most records records.
func (n *snapshotter) best(records uint64) (best snapshotRef) {
	for _, r := range n.done {
		if r.records <= records {
			best = r
		}
	}
	return best
}

// forget drops the snapshots before named from the list, and gives them to drop.
func (n *snapshotter) forget(named snapshotRef, drop func(path string)) {
	kept := n.done[:0]
	for _, r := range n.done {
		if r.records < named.records {
			drop(r.path())
		} else {
			kept = append(kept, r)
		}
	}
	n.done = kept
}

package store

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store/flight"
)

// metadata writes the metadata log behind the journal: records collect in
// memory and are written in pieces, synced at checkpoints only. With each
// snapshot the log goes on in a new file, so that the files before it can go.
//
// Invariants:
//
//  1. Records are numbered without a gap over all files.
//  2. A file is synced before the next one is begun.
//  3. Bytes that were written are not written again, except after a full disk.
type metadata struct {
	flight  flight.Flight
	stage   metadataStage
	after   metadataStage // of a stall
	retryAt clock.Instant

	records uint64 // appended so far
	pending uint64 // the first of them that is still in buf
	durable uint64 // those below are synced, under a synced name
	syncing uint64 // what durable becomes with the sync under way
	wanted  uint64 // durable is to reach this

	files  []uint64 // the log's files by their first record, from the oldest kept
	open   bool     // the last of them
	opened bool     // its handle, while it is created
	ending bool     // the sync under way is its last
	offset int64    // in it, where the next piece goes

	buf      []byte // records not yet submitted
	out      []byte // those under way
	rotate   int    // bytes of buf that belong to the last file; -1: all of it
	rotateAt uint64 // the first record that does not
}

// metadataStage is what the writer of the metadata log is at.
type metadataStage uint8

const (
	metadataIdle metadataStage = iota
	metadataCreate
	metadataWrite
	metadataSync
	metadataStalled
)

// AppendMetadata appends an applied op to the metadata log: h is the header of
// its entry. It copies opBytes.
func (s *Store) AppendMetadata(h op.Header, opBytes []byte) {
	m := &s.metadata
	r := format.MetadataRecord{Offset: m.records, Number: h.Number, Epoch: h.Epoch, LogTime: h.LogTime, Op: opBytes}
	before := len(m.buf)
	m.buf = r.Append(m.buf)
	m.records++
	s.snapshotter.bytes += int64(len(m.buf) - before)
	s.metadataGo()
}

// metadataGo begins what there is to do, if nothing is under way.
func (s *Store) metadataGo() {
	m := &s.metadata
	if m.stage != metadataIdle || s.state != stateRunning {
		return // recovery appends too: that is written when it has ended
	}
	mine := len(m.buf)
	if m.rotate >= 0 {
		mine = m.rotate
	}
	switch {
	case mine == 0 && m.rotate >= 0 || mine == 0 && m.wanted > m.durable:
		m.stage = metadataSync
	case mine == 0 || m.rotate < 0 && mine < s.options.PieceBytes && m.wanted <= m.durable:
		return
	case !m.open:
		h := format.MetadataHeader{ClusterID: s.identity.ClusterID, Offset: m.pending}
		m.out = append(m.out[:0], make([]byte, format.MetadataHeaderSize)...)
		h.Put(m.out)
		m.files = append(m.files, m.pending)
		m.offset, m.opened = 0, false
		m.stage = metadataCreate
	default:
		m.out = append(m.out[:0], m.buf[:mine]...)
		m.buf = m.buf[:copy(m.buf, m.buf[mine:])]
		m.pending = m.records
		if m.rotate >= 0 {
			m.rotate, m.pending = 0, m.rotateAt
		}
		m.stage = metadataWrite
	}
	s.metadataSubmit()
}

// metadataSubmit submits the requests of the present stage.
func (s *Store) metadataSubmit() {
	m := &s.metadata
	submit := func(r disk.Request) {
		r.Lane, r.Handle = disk.LaneBackground, handleMetadata
		m.flight.Submit(&s.queue, r)
	}
	switch m.stage {
	case metadataCreate:
		if !m.opened {
			submit(disk.Request{Kind: disk.KindOpen, Flags: disk.FlagCreate, Path: format.MetadataName(m.files[len(m.files)-1])})
		}
		submit(disk.Request{Kind: disk.KindTruncate})
		submit(disk.Request{Kind: disk.KindWrite, Buf: m.out})
	case metadataWrite:
		submit(disk.Request{Kind: disk.KindWrite, Offset: m.offset, Buf: m.out})
	case metadataSync:
		m.syncing, m.ending = m.pending, m.rotate >= 0
		if m.open {
			submit(disk.Request{Kind: disk.KindSync})
			if m.ending {
				submit(disk.Request{Kind: disk.KindClose})
			}
		}
		submit(disk.Request{Kind: disk.KindSyncDir, Path: format.MetadataDir})
	}
}

// metadataLanded takes in the outcome.
func (s *Store) metadataLanded(now clock.Instant) {
	m := &s.metadata
	switch {
	case s.state == stateEnded:
		return
	case m.flight.Err == disk.ErrNoSpace && m.stage != metadataSync:
		m.opened = m.flight.ErrKind != disk.KindOpen
		m.after, m.stage, m.retryAt = m.stage, metadataStalled, now.Add(s.options.RetryEvery)
		return
	case m.flight.Err != disk.OK:
		path := format.MetadataDir
		if len(m.files) > 0 && m.flight.ErrKind != disk.KindSyncDir {
			path = format.MetadataName(m.files[len(m.files)-1])
		}
		s.fail(m.flight.Err, path)
		return
	}
	stage := m.stage
	m.stage = metadataIdle
	switch stage {
	case metadataCreate:
		m.open = true
		m.offset = int64(len(m.out))
	case metadataWrite:
		m.offset += int64(len(m.out))
	case metadataSync:
		m.durable = m.syncing
		if m.ending {
			m.rotate, m.open = -1, false
		}
		s.checkpointGo()
	}
	s.metadataGo()
}

// metadataTick repeats what a full disk refused.
func (s *Store) metadataTick(now clock.Instant) {
	if m := &s.metadata; m.stage == metadataStalled && now >= m.retryAt {
		m.stage = m.after
		s.metadataSubmit()
	}
}

// metadataRotate lets the log go on in a new file from the next record on.
func (s *Store) metadataRotate() {
	m := &s.metadata
	if m.rotate >= 0 || !m.open && m.stage != metadataCreate && len(m.buf) == 0 {
		return // the next record begins a file anyway, or the one after a full disk
	}
	m.rotate, m.rotateAt = len(m.buf), m.records
	s.metadataGo()
}

// metadataWant has everything up to the record records made durable;
// checkpointGo is called when it is.
func (s *Store) metadataWant(records uint64) {
	s.metadata.wanted = max(s.metadata.wanted, records)
	s.metadataGo()
}

// metadataForget drops the files that a snapshot of the first records records
// made needless from the list, and gives them to drop.
func (m *metadata) forget(records uint64, drop func(path string)) {
	n := 0
	for n+1 < len(m.files) && m.files[n+1] <= records {
		drop(format.MetadataName(m.files[n]))
		n++
	}
	m.files = m.files[:copy(m.files, m.files[n:])]
}

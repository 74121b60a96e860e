package store

import (
	"cmp"
	"errors"
	"hash/crc32"
	"slices"

	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store/flight"
)

// loadKind says what a file that is loaded holds.
type loadKind uint8

const (
	loadSnapshot loadKind = iota
	loadMetadata
	loadLog
	loadCursor
)

// loadFile is one file that the superblock stands for.
type loadFile struct {
	kind loadKind
	path string
	from uint64 // loadMetadata: its first record
}

// loader reads the metadata and the checkpoint that the superblock names, and
// hands them out, one event per call of Next. It changes nothing, but for
// damaged metadata, which goes to quarantine.
type loader struct {
	window flight.Window
	flight flight.Flight // lists, and moves to quarantine

	files   []loadFile
	at      int
	pos     int64 // in the file; 0: its header is next
	ended   bool
	record  uint64 // the next one's number
	seed    uint32
	block   uint32
	listed  bool
	bad     *Event // damage, while the file is moved to quarantine
	metaEnd int64  // where the last metadata file is cut off

	positions []format.Position
	held      []format.Held // one of each partition
	heldAt    int           // the position of the last one
	behind    []Event       // checkpoint files that go on behind their last block
}

// load begins.
func (s *Store) load() {
	l := &s.loader
	if s.super.durable.CheckpointOp == 0 {
		s.recoverLoaded()
		return
	}
	l.flight.Submit(&s.queue, disk.Request{Kind: disk.KindList, Lane: disk.LaneRead, Path: format.MetadataDir})
}

// loadLanded takes in the listing, or the end of a move to quarantine.
func (s *Store) loadLanded() {
	l := &s.loader
	if s.state == stateEnded {
		return
	}
	if l.bad != nil {
		s.damage(*l.bad) // whether it could be moved or not
		return
	}
	if l.flight.Err != disk.OK {
		s.fail(l.flight.Err, format.MetadataDir)
		return
	}
	var starts []uint64
	for _, e := range l.flight.Entries {
		if offset, ok := format.ParseMetadataName(e.Name); ok && !e.Dir {
			starts = append(starts, offset)
		}
	}
	slices.Sort(starts)
	sb := &s.super.durable
	if sb.SnapshotRecords > 0 {
		l.files = append(l.files, loadFile{kind: loadSnapshot, path: format.SnapshotName(sb.SnapshotRecords, sb.SnapshotEpoch)})
	}
	l.record = sb.SnapshotRecords
	if sb.MetadataRecords > sb.SnapshotRecords {
		first := len(starts)
		for first > 0 && (first == len(starts) || starts[first] > sb.SnapshotRecords) {
			first--
		}
		if first == len(starts) || starts[first] > sb.SnapshotRecords {
			s.damage(Event{Path: format.MetadataName(sb.SnapshotRecords), Sequence: uint64(sb.CheckpointOp), What: quarantined + "the file is missing", Fatal: true})
			return
		}
		l.record = starts[first]
		for _, from := range starts[first:] {
			if from < sb.MetadataRecords {
				l.files = append(l.files, loadFile{kind: loadMetadata, path: format.MetadataName(from), from: from})
			}
		}
	}
	l.files = append(l.files, loadFile{kind: loadLog, path: format.LogCheckpointName(sb.CheckpointOp)}, loadFile{kind: loadCursor, path: format.CursorCheckpointName(sb.CheckpointOp)})
	l.listed = true
}

// quarantined begins what is said about metadata that cannot be trusted.
const quarantined = "METADATA_QUARANTINED: "

// loadNext gives the next event, if a read that has ended allows it.
func (s *Store) loadNext(ev *Event) bool {
	l := &s.loader
	for s.state == stateRecovering && s.recoverer.stage == recoverLoad && l.listed && l.bad == nil {
		switch {
		case l.window.Busy():
			return false
		case l.window.Err != disk.OK:
			s.loadFailed()
		case l.window.Closed() && l.at == len(l.files):
			l.window.Release()
			s.recoverLoaded()
		case l.window.Closed():
			l.pos, l.ended = 0, false
			l.window.Open(l.files[l.at].path)
		case l.ended:
			l.at++
			l.window.Close()
		case l.pos == 0:
			s.loadHeader()
		default:
			if s.loadPart(ev) {
				return true
			}
		}
	}
	return false
}

// loadFailed ends the start over a file that cannot be read.
func (s *Store) loadFailed() {
	switch err := s.loader.window.Err; err {
	case disk.ErrNotExist:
		s.loadBad("the file is missing")
	case disk.ErrIO, disk.ErrNotRegular:
		s.loadBad("cannot be read: " + err.String())
	default:
		s.fail(err, s.loader.files[s.loader.at].path)
	}
}

// loadBad ends the start over a damaged file; metadata goes to quarantine.
func (s *Store) loadBad(what string) {
	l := &s.loader
	f := &l.files[l.at]
	ev := Event{Path: f.path, Offset: l.pos, Sequence: uint64(s.super.durable.CheckpointOp), What: what, Fatal: true}
	if f.kind == loadLog || f.kind == loadCursor {
		s.damage(ev)
		return
	}
	ev.What = quarantined + what
	if l.window.Err == disk.ErrNotExist {
		s.damage(ev)
		return
	}
	ev.What += "; the file was moved to " + format.QuarantineDir
	l.bad = &ev
	name := f.path[len(format.MetadataDir)+1:]
	for _, r := range [...]disk.Request{
		{Kind: disk.KindMkdir, Path: format.QuarantineDir},
		{Kind: disk.KindRename, Path: f.path, Path2: format.QuarantineDir + "/" + name},
		{Kind: disk.KindSyncDir, Path: format.QuarantineDir},
		{Kind: disk.KindSyncDir, Path: format.MetadataDir},
	} {
		r.Lane = disk.LaneBackground
		l.flight.Submit(&s.queue, r)
	}
}

// loadHeader reads a file's header.
func (s *Store) loadHeader() {
	l, sb := &s.loader, &s.super.durable
	b, ok := l.window.Need(0, format.CheckpointHeaderSize)
	if !ok {
		return
	}
	var err error
	var cluster [16]byte
	fits := false
	switch f := &l.files[l.at]; f.kind {
	case loadSnapshot:
		var h format.SnapshotHeader
		h, err = format.DecodeSnapshotHeader(b)
		fits = h.Offset == sb.SnapshotRecords && h.Epoch == sb.SnapshotEpoch && int64(h.Length) == l.window.Size-format.MetadataHeaderSize
		l.pos, cluster = format.MetadataHeaderSize, h.ClusterID
	case loadMetadata:
		var h format.MetadataHeader
		h, err = format.DecodeMetadataHeader(b)
		fits = h.Offset == f.from && f.from == l.record
		l.pos, cluster = format.MetadataHeaderSize, h.ClusterID
	default:
		magic := format.LogCheckpointMagic
		if f.kind == loadCursor {
			magic = format.CursorCheckpointMagic
		}
		var h format.CheckpointHeader
		h, err = format.DecodeCheckpointHeader(b, magic)
		fits = h.Number == sb.CheckpointOp && h.Epoch == sb.CheckpointEpoch && h.Hash == sb.CheckpointHash
		l.pos, cluster = format.CheckpointHeaderSize, h.ClusterID
		l.seed, l.block = h.Seed(), 0
	}
	var newer *format.VersionError
	switch {
	case errors.As(err, &newer):
		s.refuse(l.files[l.at].path, newer.Version, "a format version that this binary does not know")
	case err != nil:
		l.pos = 0
		s.loadBad("the header is damaged")
	case cluster != sb.ClusterID:
		s.refuse(l.files[l.at].path, 0, "a file of another cluster")
	case !fits:
		l.pos = 0
		s.loadBad("the header does not fit what the superblock names, or the file before it")
	}
}

// loadPart reads the next part of a file, and says whether it is an event.
func (s *Store) loadPart(ev *Event) bool {
	switch l := &s.loader; l.files[l.at].kind {
	case loadSnapshot:
		return s.loadSnapshotData(ev)
	case loadMetadata:
		return s.loadRecord(ev)
	default:
		return s.loadBlock(ev)
	}
}

// loadSnapshotData gives the snapshot whole.
func (s *Store) loadSnapshotData(ev *Event) bool {
	l := &s.loader
	b, ok := l.window.Need(0, int(l.window.Size))
	if !ok {
		return false
	}
	h, err := format.DecodeSnapshotHeader(b)
	data := b[format.MetadataHeaderSize:]
	if err != nil || crc32.Checksum(data, op.Castagnoli) != h.CRC {
		s.loadBad("the snapshot is damaged")
		return false
	}
	l.ended = true
	*ev = Event{Kind: EventMetadataSnapshot, Data: data}
	return true
}

// loadRecord gives the next op of the metadata log.
func (s *Store) loadRecord(ev *Event) bool {
	l, sb := &s.loader, &s.super.durable
	if l.record == sb.MetadataRecords {
		l.metaEnd, l.ended = l.pos, true
		return false
	}
	b, ok := l.window.Need(l.pos, 4)
	if !ok {
		return false
	}
	if len(b) == 0 && l.at+1 < len(l.files) && l.files[l.at+1].kind == loadMetadata {
		l.ended = true // the next file's header must go on from here
		return false
	}
	size, err := format.MetadataRecordSize(b)
	if err == nil {
		if b, ok = l.window.Need(l.pos, size); !ok {
			return false
		}
	}
	r, size, err := format.DecodeMetadataRecord(b)
	if err != nil || r.Offset != l.record {
		s.loadBad("a metadata record is damaged or missing")
		return false
	}
	l.pos += int64(size)
	l.record++
	if r.Offset < sb.SnapshotRecords {
		return false // the snapshot has it
	}
	*ev = Event{Kind: EventMetadataOp, Header: op.Header{Number: r.Number, Epoch: r.Epoch, LogTime: r.LogTime}, Data: r.Op}
	return true
}

// loadBlock gives the next piece of a checkpoint.
func (s *Store) loadBlock(ev *Event) bool {
	l := &s.loader
	b, ok := l.window.Need(l.pos, 4)
	if !ok {
		return false
	}
	size, err := format.BlockSize(b)
	if err == nil {
		if b, ok = l.window.Need(l.pos, size); !ok {
			return false
		}
	}
	k, size, err := format.DecodeBlock(b, l.seed)
	if err != nil || k.Number != l.block {
		s.loadBad("a block is damaged or missing")
		return false
	}
	l.pos += int64(size)
	l.block++
	log := l.files[l.at].kind == loadLog
	switch {
	case k.Kind == format.BlockEnd:
		if l.pos < l.window.Size {
			// It is whole: what is behind it is not of it, and is cut off.
			l.behind = append(l.behind, Event{Kind: EventRepaired, Path: l.files[l.at].path, Offset: l.pos})
		}
		l.ended = true
		return false
	case k.Kind == format.BlockPositions && log:
		s.loadPositions(k.Payload)
		return false
	case k.Kind == format.BlockHeld && log:
		s.loadHeld(k.Payload)
		return false
	case k.Kind != format.BlockPiece:
		s.loadBad("a block of positions or held records in a ledger checkpoint")
		return false
	}
	*ev = Event{Kind: EventCursorCheckpoint, Data: k.Payload}
	if log {
		ev.Kind = EventLogCheckpoint
	}
	return true
}

// loadPositions takes in where partitions end.
func (s *Store) loadPositions(b []byte) {
	l := &s.loader
	for ; len(b) > 0; b = b[format.PositionSize:] {
		p, err := format.DecodePosition(b)
		if n := len(l.positions); err != nil || n > 0 && comparePositions(l.positions[n-1], p) >= 0 {
			s.loadBad("a position is damaged or out of order")
			return
		}
		l.positions = append(l.positions, p)
	}
}

// comparePositions compares them by topic and partition.
func comparePositions(a, b format.Position) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

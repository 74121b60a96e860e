package verify

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/mortarmq/mortarmq/node/format"
)

// DumpOptions say how much of the contents a dump shows. The zero value works.
type DumpOptions struct {
	// BytesShown is how much of a key, a value or a piece is printed; 64 bytes by
	// default, everything when it is negative.
	BytesShown int
}

// ErrUnknown is what Dump answers to a file that is none of the broker's.
var ErrUnknown = errors.New("verify: no magic number of the broker at the start of the file")

// dumper prints one file.
type dumper struct {
	out   io.Writer
	w     *window
	shown int
	err   error
}

// Dump prints a file of the data directory as text, a line per record, up to its
// end or to the first bytes that do not decode, which it names. The first four
// bytes say what file it is.
func Dump(out io.Writer, f File, o DumpOptions) error {
	d := &dumper{out: out, w: &window{f: f}, shown: o.BytesShown}
	if d.shown == 0 {
		d.shown = 64
	}
	switch magic := string(d.w.need(0, 4)); magic {
	case format.SuperblockMagic:
		d.superblock()
	case format.JournalMagic:
		d.journal()
	case format.MetadataMagic:
		d.metadata()
	case format.SnapshotMagic:
		d.snapshot()
	case format.LogCheckpointMagic, format.CursorCheckpointMagic:
		d.checkpoint(magic)
	case format.SegmentMagic:
		d.segment()
	case format.IndexMagic:
		d.index()
	default:
		if d.w.err != nil {
			return d.w.err
		}
		if f.Size() == format.SuperblockSize && string(d.w.need(format.SuperblockSlotSize, 4)) == format.SuperblockMagic {
			d.superblock() // its first slot is torn
			break
		}
		return ErrUnknown
	}
	if d.err == nil {
		d.err = d.w.err
	}
	return d.err
}

func (d *dumper) line(text string, args ...any) {
	if d.err == nil {
		_, d.err = fmt.Fprintf(d.out, text+"\n", args...)
	}
}

// stop names the place where the file does not decode.
func (d *dumper) stop(offset int64, err error) {
	if d.w.err == nil {
		d.line("%d: %v", offset, err)
	}
}

// text quotes b, of which not more than asked for is shown.
func (d *dumper) text(b []byte) string {
	if d.shown >= 0 && len(b) > d.shown {
		return strconv.Quote(string(b[:d.shown])) + "... (" + strconv.Itoa(len(b)) + " bytes)"
	}
	return strconv.Quote(string(b))
}

func (d *dumper) superblock() {
	for slot := range 2 {
		at := int64(slot) * format.SuperblockSlotSize
		s, err := format.DecodeSuperblock(d.w.need(at, format.SuperblockSlotSize), uint8(slot))
		if err != nil {
			d.stop(at, err)
			continue
		}
		d.line("%d: superblock slot=%d version=%d node=%d cluster=%x", at, slot, s.Version, s.NodeID, s.ClusterID)
		d.line("  promised=%d installed=%d installed_op=%d installed_hash=%x", s.Promised, s.Installed, s.InstalledOp, s.InstalledHash)
		d.line("  checkpoint_op=%d checkpoint_epoch=%d checkpoint_hash=%x checkpoint_log_time=%d", s.CheckpointOp, s.CheckpointEpoch, s.CheckpointHash, s.CheckpointTime)
		d.line("  metadata_records=%d snapshot_records=%d snapshot_epoch=%d", s.MetadataRecords, s.SnapshotRecords, s.SnapshotEpoch)
		d.line("  journal_first=%d journal_current=%d", s.JournalFirst, s.JournalCurrent)
	}
}

func (d *dumper) segmentHeader(kind string, h *format.SegmentHeader) {
	d.line("0: %s topic=%d partition=%d base=%d cluster=%x created=%d", kind, h.Topic, h.Partition, h.Base, h.ClusterID, h.Created)
}

func (d *dumper) segment() {
	h, err := format.DecodeSegmentHeader(d.w.need(0, format.SegmentHeaderSize))
	if err != nil {
		d.stop(0, err)
		return
	}
	d.segmentHeader("segment", &h)
	for at := int64(format.SegmentHeaderSize); at < d.w.f.Size() && d.err == nil; {
		size, err := format.RecordSize(d.w.need(at, 4))
		var rec format.Record
		if err == nil {
			rec, _, err = format.DecodeRecord(d.w.need(at, size))
		}
		if err != nil {
			d.stop(at, err)
			return
		}
		d.record(at, size, &rec)
		at += int64(size)
	}
}

func (d *dumper) record(at int64, size int, r *format.Record) {
	line := fmt.Sprintf("%d: record sequence=%d length=%d kind=%v epoch=%d time=%d producer=%d/%d", at, r.Sequence, size, r.Kind, r.LeaderEpoch, r.Timestamp, r.ProducerID, r.ProducerSeq)
	if r.Flags&format.RecordFlagKey != 0 {
		line += " key=" + d.text(r.Key)
	}
	if len(r.Envelope) > 0 {
		line += " " + d.envelope(r.Envelope)
	}
	d.line("%s value=%s", line, d.text(r.Value))
}

func (d *dumper) envelope(b []byte) string {
	e, err := format.DecodeEnvelope(b)
	if err != nil {
		return "envelope=" + strconv.Quote(err.Error())
	}
	return fmt.Sprintf("source=%d/%d/%d group=%d(%q) attempts=%d reason=%s died=%d", e.Topic, e.Partition, e.Sequence, e.Group, e.GroupName, e.Attempts, causeText(e.Reason), e.Time)
}

func (d *dumper) index() {
	h, err := format.DecodeIndexHeader(d.w.need(0, format.SegmentHeaderSize))
	if err != nil {
		d.stop(0, err)
		return
	}
	d.segmentHeader("index", &h)
	for at := int64(format.SegmentHeaderSize); at < d.w.f.Size() && d.err == nil; at += format.IndexEntrySize {
		e, err := format.DecodeIndexEntry(d.w.need(at, format.IndexEntrySize))
		if err != nil {
			d.stop(at, err)
			return
		}
		d.line("%d: entry sequence=%d time=%d offset=%d length=%d", at, e.Sequence, e.Timestamp, e.Offset, e.Length)
	}
}

func (d *dumper) snapshot() {
	h, err := format.DecodeSnapshotHeader(d.w.need(0, format.MetadataHeaderSize))
	if err != nil {
		d.stop(0, err)
		return
	}
	d.line("0: snapshot records=%d epoch=%d cluster=%x length=%d crc=%08x", h.Offset, h.Epoch, h.ClusterID, h.Length, h.CRC)
	d.bytes(format.MetadataHeaderSize, d.w.need(format.MetadataHeaderSize, int(min(int64(h.Length), int64(d.limit())))))
}

// limit is how many bytes of a piece are shown.
func (d *dumper) limit() int {
	if d.shown < 0 {
		return format.SnapshotBytesMax
	}
	return d.shown
}

// bytes prints b as hex, 32 bytes a line.
func (d *dumper) bytes(at int64, b []byte) {
	for i := 0; i < len(b); i += 32 {
		d.line("  %d: %x", at+int64(i), b[i:min(i+32, len(b))])
	}
}

func (d *dumper) checkpoint(magic string) {
	h, err := format.DecodeCheckpointHeader(d.w.need(0, format.CheckpointHeaderSize), magic)
	if err != nil {
		d.stop(0, err)
		return
	}
	kind := map[bool]string{true: "log checkpoint", false: "ledger checkpoint"}[magic == format.LogCheckpointMagic]
	d.line("0: %s op=%d epoch=%d hash=%x log_time=%d cluster=%x", kind, h.Number, h.Epoch, h.Hash, h.LogTime, h.ClusterID)
	for at := int64(format.CheckpointHeaderSize); at < d.w.f.Size() && d.err == nil; {
		size, err := format.BlockSize(d.w.need(at, 4))
		var k format.Block
		if err == nil {
			k, _, err = format.DecodeBlock(d.w.need(at, size), h.Seed())
		}
		if err != nil {
			d.stop(at, err)
			return
		}
		d.block(at, &k)
		at += int64(size)
	}
}

func (d *dumper) block(at int64, k *format.Block) {
	switch k.Kind {
	case format.BlockPositions:
		d.line("%d: positions block=%d count=%d", at, k.Number, len(k.Payload)/format.PositionSize)
		for b := k.Payload; len(b) > 0; b = b[format.PositionSize:] {
			p, err := format.DecodePosition(b)
			if err != nil {
				d.stop(at, err)
				return
			}
			d.line("  topic=%d partition=%d last=%d base=%d offset=%d", p.Topic, p.Partition, p.Last, p.Base, p.Offset)
		}
	case format.BlockHeld:
		h, err := format.DecodeHeld(k.Payload)
		if err != nil {
			d.stop(at, err)
			return
		}
		d.line("%d: held block=%d topic=%d partition=%d length=%d", at, k.Number, h.Topic, h.Partition, len(h.Records))
		d.bytes(at+format.BlockHeaderSize+format.HeldHeaderSize, h.Records[:min(len(h.Records), d.limit())])
	case format.BlockPiece:
		d.line("%d: piece block=%d length=%d", at, k.Number, len(k.Payload))
		d.bytes(at+format.BlockHeaderSize, k.Payload[:min(len(k.Payload), d.limit())])
	default:
		d.line("%d: end block=%d", at, k.Number)
	}
}

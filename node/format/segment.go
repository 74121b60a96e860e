package format

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strconv"

	"github.com/mortarmq/mortarmq/node/op"
)

// Magic numbers of a segment and of its sparse index.
const (
	SegmentMagic = "MMQS"
	IndexMagic   = "MMQI"
)

// SegmentVersion is the format_version of segments and indexes that this binary
// writes, and the highest that it reads.
const SegmentVersion = 1

// segmentHeaderVersion is the header_version. Size and checksum of the header
// stay the same over all versions, so that one too new is told from damage.
const segmentHeaderVersion = 1

// SegmentHeaderSize is the size of the header of a segment, and of an index, in
// bytes.
//
//	offset size field
//	     0    4 magic: MMQS, MMQI
//	     4    1 format_version = 1
//	     5    1 header_version = 1
//	     6    2 topic id
//	     8    2 partition
//	    10    2 zero
//	    12    8 base sequence: that of the first record
//	    20   16 cluster id
//	    36    8 created, Unix ms: the timestamp of the first record
//	    44   16 zero
//	    60    4 CRC-32C of everything before
const SegmentHeaderSize = 64

// SegmentHeader stands at the start of a segment and of its index. Created is
// taken from the first record, so that the same log gives the same bytes on
// every node and in every life.
type SegmentHeader struct {
	Topic     op.TopicID
	Partition op.PartitionID
	Base      op.Sequence
	ClusterID [16]byte
	Created   uint64 // Unix ms
}

// ErrSegmentHeader is what the header decoders answer to bytes that are none.
var ErrSegmentHeader = errors.New("format: damaged segment header")

// VersionError refuses a file that a newer binary wrote. Whoever knows the path
// sets it.
type VersionError struct {
	Path    string
	Magic   string
	Version uint8 // of the file
	Known   uint8 // the highest that this binary reads
}

func (e *VersionError) Error() string {
	return "SEGMENT_VERSION_TOO_NEW: " + e.Path + " has format version " + strconv.Itoa(int(e.Version)) + " of " + e.Magic +
		", this binary reads up to " + strconv.Itoa(int(e.Known)) + "; start the newer binary again"
}

// PutSegment writes the header of a segment into b, of SegmentHeaderSize bytes.
func (h *SegmentHeader) PutSegment(b []byte) { h.put(b, SegmentMagic) }

// PutIndex writes the header of an index into b, of SegmentHeaderSize bytes.
func (h *SegmentHeader) PutIndex(b []byte) { h.put(b, IndexMagic) }

func (h *SegmentHeader) put(b []byte, magic string) {
	be := binary.BigEndian
	b = b[:SegmentHeaderSize]
	clear(b)
	copy(b, magic)
	b[4], b[5] = SegmentVersion, segmentHeaderVersion
	be.PutUint16(b[6:], uint16(h.Topic))
	be.PutUint16(b[8:], uint16(h.Partition))
	be.PutUint64(b[12:], uint64(h.Base))
	copy(b[20:36], h.ClusterID[:])
	be.PutUint64(b[36:], h.Created)
	be.PutUint32(b[60:], crc32.Checksum(b[:60], op.Castagnoli))
}

// DecodeSegmentHeader reads the header of a segment.
func DecodeSegmentHeader(b []byte) (SegmentHeader, error) { return decodeHeader(b, SegmentMagic) }

// DecodeIndexHeader reads the header of an index.
func DecodeIndexHeader(b []byte) (SegmentHeader, error) { return decodeHeader(b, IndexMagic) }

func decodeHeader(b []byte, magic string) (h SegmentHeader, err error) {
	be := binary.BigEndian
	if len(b) < SegmentHeaderSize || string(b[:4]) != magic || crc32.Checksum(b[:60], op.Castagnoli) != be.Uint32(b[60:]) {
		return h, ErrSegmentHeader
	}
	if b[4] > SegmentVersion || b[5] > segmentHeaderVersion {
		return h, &VersionError{Magic: magic, Version: max(b[4], b[5]), Known: SegmentVersion}
	}
	h.Topic = op.TopicID(be.Uint16(b[6:]))
	h.Partition = op.PartitionID(be.Uint16(b[8:]))
	h.Base = op.Sequence(be.Uint64(b[12:]))
	copy(h.ClusterID[:], b[20:36])
	h.Created = be.Uint64(b[36:])
	zero := be.Uint16(b[10:]) == 0 && be.Uint64(b[44:]) == 0 && be.Uint64(b[52:]) == 0
	if b[4] == 0 || b[5] == 0 || h.Base == 0 || !zero {
		return h, ErrSegmentHeader
	}
	return h, nil
}

// Names of the files and directories of segments.
const (
	TopicsDir     = "topics"
	SegmentSuffix = ".mqs"
	IndexSuffix   = ".mqi"
)

// PartitionDir gives the directory of a partition's segments.
func PartitionDir(topic op.TopicID, part op.PartitionID) string {
	return TopicsDir + "/" + strconv.Itoa(int(topic)) + "/" + strconv.Itoa(int(part))
}

// SegmentName gives the file name of the segment that begins with base, or of
// its index, as suffix says.
func SegmentName(base op.Sequence, suffix string) string {
	return strconv.FormatUint(uint64(base), 10) + suffix
}

// ParseSegmentName undoes SegmentName. Only what SegmentName writes is parsed.
func ParseSegmentName(name string) (base op.Sequence, index, ok bool) {
	n := len(name) - len(SegmentSuffix)
	if n < 1 || name[n:] != SegmentSuffix && name[n:] != IndexSuffix {
		return 0, false, false
	}
	v, ok := ParseNumber(name[:n])
	return op.Sequence(v), name[n:] == IndexSuffix, ok && v > 0
}

// ParseNumber reads a decimal number as strconv writes it: no sign, no leading
// zero, nothing else. The names of files and directories are such numbers.
func ParseNumber(s string) (uint64, bool) {
	v, err := strconv.ParseUint(s, 10, 64)
	return v, err == nil && (s[0] != '0' || len(s) == 1) && s[0] != '+'
}

package format

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/mortarmq/mortarmq/node/op"
)

// Magic numbers of the metadata log and of its snapshots.
const (
	MetadataMagic   = "MMML"
	SnapshotMagic   = "MMMS"
	metadataVersion = 1
)

// Names of the directories of metadata.
const (
	MetadataDir   = "metadata"
	QuarantineDir = "metadata/quarantine"
)

// MetadataHeaderSize is the size of the header of a metadata log file and of a
// snapshot in bytes.
const MetadataHeaderSize = 64

// MetadataRecordBytesMax bounds the op in a metadata record.
const MetadataRecordBytesMax = 64 << 10

// SnapshotBytesMax bounds a snapshot's data.
const SnapshotBytesMax = 1 << 30

// ErrMetadata is what the metadata decoders answer to bytes that are not what
// is looked for.
var ErrMetadata = errors.New("format: damaged metadata")

// MetadataHeader begins a metadata log file, metadata/<offset>.mmml:
//
//	offset size field
//	     0    4 magic MMML
//	     4    1 format_version = 1
//	     5    3 zero
//	     8   16 cluster id
//	    24    8 offset: records in the log before this file
//	    32   28 zero
//	    60    4 CRC-32C of everything before
type MetadataHeader struct {
	ClusterID [16]byte
	Offset    uint64
}

// Put writes the header into b, MetadataHeaderSize bytes.
func (h *MetadataHeader) Put(b []byte) {
	be := binary.BigEndian
	b = b[:MetadataHeaderSize]
	clear(b)
	copy(b, MetadataMagic)
	b[4] = metadataVersion
	copy(b[8:], h.ClusterID[:])
	be.PutUint64(b[24:], h.Offset)
	be.PutUint32(b[60:], crc32.Checksum(b[:60], op.Castagnoli))
}

// DecodeMetadataHeader reads the header of a metadata log file.
func DecodeMetadataHeader(b []byte) (h MetadataHeader, err error) {
	if err = metadataHeader(b, MetadataMagic); err != nil {
		return h, err
	}
	if !zero(b[32:60]) {
		return h, ErrMetadata
	}
	copy(h.ClusterID[:], b[8:])
	h.Offset = binary.BigEndian.Uint64(b[24:])
	return h, nil
}

// metadataHeader checks what both headers have in common.
func metadataHeader(b []byte, magic string) error {
	if len(b) < MetadataHeaderSize || string(b[:4]) != magic || crc32.Checksum(b[:60], op.Castagnoli) != binary.BigEndian.Uint32(b[60:]) {
		return ErrMetadata
	}
	if b[4] > metadataVersion {
		return &VersionError{Magic: magic, Version: b[4], Known: metadataVersion}
	}
	if b[4] == 0 || !zero(b[5:8]) {
		return ErrMetadata
	}
	return nil
}

// SnapshotHeader begins a metadata snapshot, metadata/mmms-<offset>-<epoch>.bin.
// The data follows it up to the end of the file.
//
//	offset size field
//	     0    4 magic MMMS
//	     4    1 format_version = 1
//	     5    3 zero
//	     8   16 cluster id
//	    24    8 offset: records of the log that it stands for
//	    32    4 leader epoch of the last of them
//	    36    4 CRC-32C of the data
//	    40    8 length of the data
//	    48   12 zero
//	    60    4 CRC-32C of everything before
type SnapshotHeader struct {
	ClusterID [16]byte
	Offset    uint64
	Epoch     op.Epoch
	CRC       uint32
	Length    uint64
}

// Put writes the header into b, MetadataHeaderSize bytes.
func (h *SnapshotHeader) Put(b []byte) {
	be := binary.BigEndian
	b = b[:MetadataHeaderSize]
	clear(b)
	copy(b, SnapshotMagic)
	b[4] = metadataVersion
	copy(b[8:], h.ClusterID[:])
	be.PutUint64(b[24:], h.Offset)
	be.PutUint32(b[32:], uint32(h.Epoch))
	be.PutUint32(b[36:], h.CRC)
	be.PutUint64(b[40:], h.Length)
	be.PutUint32(b[60:], crc32.Checksum(b[:60], op.Castagnoli))
}

// DecodeSnapshotHeader reads the header of a snapshot.
func DecodeSnapshotHeader(b []byte) (h SnapshotHeader, err error) {
	if err = metadataHeader(b, SnapshotMagic); err != nil {
		return h, err
	}
	be := binary.BigEndian
	copy(h.ClusterID[:], b[8:])
	h.Offset = be.Uint64(b[24:])
	h.Epoch = op.Epoch(be.Uint32(b[32:]))
	h.CRC = be.Uint32(b[36:])
	h.Length = be.Uint64(b[40:])
	if !zero(b[48:60]) || h.Length > SnapshotBytesMax {
		return h, ErrMetadata
	}
	return h, nil
}

// MetadataRecordHeaderSize is the size of what stands before the op in bytes.
const MetadataRecordHeaderSize = 40

// MetadataRecord is one applied op in the metadata log:
//
//	offset size field
//	     0    4 length of everything after this field
//	     4    4 CRC-32C of everything after this field
//	     8    8 number of records in the log before this one
//	    16    8 number of the entry that the op came in
//	    24    4 leader epoch of that entry
//	    28    4 zero
//	    32    8 log time of that entry, ms
//	    40      op
type MetadataRecord struct {
	Offset  uint64
	Number  op.Number
	Epoch   op.Epoch
	LogTime op.LogMillis
	Op      []byte
}

// Append appends the encoding of r to b.
func (r *MetadataRecord) Append(b []byte) []byte {
	if len(r.Op) > MetadataRecordBytesMax {
		panic("format: a metadata record beyond the limit")
	}
	be := binary.BigEndian
	start := len(b)
	b = be.AppendUint32(b, uint32(MetadataRecordHeaderSize-4+len(r.Op)))
	b = append(b, 0, 0, 0, 0)
	b = be.AppendUint64(b, r.Offset)
	b = be.AppendUint64(b, uint64(r.Number))
	b = be.AppendUint32(b, uint32(r.Epoch))
	b = append(b, 0, 0, 0, 0)
	b = be.AppendUint64(b, uint64(r.LogTime))
	b = append(b, r.Op...)
	be.PutUint32(b[start+4:], crc32.Checksum(b[start+8:], op.Castagnoli))
	return b
}

// MetadataRecordSize gives the size of the record at the front of b, of which
// four bytes are needed, by its length field alone.
func MetadataRecordSize(b []byte) (int, error) {
	if len(b) < 4 {
		return 0, ErrMetadata
	}
	n := binary.BigEndian.Uint32(b)
	if n < MetadataRecordHeaderSize-4 || n > MetadataRecordHeaderSize-4+MetadataRecordBytesMax {
		return 0, ErrMetadata
	}
	return int(n) + 4, nil
}

// DecodeMetadataRecord reads the record at the front of b and gives its size.
func DecodeMetadataRecord(b []byte) (r MetadataRecord, size int, err error) {
	size, err = MetadataRecordSize(b)
	be := binary.BigEndian
	if err != nil || size > len(b) || crc32.Checksum(b[8:size], op.Castagnoli) != be.Uint32(b[4:]) || !zero(b[28:32]) {
		return r, 0, ErrMetadata
	}
	r.Offset = be.Uint64(b[8:])
	r.Number = op.Number(be.Uint64(b[16:]))
	r.Epoch = op.Epoch(be.Uint32(b[24:]))
	r.LogTime = op.LogMillis(be.Uint64(b[32:]))
	r.Op = b[MetadataRecordHeaderSize:size:size]
	return r, size, nil
}

// MetadataName gives the path of the metadata log file that begins with the
// record offset.
func MetadataName(offset uint64) string {
	return MetadataDir + "/" + strconv.FormatUint(offset, 10) + ".mmml"
}

// SnapshotName gives the path of a snapshot.
func SnapshotName(offset uint64, epoch op.Epoch) string {
	return MetadataDir + "/mmms-" + strconv.FormatUint(offset, 10) + "-" + strconv.FormatUint(uint64(epoch), 10) + ".bin"
}

// ParseMetadataName undoes MetadataName for a name in the directory.
func ParseMetadataName(name string) (offset uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, ".mmml")
	if !ok || digits == "" {
		return 0, false
	}
	return ParseNumber(digits)
}

// ParseSnapshotName undoes SnapshotName for a name in the directory.
func ParseSnapshotName(name string) (offset uint64, epoch op.Epoch, ok bool) {
	rest, ok := strings.CutPrefix(name, "mmms-")
	if !ok {
		return 0, 0, false
	}
	if rest, ok = strings.CutSuffix(rest, ".bin"); !ok {
		return 0, 0, false
	}
	first, second, ok := strings.Cut(rest, "-")
	if !ok || first == "" || second == "" {
		return 0, 0, false
	}
	offset, ok1 := ParseNumber(first)
	e, ok2 := ParseNumber(second)
	return offset, op.Epoch(e), ok1 && ok2 && e <= uint64(op.EpochMax)
}

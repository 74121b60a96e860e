package format

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strconv"

	"github.com/mortarmq/mortarmq/node/op"
)

// A journal file, journal/<number>.mmjl, is a header block and then writes, each
// beginning on a block boundary and padded with zeros to the next. Every
// checksum but the header's own is seeded with cluster id and file number, so
// that what a recycled file held before never looks valid.
const (
	JournalBlock   = 4096
	journalVersion = 1
)

// JournalFileBytes is how long journal files are, unless a store is told otherwise
// or a single write needs more.
const JournalFileBytes = 64 << 20

// EntryBytesMax bounds an entry's body: the largest frame and 64 KiB
// (cluster.md, "APPEND").
const EntryBytesMax = 16<<20 + 64<<10

// Magic numbers of a journal file and of each write in it.
const (
	JournalMagic      = "MMJL"
	JournalWriteMagic = "MMJW"
)

// ErrJournal is what the journal's decoders answer to bytes that are not what
// is looked for: damage, a torn write, zeros or an earlier lap.
var ErrJournal = errors.New("format: no valid journal bytes")

// JournalHeader is the first block of a journal file, big-endian:
//
//	offset size field
//	     0    4 magic MMJL
//	     4    1 format_version = 1
//	     5    3 zero
//	     8    8 file number
//	    16   16 cluster id
//	    32    8 first entry S; older files hold nothing that counts from S on
//	    40   16 hash of entry S-1
//	    56      zeros
//	  4092    4 CRC-32C of everything before
type JournalHeader struct {
	File      uint64
	ClusterID [16]byte
	First     op.Number
	PrevHash  op.Hash
}

// Put writes the header into b, JournalBlock bytes.
func (h *JournalHeader) Put(b []byte) {
	be := binary.BigEndian
	clear(b[:JournalBlock])
	copy(b, JournalMagic)
	b[4] = journalVersion
	be.PutUint64(b[8:], h.File)
	copy(b[16:], h.ClusterID[:])
	be.PutUint64(b[32:], uint64(h.First))
	copy(b[40:], h.PrevHash[:])
	be.PutUint32(b[JournalBlock-4:], crc32.Checksum(b[:JournalBlock-4], op.Castagnoli))
}

// DecodeJournalHeader reads a file's first block. A whole one of a
// version that this binary does not know gives a *VersionError.
func DecodeJournalHeader(b []byte) (h JournalHeader, err error) {
	be := binary.BigEndian
	if len(b) < JournalBlock || string(b[:4]) != JournalMagic ||
		crc32.Checksum(b[:JournalBlock-4], op.Castagnoli) != be.Uint32(b[JournalBlock-4:]) {
		return h, ErrJournal
	}
	if b[4] > journalVersion {
		return h, &VersionError{Magic: JournalMagic, Version: b[4], Known: journalVersion}
	}
	if b[4] == 0 || !zero(b[5:8]) || !zero(b[56:JournalBlock-4]) {
		return h, ErrJournal
	}
	h.File = be.Uint64(b[8:])
	copy(h.ClusterID[:], b[16:])
	h.First = op.Number(be.Uint64(b[32:]))
	copy(h.PrevHash[:], b[40:])
	if h.File == 0 || h.First == 0 {
		return h, ErrJournal
	}
	return h, nil
}

// JournalSeed is what the checksums inside the file begin with.
func JournalSeed(clusterID [16]byte, file uint64) uint32 {
	var b [24]byte
	copy(b[:], clusterID[:])
	binary.BigEndian.PutUint64(b[16:], file)
	return crc32.Checksum(b[:], op.Castagnoli)
}

// JournalWrite is the prefix of a write, op.WritePrefix bytes, big-endian:
//
//	offset size field
//	     0    4 magic MMJW
//	     4    4 CRC-32C of everything after this field, seeded
//	     8    8 file number
//	    16    8 mark: the last entry that was synced before this write
//	    24    8 number of the first entry in it; 0 for a mark alone
//	    32    4 bytes of the write, this prefix included, the padding not
//	    36    4 entries in it
//	    40   24 zero
type JournalWrite struct {
	File    uint64
	Mark    op.Number
	First   op.Number
	Bytes   uint32
	Entries uint32
}

// Put writes the prefix into b.
func (w *JournalWrite) Put(b []byte, seed uint32) {
	be := binary.BigEndian
	_ = b[op.WritePrefix-1]
	copy(b, JournalWriteMagic)
	be.PutUint64(b[8:], w.File)
	be.PutUint64(b[16:], uint64(w.Mark))
	be.PutUint64(b[24:], uint64(w.First))
	be.PutUint32(b[32:], w.Bytes)
	be.PutUint32(b[36:], w.Entries)
	clear(b[40:op.WritePrefix])
	be.PutUint32(b[4:], crc32.Update(seed, op.Castagnoli, b[8:op.WritePrefix]))
}

// DecodeJournalWrite reads the prefix of a write of the file with that seed.
func DecodeJournalWrite(b []byte, seed uint32) (w JournalWrite, err error) {
	be := binary.BigEndian
	if len(b) < op.WritePrefix || string(b[:4]) != JournalWriteMagic ||
		be.Uint32(b[4:]) != crc32.Update(seed, op.Castagnoli, b[8:op.WritePrefix]) || !zero(b[40:op.WritePrefix]) {
		return w, ErrJournal
	}
	w.File = be.Uint64(b[8:])
	w.Mark = op.Number(be.Uint64(b[16:]))
	w.First = op.Number(be.Uint64(b[24:]))
	w.Bytes = be.Uint32(b[32:])
	w.Entries = be.Uint32(b[36:])
	alone := w.Entries == 0
	if alone != (w.First == 0) || alone != (w.Bytes == op.WritePrefix) || w.Bytes < op.WritePrefix || !alone && w.Mark >= w.First ||
		uint64(w.Bytes) < op.WritePrefix+uint64(w.Entries)*(op.FramePrefix+op.HeaderSize) {
		return w, ErrJournal
	}
	return w, nil
}

// FrameOverhead is what a frame adds to its entry. A frame is an entry with its prefix of op.FramePrefix bytes before it,
// big-endian:
//
//	offset size field
//	     0    4 CRC-32C of length, zeros and entry header, seeded
//	     4    4 length of entry header and body
//	     8    8 zero
//	    16   64 entry header (node/op); it has the body's CRC
//	    80      body
const FrameOverhead = op.FramePrefix + op.HeaderSize

// PutFrame writes the prefix of the frame b, whose entry is in place.
func PutFrame(b []byte, seed uint32) {
	be := binary.BigEndian
	be.PutUint32(b[4:], uint32(len(b)-op.FramePrefix))
	clear(b[8:op.FramePrefix])
	be.PutUint32(b, crc32.Update(seed, op.Castagnoli, b[4:FrameOverhead]))
}

// DecodeFrame reads the prefix and the entry header at the front of b and gives
// the header and the length of the whole frame. The body is not looked at: see
// op.Header.CheckBody.
func DecodeFrame(b []byte, seed uint32) (h op.Header, size int, err error) {
	be := binary.BigEndian
	if len(b) < FrameOverhead || be.Uint32(b) != crc32.Update(seed, op.Castagnoli, b[4:FrameOverhead]) || !zero(b[8:op.FramePrefix]) {
		return h, 0, ErrJournal
	}
	n := be.Uint32(b[4:])
	h, err = op.DecodeHeader(b[op.FramePrefix:])
	if err != nil || h.BodyLen > EntryBytesMax || n != op.HeaderSize+h.BodyLen {
		return h, 0, ErrJournal
	}
	return h, op.FramePrefix + int(n), nil
}

// JournalName gives the path of the journal file with that number.
func JournalName(file uint64) string {
	s := strconv.FormatUint(file, 10)
	return "journal/" + "0000000000"[min(len(s), 10):] + s + ".mmjl"
}

// ParseJournalName reads a number back from a name in the directory journal.
func ParseJournalName(name string) (file uint64, ok bool) {
	if len(name) < 15 || name[len(name)-5:] != ".mmjl" {
		return 0, false
	}
	file, err := strconv.ParseUint(name[:len(name)-5], 10, 64)
	return file, err == nil && file > 0 && JournalName(file) == "journal/"+name
}

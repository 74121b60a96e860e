package format

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/mortarmq/mortarmq/node/op"
)

// Magic numbers of the two files of a checkpoint.
const (
	LogCheckpointMagic    = "MMQC"
	CursorCheckpointMagic = "MMCU"
	checkpointVersion     = 1
)

// CheckpointsDir is the directory of checkpoints.
const CheckpointsDir = "checkpoints"

// ErrCheckpoint is what the checkpoint decoders answer to bytes that are not
// what is looked for.
var ErrCheckpoint = errors.New("format: damaged checkpoint")

// CheckpointHeaderSize is the size of a checkpoint file's header in bytes.
const CheckpointHeaderSize = 128

// CheckpointHeader begins checkpoints/log-<op>.mqc and cursor-<op>.mqc. Blocks
// follow, the last of them of kind BlockEnd.
//
//	offset size field
//	     0    4 magic MMQC or MMCU
//	     4    1 format_version = 1
//	     5    3 zero
//	     8   16 cluster id
//	    24    8 op: everything up to it is in here, nothing above
//	    32    4 leader epoch of its entry
//	    36    4 zero
//	    40   16 hash of its entry
//	    56    8 log time of its entry, ms
//	    64   60 zero
//	   124    4 CRC-32C of everything before
type CheckpointHeader struct {
	ClusterID [16]byte
	Number    op.Number
	Epoch     op.Epoch
	Hash      op.Hash
	LogTime   op.LogMillis
}

// Put writes the header with that magic into b, CheckpointHeaderSize bytes.
func (h *CheckpointHeader) Put(b []byte, magic string) {
	be := binary.BigEndian
	b = b[:CheckpointHeaderSize]
	clear(b)
	copy(b, magic)
	b[4] = checkpointVersion
	copy(b[8:], h.ClusterID[:])
	be.PutUint64(b[24:], uint64(h.Number))
	be.PutUint32(b[32:], uint32(h.Epoch))
	copy(b[40:], h.Hash[:])
	be.PutUint64(b[56:], uint64(h.LogTime))
	be.PutUint32(b[124:], crc32.Checksum(b[:124], op.Castagnoli))
}

// DecodeCheckpointHeader reads the header of the file with that magic.
func DecodeCheckpointHeader(b []byte, magic string) (h CheckpointHeader, err error) {
	be := binary.BigEndian
	if len(b) < CheckpointHeaderSize || string(b[:4]) != magic || crc32.Checksum(b[:124], op.Castagnoli) != be.Uint32(b[124:]) {
		return h, ErrCheckpoint
	}
	if b[4] > checkpointVersion {
		return h, &VersionError{Magic: magic, Version: b[4], Known: checkpointVersion}
	}
	copy(h.ClusterID[:], b[8:])
	h.Number = op.Number(be.Uint64(b[24:]))
	h.Epoch = op.Epoch(be.Uint32(b[32:]))
	copy(h.Hash[:], b[40:])
	h.LogTime = op.LogMillis(be.Uint64(b[56:]))
	if b[4] == 0 || !zero(b[5:8]) || !zero(b[36:40]) || !zero(b[64:124]) || h.Number == 0 {
		return h, ErrCheckpoint
	}
	return h, nil
}

// Seed is what the checksums of the file's blocks begin with.
func (h *CheckpointHeader) Seed() uint32 { return JournalSeed(h.ClusterID, uint64(h.Number)) }

// BlockKind says what a block of a checkpoint holds.
type BlockKind uint8

// The kinds of block. Numbers are on disk: never reused.
const (
	BlockPiece     BlockKind = 1 // a piece of the state machine's encoding
	BlockPositions BlockKind = 2 // where partitions end: PositionSize bytes each
	BlockEnd       BlockKind = 3 // nothing; there is no block after it
	BlockHeld      BlockKind = 4 // records behind the position of a damaged partition: Held
)

// BlockBytesMax bounds the payload of a block.
const BlockBytesMax = 16 << 20

// BlockHeaderSize is the size of what stands before a block's payload in bytes.
const BlockHeaderSize = 16

// Block is a part of a checkpoint file:
//
//	offset size field
//	     0    4 length of the payload
//	     4    4 CRC-32C of length, and of everything after this field, seeded
//	     8    1 kind: 1 piece, 2 positions, 3 end, 4 held
//	     9    3 zero
//	    12    4 number of the block in the file, from 0
//	    16      payload
type Block struct {
	Kind    BlockKind
	Number  uint32
	Payload []byte
}

// Append appends the encoding of k to b.
func (k *Block) Append(b []byte, seed uint32) []byte {
	if len(k.Payload) > BlockBytesMax {
		panic("format: a checkpoint block beyond the limit")
	}
	be := binary.BigEndian
	start := len(b)
	b = be.AppendUint32(b, uint32(len(k.Payload)))
	b = append(b, 0, 0, 0, 0, byte(k.Kind), 0, 0, 0)
	b = be.AppendUint32(b, k.Number)
	b = append(b, k.Payload...)
	be.PutUint32(b[start+4:], blockSum(b[start:], seed))
	return b
}

func blockSum(b []byte, seed uint32) uint32 {
	return crc32.Update(crc32.Update(seed, op.Castagnoli, b[:4]), op.Castagnoli, b[8:])
}

// BlockSize gives the size of the block at the front of b, of which four bytes
// are needed, by its length field alone.
func BlockSize(b []byte) (int, error) {
	if len(b) < 4 {
		return 0, ErrCheckpoint
	}
	n := binary.BigEndian.Uint32(b)
	if n > BlockBytesMax {
		return 0, ErrCheckpoint
	}
	return BlockHeaderSize + int(n), nil
}

// DecodeBlock reads the block at the front of b and gives its size.
func DecodeBlock(b []byte, seed uint32) (k Block, size int, err error) {
	size, err = BlockSize(b)
	be := binary.BigEndian
	if err != nil || size > len(b) || blockSum(b[:size], seed) != be.Uint32(b[4:]) || !zero(b[9:12]) {
		return k, 0, ErrCheckpoint
	}
	k.Kind = BlockKind(b[8])
	k.Number = be.Uint32(b[12:])
	k.Payload = b[BlockHeaderSize:size:size]
	if k.Kind < BlockPiece || k.Kind > BlockHeld || k.Kind == BlockHeld && len(k.Payload) <= HeldHeaderSize || k.Kind == BlockEnd && len(k.Payload) > 0 || k.Kind == BlockPositions && len(k.Payload)%PositionSize != 0 {
		return k, 0, ErrCheckpoint
	}
	return k, size, nil
}

// PositionSize is the size of a position in bytes.
const PositionSize = 32

// Position is where a partition ends as of the checkpoint's op:
//
//	offset size field
//	     0    2 topic id
//	     2    2 partition
//	     4    4 zero
//	     8    8 last sequence, 0 for none
//	    16    8 base sequence of the active segment
//	    24    8 offset in it where the next record goes
type Position struct {
	Topic     op.TopicID
	Partition op.PartitionID
	Last      op.Sequence
	Base      op.Sequence
	Offset    int64
}

// Append appends the encoding of p to b.
func (p *Position) Append(b []byte) []byte {
	be := binary.BigEndian
	b = be.AppendUint16(b, uint16(p.Topic))
	b = be.AppendUint16(b, uint16(p.Partition))
	b = append(b, 0, 0, 0, 0)
	b = be.AppendUint64(b, uint64(p.Last))
	b = be.AppendUint64(b, uint64(p.Base))
	return be.AppendUint64(b, uint64(p.Offset))
}

// DecodePosition reads the position at the front of b.
func DecodePosition(b []byte) (p Position, err error) {
	be := binary.BigEndian
	if len(b) < PositionSize || !zero(b[4:8]) {
		return p, ErrCheckpoint
	}
	p.Topic = op.TopicID(be.Uint16(b))
	p.Partition = op.PartitionID(be.Uint16(b[2:]))
	p.Last = op.Sequence(be.Uint64(b[8:]))
	p.Base = op.Sequence(be.Uint64(b[16:]))
	p.Offset = int64(be.Uint64(b[24:]))
	if p.Offset < 0 || p.Base > p.Last || (p.Last == 0) != (p.Base == 0) || (p.Last == 0) != (p.Offset == 0) {
		return p, ErrCheckpoint
	}
	return p, nil
}

// HeldHeaderSize is what stands before the records in a block of held ones.
const HeldHeaderSize = 4

// Held is a part of what a damaged partition holds: records behind its position,
// in order, as they lie in a segment. A record may go on in the next block of the
// partition.
//
//	offset size field
//	     0    2 topic id
//	     2    2 partition
//	     4      records
type Held struct {
	Topic     op.TopicID
	Partition op.PartitionID
	Records   []byte
}

// Append appends the encoding of h to b.
func (h *Held) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(h.Topic))
	b = binary.BigEndian.AppendUint16(b, uint16(h.Partition))
	return append(b, h.Records...)
}

// DecodeHeld reads the payload of a block of held records.
func DecodeHeld(b []byte) (h Held, err error) {
	if len(b) <= HeldHeaderSize {
		return h, ErrCheckpoint
	}
	h.Topic = op.TopicID(binary.BigEndian.Uint16(b))
	h.Partition = op.PartitionID(binary.BigEndian.Uint16(b[2:]))
	h.Records = b[HeldHeaderSize:]
	return h, nil
}

// LogCheckpointName gives the path of the log checkpoint at an op,
// CursorCheckpointName that of the ledger checkpoint.
func LogCheckpointName(number op.Number) string { return checkpointName("log-", number) }

// CursorCheckpointName gives the path of the ledger checkpoint at an op.
func CursorCheckpointName(number op.Number) string { return checkpointName("cursor-", number) }

func checkpointName(prefix string, number op.Number) string {
	return CheckpointsDir + "/" + prefix + strconv.FormatUint(uint64(number), 10) + ".mqc"
}

// ParseCheckpointName undoes both for a name in the directory.
func ParseCheckpointName(name string) (number op.Number, cursor, ok bool) {
	rest, ok := strings.CutSuffix(name, ".mqc")
	if !ok {
		return 0, false, false
	}
	digits, cursor := strings.CutPrefix(rest, "cursor-")
	if !cursor {
		if digits, ok = strings.CutPrefix(rest, "log-"); !ok {
			return 0, false, false
		}
	}
	if digits == "" {
		return 0, false, false
	}
	n, ok := ParseNumber(digits)
	return op.Number(n), cursor, ok
}

package format

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/mortarmq/mortarmq/node/op"
)

// Superblock is a node's identity, its votes and what its checkpoint is.
//
// The file superblock.mmsb is two slots of SuperblockSlotSize bytes. A slot,
// big-endian:
//
//	offset size field
//	     0    4 magic MMSB
//	     4    1 format_version = 1
//	     5    1 slot number, 0 or 1
//	     6    2 node id
//	     8    8 version counter: one more with each change
//	    16   16 cluster id
//	    32    4 promised leader epoch
//	    36    4 installed leader epoch
//	    40    8 op that it was installed at
//	    48   16 hash of that op's entry
//	    64    8 checkpoint: op, 0 for none
//	    72    4 checkpoint: leader epoch of its entry
//	    76    4 epoch in the metadata snapshot's name
//	    80   16 checkpoint: hash of its entry
//	    96    8 checkpoint: log time of its entry, ms
//	   104    8 metadata log: records up to the checkpoint
//	   112    8 metadata snapshot: records it stands for, 0 for no snapshot
//	   120    8 first journal file that is needed
//	   128    8 newest journal file whose header is synced, 0 for none
//	   136      zeros
//	  4092    4 CRC-32C of everything before
type Superblock struct {
	NodeID    uint16
	Version   uint64
	ClusterID [16]byte

	Promised      op.Epoch
	Installed     op.Epoch
	InstalledOp   op.Number
	InstalledHash op.Hash

	CheckpointOp    op.Number
	CheckpointEpoch op.Epoch
	CheckpointHash  op.Hash
	CheckpointTime  op.LogMillis

	MetadataRecords uint64
	SnapshotRecords uint64
	SnapshotEpoch   op.Epoch

	// JournalCurrent may be below JournalFirst: nothing is written to that yet.
	JournalFirst   uint64
	JournalCurrent uint64
}

// Of the superblock's file.
const (
	SuperblockSlotSize = 4096
	SuperblockSize     = 2 * SuperblockSlotSize
	superblockEnd      = 136
	superblockVersion  = 1
)

// SuperblockMagic begins each slot.
const SuperblockMagic = "MMSB"

// ErrSuperblock is what DecodeSuperblock answers to bytes that are no slot.
var ErrSuperblock = errors.New("format: damaged superblock slot")

// Put writes s as the given slot into b, SuperblockSlotSize bytes.
func (s *Superblock) Put(b []byte, slot uint8) {
	be := binary.BigEndian
	clear(b[:SuperblockSlotSize])
	copy(b, SuperblockMagic)
	b[4], b[5] = superblockVersion, slot
	be.PutUint16(b[6:], s.NodeID)
	be.PutUint64(b[8:], s.Version)
	copy(b[16:], s.ClusterID[:])
	be.PutUint32(b[32:], uint32(s.Promised))
	be.PutUint32(b[36:], uint32(s.Installed))
	be.PutUint64(b[40:], uint64(s.InstalledOp))
	copy(b[48:], s.InstalledHash[:])
	be.PutUint64(b[64:], uint64(s.CheckpointOp))
	be.PutUint32(b[72:], uint32(s.CheckpointEpoch))
	be.PutUint32(b[76:], uint32(s.SnapshotEpoch))
	copy(b[80:], s.CheckpointHash[:])
	be.PutUint64(b[96:], uint64(s.CheckpointTime))
	be.PutUint64(b[104:], s.MetadataRecords)
	be.PutUint64(b[112:], s.SnapshotRecords)
	be.PutUint64(b[120:], s.JournalFirst)
	be.PutUint64(b[128:], s.JournalCurrent)
	be.PutUint32(b[SuperblockSlotSize-4:], crc32.Checksum(b[:SuperblockSlotSize-4], op.Castagnoli))
}

// DecodeSuperblock reads the given slot from b. A whole slot of a format that
// this binary does not know gives a *VersionError.
func DecodeSuperblock(b []byte, slot uint8) (s Superblock, err error) {
	be := binary.BigEndian
	if len(b) != SuperblockSlotSize || string(b[:4]) != SuperblockMagic ||
		crc32.Checksum(b[:SuperblockSlotSize-4], op.Castagnoli) != be.Uint32(b[SuperblockSlotSize-4:]) {
		return s, ErrSuperblock
	}
	if b[4] > superblockVersion {
		return s, &VersionError{Magic: SuperblockMagic, Version: b[4], Known: superblockVersion}
	}
	if b[4] == 0 || b[5] != slot || !zero(b[superblockEnd:SuperblockSlotSize-4]) {
		return s, ErrSuperblock
	}
	s.NodeID = be.Uint16(b[6:])
	s.Version = be.Uint64(b[8:])
	copy(s.ClusterID[:], b[16:])
	s.Promised = op.Epoch(be.Uint32(b[32:]))
	s.Installed = op.Epoch(be.Uint32(b[36:]))
	s.InstalledOp = op.Number(be.Uint64(b[40:]))
	copy(s.InstalledHash[:], b[48:])
	s.CheckpointOp = op.Number(be.Uint64(b[64:]))
	s.CheckpointEpoch = op.Epoch(be.Uint32(b[72:]))
	s.SnapshotEpoch = op.Epoch(be.Uint32(b[76:]))
	copy(s.CheckpointHash[:], b[80:])
	s.CheckpointTime = op.LogMillis(be.Uint64(b[96:]))
	s.MetadataRecords = be.Uint64(b[104:])
	s.SnapshotRecords = be.Uint64(b[112:])
	s.JournalFirst = be.Uint64(b[120:])
	s.JournalCurrent = be.Uint64(b[128:])
	if s.Installed > s.Promised || s.SnapshotRecords > s.MetadataRecords || s.JournalFirst == 0 {
		return s, ErrSuperblock
	}
	return s, nil
}

// zero says whether b holds nothing but zeros.
func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

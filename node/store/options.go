package store

import (
	"errors"
	"fmt"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
)

// Options are a store's properties. The zero value works for everything but
// NodeID.
type Options struct {
	// NodeID is this node's number; a directory of another node is refused.
	NodeID uint16
	// ClusterID, when it is not zero, is the only cluster whose files are taken.
	ClusterID [16]byte

	// JournalFileBytes is the size of a journal file. Default 64 MiB.
	JournalFileBytes int64
	// JournalCapBytes is the size of the journal beyond which JournalFull says
	// so (PUB gets BACKPRESSURE). Default 1 GiB.
	JournalCapBytes int64
	// CheckpointBytes is how much journal makes a checkpoint due. Default 256 MiB.
	CheckpointBytes int64
	// CheckpointEvery is how long after the first append since the last
	// checkpoint the next one is due. Default 30 s.
	CheckpointEvery clock.Duration
	// SegmentMaxBytes is the size of a segment. Default 64 MiB.
	SegmentMaxBytes int64
	// TailBytesMax and ReadCacheBytes bound the memory of segments: what was
	// written and is kept for tailing consumers, and what was read. Defaults
	// 64 MiB each.
	TailBytesMax   int64
	ReadCacheBytes int64
	// ScrubBytesPerSecond bounds the verification of sealed segments. Default
	// 4 MiB; none when it is negative.
	ScrubBytesPerSecond int64
	// MetadataSnapshotRecords and MetadataSnapshotBytes are how much metadata log
	// makes a snapshot due. Defaults 8192 and 64 MiB.
	MetadataSnapshotRecords int
	MetadataSnapshotBytes   int64

	// ReservePercent of the file system and ReserveBytes: the smaller of the two
	// is the free space below which the disk counts as low. Defaults 10 and
	// 10 GiB; where one is set the other is not there unless it is, too, and a
	// negative value takes that bound out.
	ReservePercent int
	ReserveBytes   int64
	// SpaceEvery is how often free space is asked for. Default 1 s.
	SpaceEvery clock.Duration

	// IdleMarkAfter is how long after the last flush an idle journal writes one
	// more mark. Default 50 ms.
	IdleMarkAfter clock.Duration
	// RetryEvery is how soon what a full disk refused is tried again. Default 1 s.
	RetryEvery clock.Duration
	// ReadChunkBytes is how much recovery reads at once, a multiple of 4096.
	// Default 256 KiB.
	ReadChunkBytes int
	// PieceBytes is how much of a checkpoint or of the metadata log is written
	// at once. Default 256 KiB.
	PieceBytes int
}

// withDefaults fills in what is zero.
func (o Options) withDefaults() Options {
	setDefault(&o.JournalFileBytes, format.JournalFileBytes)
	setDefault(&o.JournalCapBytes, 1<<30)
	setDefault(&o.CheckpointBytes, 256<<20)
	setDefault(&o.CheckpointEvery, 30*clock.Second)
	setDefault(&o.SegmentMaxBytes, 64<<20)
	setDefault(&o.MetadataSnapshotRecords, 8192)
	setDefault(&o.MetadataSnapshotBytes, 64<<20)
	percent, bytes := -1, int64(-1)
	if o.ReservePercent == 0 && o.ReserveBytes == 0 {
		percent, bytes = 10, 10<<30
	}
	setDefault(&o.ReservePercent, percent)
	setDefault(&o.ReserveBytes, bytes)
	setDefault(&o.SpaceEvery, clock.Second)
	setDefault(&o.IdleMarkAfter, 50*clock.Millisecond)
	setDefault(&o.RetryEvery, clock.Second)
	setDefault(&o.ReadChunkBytes, 256<<10)
	setDefault(&o.PieceBytes, 256<<10)
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate names the first option that cannot work.
func (o Options) Validate() error {
	o = o.withDefaults()
	switch {
	case o.NodeID == 0:
		return errors.New("store: NodeID must not be 0")
	case o.JournalFileBytes < 4*disk.Alignment || o.JournalFileBytes%disk.Alignment != 0:
		return fmt.Errorf("store: JournalFileBytes %d must be a multiple of %d and at least four of them", o.JournalFileBytes, disk.Alignment)
	case o.JournalCapBytes < 2*o.JournalFileBytes:
		return fmt.Errorf("store: JournalCapBytes %d is below two journal files of %d", o.JournalCapBytes, o.JournalFileBytes)
	case o.ReadChunkBytes < disk.Alignment || o.ReadChunkBytes%disk.Alignment != 0:
		return fmt.Errorf("store: ReadChunkBytes %d must be a multiple of %d", o.ReadChunkBytes, disk.Alignment)
	case o.CheckpointBytes < 0 || o.CheckpointEvery < 0 || o.SegmentMaxBytes < 4096 || o.MetadataSnapshotRecords < 0 || o.MetadataSnapshotBytes < 0:
		return errors.New("store: a size or time is negative or too small")
	case o.ReservePercent > 100:
		return fmt.Errorf("store: ReservePercent %d is above 100", o.ReservePercent)
	case o.SpaceEvery <= 0 || o.IdleMarkAfter <= 0 || o.RetryEvery <= 0 || o.PieceBytes < 512:
		return errors.New("store: a period is not positive or PieceBytes is below 512")
	}
	return nil
}

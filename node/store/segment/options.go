package segment

import (
	"errors"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/format"
)

// Options of a Set. The zero value works.
type Options struct {
	// SegmentMaxBytes is where a segment ends; 64 MiB by default, at most 2 GiB.
	// One record larger than that has a segment of its own.
	SegmentMaxBytes int64
	// TailBytesMax bounds the memory of what was written and is kept for tailing
	// consumers, of all partitions together; 64 MiB by default.
	TailBytesMax int64
	// ReadCacheBytes bounds the memory of what was read from segments; 64 MiB by
	// default.
	ReadCacheBytes int64
	// ReadChunk is how much one read of a segment asks for in bytes; 256 KiB by
	// default, at least 8 KiB.
	ReadChunk int
	// Linger is how long an appended record waits for others before it is
	// written; 1 s by default.
	Linger clock.Duration
	// HandlesMax bounds the files that are open at once, but for those in use;
	// 512 by default.
	HandlesMax int
	// ScrubBytesPerSecond bounds the verification of sealed segments; 4 MiB by
	// default, none when it is negative.
	ScrubBytesPerSecond int64
	// ScrubPause is the time between two rounds of verification; 10 min by
	// default.
	ScrubPause clock.Duration
	// Owner marks the tags of this set's requests.
	Owner uint8
	// ClusterID goes into the headers of segments, and is checked there.
	ClusterID [16]byte
}

const (
	defaultSegmentMaxBytes = 64 << 20
	segmentMaxBytesMax     = 2 << 30
	readChunkMin           = 8 << 10
)

// withDefaults gives o with every zero replaced.
func (o Options) withDefaults() Options {
	if o.SegmentMaxBytes == 0 {
		o.SegmentMaxBytes = defaultSegmentMaxBytes
	}
	if o.TailBytesMax == 0 {
		o.TailBytesMax = 64 << 20
	}
	if o.ReadCacheBytes == 0 {
		o.ReadCacheBytes = 64 << 20
	}
	if o.ReadChunk == 0 {
		o.ReadChunk = 256 << 10
	}
	if o.Linger == 0 {
		o.Linger = clock.Second
	}
	if o.HandlesMax == 0 {
		o.HandlesMax = 512
	}
	if o.ScrubBytesPerSecond == 0 {
		o.ScrubBytesPerSecond = 4 << 20
	}
	if o.ScrubPause == 0 {
		o.ScrubPause = 10 * clock.Minute
	}
	return o
}

// Validate says what is wrong with o.
func (o Options) Validate() error {
	o = o.withDefaults()
	switch {
	case o.SegmentMaxBytes < format.SegmentHeaderSize+format.RecordHeaderSize || o.SegmentMaxBytes > segmentMaxBytesMax:
		return errors.New("segment: SegmentMaxBytes out of range")
	case o.ReadChunk < readChunkMin || o.ReadChunk > format.RecordBytesMax:
		return errors.New("segment: ReadChunk out of range")
	case o.TailBytesMax < 0 || o.ReadCacheBytes < 0 || o.HandlesMax < 0 || o.Linger < 0 || o.ScrubPause < 0:
		return errors.New("segment: a negative option")
	}
	return nil
}

package msgtrans

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

const (
	// zstdWindowBytes bounds how far back our encoder refers, and so its memory.
	zstdWindowBytes = 1 << 20
	// zstdPeerWindowBytes is the window that any peer may use, however low the
	// limit on the payload: RFC 8878 asks decoders to support 8 MiB. The window
	// alone costs nothing, as the output is the window.
	zstdPeerWindowBytes = 8 << 20
	// zstdGrowth is how much larger each attempt is than the one before, where the frame
	// does not state its size.
	zstdGrowth           = 4
	zstdBlockHeaderBytes = 3
	// zstdBlockBytes is the most that one zstd block decodes to, and
	// zstdBlockWireBytes the least that it takes.
	zstdBlockBytes     = 128 << 10
	zstdBlockWireBytes = 4
	// zstdSlackBytes is a block and what the library wants to have behind it.
	zstdSlackBytes = zstdBlockBytes + 64
	// zstdScratchBytes is what a codec keeps to decode short payloads in.
	zstdScratchBytes = 2 * zstdBlockBytes
	// inflateStepBytes is the least room that is made for output.
	inflateStepBytes = 4 << 10
)

// Codec compresses and decompresses payloads. Its parts are built when they are
// first needed. It is not safe for concurrent use; it may be used for any
// number of connections.
type Codec struct {
	payloadBytesMax int
	zstdEnc         *zstd.Encoder
	zstdDec         *zstd.Decoder
	zlibEnc         *zlib.Writer
	zlibDec         io.ReadCloser
	source          bytes.Reader
	sink            sliceWriter
	scratch         []byte // zstd's output before it is copied out
}

// NewCodec returns a codec that decompresses to at most payloadBytesMax bytes,
// [DefaultPayloadBytes] if that is 0, and never more than [PayloadBytesCeiling].
func NewCodec(payloadBytesMax int) *Codec {
	if payloadBytesMax <= 0 {
		payloadBytesMax = DefaultPayloadBytes
	}
	return &Codec{payloadBytesMax: min(payloadBytesMax, PayloadBytesCeiling)}
}

// Compress appends the compressed form of payload to dst. [None] appends it as
// it is.
func (c *Codec) Compress(dst, payload []byte, with Compression) ([]byte, error) {
	switch with {
	case None:
		return append(dst, payload...), nil
	case Zstd:
		return c.compressZstd(dst, payload)
	case Zlib:
		return c.compressZlib(dst, payload)
	}
	return dst, fmt.Errorf("%w: %d", ErrCompression, with)
}

func (c *Codec) compressZstd(dst, payload []byte) ([]byte, error) {
	if c.zstdEnc == nil {
		enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithZeroFrames(true),
			zstd.WithWindowSize(zstdWindowBytes), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return dst, fmt.Errorf("msgtrans: zstd: %w", err)
		}
		c.zstdEnc = enc
	}
	return c.zstdEnc.EncodeAll(payload, dst), nil
}

func (c *Codec) compressZlib(dst, payload []byte) ([]byte, error) {
	c.sink.b = dst
	defer func() { c.sink.b = nil }()
	if c.zlibEnc == nil {
		c.zlibEnc = zlib.NewWriter(&c.sink)
	} else {
		c.zlibEnc.Reset(&c.sink)
	}
	if _, err := c.zlibEnc.Write(payload); err != nil {
		return dst, fmt.Errorf("msgtrans: zlib: %w", err)
	}
	if err := c.zlibEnc.Close(); err != nil {
		return dst, fmt.Errorf("msgtrans: zlib: %w", err)
	}
	return c.sink.b, nil
}

// Decompress appends the decompressed form of payload to dst and returns the
// extended slice. It fails with [ErrPayloadTooLong] before it has produced more
// than the limit (invariant 4), with [ErrCorrupt] on anything else. An empty
// payload is no section at all (section 7) and so stays empty.
func (c *Codec) Decompress(dst, payload []byte, with Compression) ([]byte, error) {
	if len(payload) == 0 {
		return dst, nil
	}
	switch with {
	case None:
		if len(payload) > c.payloadBytesMax {
			return dst, c.tooLong(int64(len(payload)))
		}
		return append(dst, payload...), nil
	case Zstd:
		return c.decompressZstd(dst, payload)
	case Zlib:
		return c.decompressZlib(dst, payload)
	}
	return dst, fmt.Errorf("%w: %d", ErrCompression, with)
}

func (c *Codec) tooLong(n int64) error {
	return fmt.Errorf("%w: at least %d bytes, at most %d", ErrPayloadTooLong, n, c.payloadBytesMax)
}

// decompressZstd decodes into a buffer whose capacity stops the library. There
// is room for one block more than an attempt may yield, so that a block which
// crosses that line still decodes: an error behind the line is an excess, one
// before it is damage. The first attempt has the size that the frame states, if
// it states one that its input can hold.
func (c *Codec) decompressZstd(dst, payload []byte) ([]byte, error) {
	if c.zstdDec == nil {
		dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true),
			zstd.WithDecoderMaxMemory(uint64(max(c.payloadBytesMax+zstdBlockBytes, zstdPeerWindowBytes))))
		if err != nil {
			return dst, fmt.Errorf("msgtrans: zstd: %w", err)
		}
		c.zstdDec = dec
	}
	room, err := c.zstdRoom(payload)
	if err != nil {
		return dst, err
	}
	at := len(dst)
	for room = min(max(room, inflateStepBytes), c.payloadBytesMax); ; room = min(zstdGrowth*room, c.payloadBytesMax) {
		// A short result is copied out of the scratch, or it would keep the slack alive.
		var attempt []byte
		short := room+zstdSlackBytes <= zstdScratchBytes
		if short {
			if c.scratch == nil {
				c.scratch = make([]byte, 0, zstdScratchBytes)
			}
			attempt = c.scratch[: 0 : room+zstdSlackBytes]
		} else {
			attempt = append(make([]byte, 0, at+room+zstdSlackBytes), dst...)
		}
		before := len(attempt)
		out, err := c.zstdDec.DecodeAll(payload, attempt)
		made := len(out) - before
		over := made > room || errors.Is(err, zstd.ErrDecoderSizeExceeded)
		switch {
		case err == nil && made <= c.payloadBytesMax && short:
			return append(dst, out...), nil
		case err == nil && made <= c.payloadBytesMax:
			return out, nil
		case over && room == c.payloadBytesMax:
			return dst, c.tooLong(int64(room) + 1)
		case over:
		case errors.Is(err, zstd.ErrWindowSizeExceeded):
			return dst, fmt.Errorf("%w: zstd window over %d bytes", ErrPayloadTooLong, max(c.payloadBytesMax, zstdPeerWindowBytes))
		default:
			return dst, fmt.Errorf("%w: zstd: %w", ErrCorrupt, err)
		}
	}
}

// zstdRoom returns what to decode payload into at first. It fails if that is over the
// limit for certain.
func (c *Codec) zstdRoom(payload []byte) (int, error) {
	var h zstd.Header
	if h.Decode(payload) != nil || h.Skippable {
		return 0, nil // the decoder says what is wrong
	}
	if h.HasFCS {
		if h.FrameContentSize > uint64(c.payloadBytesMax) {
			return 0, c.tooLong(int64(min(h.FrameContentSize, 1<<62)))
		}
		// What is claimed is believed as far as the input could hold it.
		return min(int(h.FrameContentSize), (len(payload)/zstdBlockWireBytes+1)*zstdBlockBytes), nil
	}
	// Without a claim the blocks tell: those that are not compressed, which bombs are
	// made of, state their length (RFC 8878, section 3.1.1.2).
	least := int64(0)
	for b := payload[h.HeaderSize:]; len(b) >= zstdBlockHeaderBytes; {
		head := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
		size := head >> 3
		wire := size
		switch head >> 1 & 3 {
		case 0: // raw
			least += int64(size)
		case 1: // one byte, repeated
			least += int64(size)
			wire = 1
		}
		if least > int64(c.payloadBytesMax) {
			return 0, c.tooLong(least)
		}
		if head&1 != 0 || len(b) < zstdBlockHeaderBytes+wire { // the last one, or the input ends
			break
		}
		b = b[zstdBlockHeaderBytes+wire:]
	}
	return max(4*len(payload), int(least)), nil
}

// decompressZlib reads step by step, each as long as all before it. Bytes after
// the end of the stream are refused: nobody has put them there for a reason.
func (c *Codec) decompressZlib(dst, payload []byte) ([]byte, error) {
	c.source.Reset(payload)
	defer c.source.Reset(nil)
	if c.zlibDec == nil {
		dec, err := zlib.NewReader(&c.source)
		if err != nil {
			return dst, fmt.Errorf("%w: zlib: %w", ErrCorrupt, err)
		}
		c.zlibDec = dec
	} else if err := c.zlibDec.(zlib.Resetter).Reset(&c.source, nil); err != nil {
		return dst, fmt.Errorf("%w: zlib: %w", ErrCorrupt, err)
	}
	at, out := len(dst), dst
	for {
		made := len(out) - at
		if len(out) == cap(out) && made < c.payloadBytesMax {
			grown := make([]byte, len(out), at+min(max(2*made, 4*len(payload), inflateStepBytes), c.payloadBytesMax))
			copy(grown, out)
			out = grown
		}
		// One byte over the limit is asked for, to tell the end from an excess.
		var over [1]byte
		into := out[len(out):min(cap(out), at+c.payloadBytesMax)]
		if len(into) == 0 {
			into = over[:]
		}
		n, err := c.zlibDec.Read(into)
		if n > 0 && made+n > c.payloadBytesMax {
			return dst, c.tooLong(int64(made + n))
		}
		out = out[:len(out)+n]
		if err == io.EOF {
			if c.source.Len() > 0 {
				return dst, fmt.Errorf("%w: %d bytes after the end of the zlib stream", ErrCorrupt, c.source.Len())
			}
			return out, nil
		}
		if err != nil {
			return dst, fmt.Errorf("%w: zlib: %w", ErrCorrupt, err)
		}
	}
}

// sliceWriter appends what is written to b.
type sliceWriter struct{ b []byte }

func (w *sliceWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

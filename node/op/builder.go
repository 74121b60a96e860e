package op

import (
	"hash/crc32"
	"unsafe"
)

// Layout of a Builder's buffer. Both prefixes are left for the journal's own
// framing, so that a batch is written from the very bytes that the ops were
// encoded into.
//
//	WritePrefix | (FramePrefix | header | body) x entries
const (
	WritePrefix = 64
	FramePrefix = 16
)

// pageSize is what direct writes are aligned to.
const pageSize = 4096

// builderKeep is the capacity in bytes that a Builder keeps over Reset.
const builderKeep = 4 << 20

// Span is where an entry lies in the buffer: Start at its frame prefix.
type Span struct{ Start, End int }

// Builder collects ops into entries in one page-aligned buffer.
//
// Invariants:
//
//  1. Every span but the last is closed: its body is complete. All are closed
//     after Seal.
//  2. A body holds one op, or several with at most BatchBytesMax bytes in all.
//  3. The buffer's capacity is a multiple of the page size and its first byte
//     is page-aligned.
type Builder struct {
	buf    []byte
	spans  []Span
	counts []uint32
	sealed bool
}

// Add encodes o as the next op. It copies everything that o borrows.
func (b *Builder) Add(o *Op) {
	if b.sealed {
		panic("op: Add to a sealed builder")
	}
	n := o.Size()
	if len(b.buf) == 0 {
		b.grow(WritePrefix)
		b.buf = b.buf[:WritePrefix]
	}
	last := len(b.spans) - 1
	if last < 0 || len(b.buf)-b.spans[last].Start-FramePrefix-HeaderSize+n > BatchBytesMax {
		b.grow(FramePrefix + HeaderSize)
		start := len(b.buf)
		b.buf = b.buf[:start+FramePrefix+HeaderSize]
		b.spans = append(b.spans, Span{Start: start})
		b.counts = append(b.counts, 0)
		last++
	}
	b.grow(n)
	b.buf = o.Append(b.buf)
	b.counts[last]++
	b.spans[last].End = len(b.buf)
}

// AddRaw appends a whole entry as another builder, or a peer, made it. The
// entry's header is kept; Seal must not follow.
func (b *Builder) AddRaw(e *Entry) {
	if len(b.buf) == 0 {
		b.grow(WritePrefix)
		b.buf = b.buf[:WritePrefix]
	}
	n := FramePrefix + HeaderSize + len(e.Body)
	b.grow(n)
	start := len(b.buf)
	b.buf = b.buf[:start+FramePrefix]
	b.buf = append(append(b.buf, e.Raw[:HeaderSize]...), e.Body...)
	b.spans = append(b.spans, Span{start, len(b.buf)})
	b.counts = append(b.counts, e.Header.Ops)
	b.sealed = true
}

// grow makes room for n more bytes.
func (b *Builder) grow(n int) {
	need := len(b.buf) + n
	if need <= cap(b.buf) {
		return
	}
	size := max(need, 2*cap(b.buf), 16*pageSize)
	size = (size + pageSize - 1) / pageSize * pageSize
	raw := make([]byte, size+pageSize)
	off := int(-uintptr(unsafe.Pointer(unsafe.SliceData(raw))) & (pageSize - 1))
	b.buf = append(raw[off:off:off+size], b.buf...)
}

// Seal writes the headers of all entries, the first one numbered as first says
// and chained to first.PrevHash; Epoch, Commit and LogTime are taken from first
// for all of them. It returns the last entry's number and hash.
func (b *Builder) Seal(first Header) (Number, Hash) {
	if b.sealed || len(b.spans) == 0 {
		panic("op: Seal of an empty or sealed builder")
	}
	b.sealed = true
	h := first
	for i, s := range b.spans {
		body := b.buf[s.Start+FramePrefix+HeaderSize : s.End]
		h.Ops = b.counts[i]
		h.BodyLen = uint32(len(body))
		h.BodyCRC = crc32.Checksum(body, Castagnoli)
		raw := b.buf[s.Start+FramePrefix : s.Start+FramePrefix+HeaderSize]
		h.Put(raw)
		h.PrevHash = HashHeader(raw)
		h.Number++
	}
	return h.Number - 1, h.PrevHash
}

// Empty says whether no op was added since Reset.
func (b *Builder) Empty() bool { return len(b.spans) == 0 }

// Len gives the bytes in use, the write prefix included.
func (b *Builder) Len() int { return len(b.buf) }

// Spans gives where the entries lie; borrowed until the next Add or Reset.
func (b *Builder) Spans() []Span { return b.spans }

// Bytes gives the buffer in use, for the journal to frame; see Padded.
func (b *Builder) Bytes() []byte { return b.buf }

// Padded zero-fills the buffer up to a page boundary and gives it whole.
func (b *Builder) Padded() []byte {
	n := (len(b.buf) + pageSize - 1) / pageSize * pageSize
	clear(b.buf[len(b.buf):n])
	return b.buf[:n]
}

// Entry gives the entry i of a sealed builder, borrowed until Reset.
func (b *Builder) Entry(i int) Entry {
	s := b.spans[i]
	raw := b.buf[s.Start+FramePrefix : s.Start+FramePrefix+HeaderSize]
	h, err := DecodeHeader(raw)
	if err != nil {
		panic("op: an entry of a builder does not decode")
	}
	return Entry{Header: h, Raw: raw, Body: b.buf[s.Start+FramePrefix+HeaderSize : s.End]}
}

// Entries gives how many entries there are.
func (b *Builder) Entries() int { return len(b.spans) }

// Reset empties the builder and keeps its memory, unless it grew large.
func (b *Builder) Reset() {
	if cap(b.buf) > builderKeep {
		b.buf = nil
	}
	b.buf, b.spans, b.counts, b.sealed = b.buf[:0], b.spans[:0], b.counts[:0], false
}

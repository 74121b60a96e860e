package op

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// HeaderSize is the size of an entry's header in bytes.
//
//	offset size field
//	     0    8 op number
//	     8    4 leader epoch that first wrote it
//	    12    4 ops in the body
//	    16   16 hash of the entry before it
//	    32    8 the leader's commit when it was written
//	    40    8 log time, ms
//	    48    4 body length
//	    52    4 CRC-32C of the body
//	    56    8 zero
const HeaderSize = 64

// BatchBytesMax bounds the body of an entry that holds more than one op.
const BatchBytesMax = 1 << 20

// Header is an entry's header, decoded.
type Header struct {
	Number   Number
	Epoch    Epoch
	Ops      uint32
	PrevHash Hash
	Commit   Number
	LogTime  LogMillis
	BodyLen  uint32
	BodyCRC  uint32
}

// Castagnoli is the CRC-32C table that every checksum of the project uses.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrEntry is what DecodeHeader answers to bytes that are no entry header.
var ErrEntry = errors.New("op: malformed entry")

// Put writes the header into b, which holds at least HeaderSize bytes.
func (h *Header) Put(b []byte) {
	be := binary.BigEndian
	_ = b[HeaderSize-1]
	be.PutUint64(b, uint64(h.Number))
	be.PutUint32(b[8:], uint32(h.Epoch))
	be.PutUint32(b[12:], h.Ops)
	copy(b[16:32], h.PrevHash[:])
	be.PutUint64(b[32:], uint64(h.Commit))
	be.PutUint64(b[40:], uint64(h.LogTime))
	be.PutUint32(b[48:], h.BodyLen)
	be.PutUint32(b[52:], h.BodyCRC)
	be.PutUint64(b[56:], 0)
}

// DecodeHeader reads a header and checks what a header alone can tell.
func DecodeHeader(b []byte) (h Header, err error) {
	if len(b) < HeaderSize {
		return h, ErrEntry
	}
	be := binary.BigEndian
	h.Number = Number(be.Uint64(b))
	h.Epoch = Epoch(be.Uint32(b[8:]))
	h.Ops = be.Uint32(b[12:])
	copy(h.PrevHash[:], b[16:32])
	h.Commit = Number(be.Uint64(b[32:]))
	h.LogTime = LogMillis(be.Uint64(b[40:]))
	h.BodyLen = be.Uint32(b[48:])
	h.BodyCRC = be.Uint32(b[52:])
	if h.Number == 0 || h.Epoch == 0 || h.Epoch > EpochMax || h.Ops == 0 || h.Commit >= h.Number || be.Uint64(b[56:]) != 0 {
		return h, ErrEntry
	}
	return h, nil
}

// HashHeader gives the hash of the entry whose encoded header is b.
func HashHeader(b []byte) (h Hash) {
	sum := sha256.Sum256(b[:HeaderSize])
	copy(h[:], sum[:])
	return h
}

// Entry is an entry as bytes: a decoded header, the encoded one, and the body.
// Raw and Body are borrowed from whoever produced it.
type Entry struct {
	Header Header
	Raw    []byte // HeaderSize bytes
	Body   []byte
}

// Hash gives the entry's hash.
func (e *Entry) Hash() Hash { return HashHeader(e.Raw) }

// Each decodes the ops of the entry one after another into o and calls f with
// its index; it stops at the first error.
func (e *Entry) Each(o *Op, f func(i int) error) error {
	b := e.Body
	for i := range int(e.Header.Ops) {
		var err error
		if b, err = o.Decode(b); err != nil {
			return err
		}
		if err = f(i); err != nil {
			return err
		}
	}
	if len(b) != 0 {
		return ErrEntry
	}
	return nil
}

// CheckBody says whether body is the one that the header was written for.
func (h *Header) CheckBody(body []byte) bool {
	return uint32(len(body)) == h.BodyLen && crc32.Checksum(body, Castagnoli) == h.BodyCRC
}

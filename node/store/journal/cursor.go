package journal

import (
	"encoding/binary"

	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store/flight"
)

// found is what a step of a cursor came upon.
type found uint8

const (
	foundWait   found = iota // a request is under way
	foundOpened              // the file is open and its first block is in block
	foundEntry               // entry is the next of the chain
	foundMark                // a write's prefix: write
	foundBad                 // what is at pos does not count: why
	foundEnd                 // the end of the file
	foundFailed              // a request failed: errno
)

// mode is what a cursor looks for next.
type mode uint8

const (
	modeClosed mode = iota
	modeOpening
	modeHeader
	modeWrite // a write's prefix at pos
	modeFrame // a frame at pos, left of them in this write
	modeHunt  // any write's prefix at a block boundary from pos on
	modeClosing
)

// cursor walks through one journal file. Its window grows to the largest frame
// that a checksum has confirmed, and no further.
type cursor struct {
	flight.Window
	j *Journal

	number uint64 // of the file
	seed   uint32
	mode   mode

	pos     int64
	writeAt int64
	left    uint32
	write   format.JournalWrite

	tip     op.Number // the last entry that joined
	tipHash op.Hash
	trust   bool // the next entry's PrevHash is taken as tipHash
	entry   op.Entry
	block   []byte

	why   string
	torn  bool // what is bad was begun in this lap
	errno disk.Errno
}

func newCursor(j *Journal, slot uint32, handle disk.Handle) cursor {
	return cursor{j: j, Window: flight.Window{Flight: flight.Flight{Owner: j.options.Owner, Slot: slot}, Queue: &j.queue, Handle: handle, Chunk: j.options.ReadChunkBytes}}
}

// open begins the file with that number; step gives foundOpened.
func (c *cursor) open(number uint64) {
	c.number, c.seed = number, format.JournalSeed(c.j.clusterID, number)
	c.mode = modeOpening
	c.Open(format.JournalName(number))
}

// seek goes on at pos, the start of a write, behind the entry tip.
func (c *cursor) seek(pos int64, tip op.Number, tipHash op.Hash) {
	c.mode, c.pos, c.tip, c.tipHash, c.trust = modeWrite, pos, tip, tipHash, false
}

// seekTo goes on at a write that was checked before.
func (c *cursor) seekTo(r ref) {
	c.seek(r.at, r.first-1, op.Hash{})
	c.trust = true
}

// hunt goes on from the first block boundary at or after pos.
func (c *cursor) hunt(pos int64) {
	c.mode, c.pos = modeHunt, blocks(pos)
}

// close ends the file; step gives foundEnd once that is done.
func (c *cursor) close() {
	c.mode = modeClosing
	c.Close()
}

// blocks rounds n up to a block boundary.
func blocks(n int64) int64 { return (n + format.JournalBlock - 1) &^ (format.JournalBlock - 1) }

// landed takes in what a request brought. It is called once per landing, before
// the next step.
func (c *cursor) landed() {
	c.Took()
	if c.mode == modeOpening {
		c.mode = modeHeader
	}
	if c.Closed() {
		c.mode = modeClosed
	}
}

// step goes on until there is something to say.
func (c *cursor) step() found {
	for {
		if c.Busy() {
			return foundWait
		}
		if c.Err != disk.OK {
			c.errno = c.Err
			return foundFailed
		}
		switch c.mode {
		case modeClosed:
			return foundEnd
		case modeHeader:
			if b, ok := c.Need(0, format.JournalBlock); ok {
				c.block, c.mode = b, modeWrite
				c.pos = format.JournalBlock
				return foundOpened
			}
		case modeWrite:
			if f := c.stepWrite(); f != foundWait {
				return f
			}
		case modeFrame:
			if f := c.stepFrame(); f != foundWait {
				return f
			}
		case modeHunt:
			if f := c.stepHunt(); f != foundWait {
				return f
			}
		default:
			panic("journal: a cursor that waits for nothing")
		}
	}
}

func (c *cursor) stepWrite() found {
	b, ok := c.Need(c.pos, op.WritePrefix)
	switch {
	case !ok:
		return foundWait
	case len(b) == 0:
		return foundEnd
	}
	w, err := format.DecodeJournalWrite(b, c.seed)
	if err != nil {
		c.why, c.torn = "no write begins here", false
		if len(b) >= 16 && string(b[:4]) == format.JournalWriteMagic && binary.BigEndian.Uint64(b[8:]) == c.number {
			c.torn = true
			c.why = "the prefix of a write is torn"
		}
		return foundBad
	}
	c.write, c.writeAt, c.left, c.torn = w, c.pos, w.Entries, true
	if w.Entries > 0 && w.First != c.tip+1 {
		c.why = "a write does not follow the entry before it"
		return foundBad
	}
	if w.Entries == 0 {
		c.pos += format.JournalBlock
	} else {
		c.pos += op.WritePrefix
		c.mode = modeFrame
	}
	return foundMark
}

func (c *cursor) stepFrame() found {
	b, ok := c.Need(c.pos, format.FrameOverhead)
	if !ok {
		return foundWait
	}
	h, size, err := format.DecodeFrame(b, c.seed)
	if c.trust {
		c.tipHash = h.PrevHash
	}
	switch {
	case err != nil:
		c.why = "an entry's header is damaged"
		return foundBad
	case c.pos+int64(size) > c.writeAt+int64(c.write.Bytes):
		c.why = "an entry is longer than its write"
		return foundBad
	case h.Number != c.tip+1 || h.PrevHash != c.tipHash:
		c.why = "an entry does not join the one before it"
		return foundBad
	}
	if b, ok = c.Need(c.pos, size); !ok {
		return foundWait
	}
	if len(b) < size || !h.CheckBody(b[format.FrameOverhead:]) && !fault.On("torn_tail_taken_as_good") {
		c.why = "an entry's body is damaged"
		return foundBad
	}
	c.entry = op.Entry{Header: h, Raw: b[op.FramePrefix:format.FrameOverhead:format.FrameOverhead], Body: b[format.FrameOverhead:]}
	c.tip, c.tipHash, c.trust = h.Number, c.entry.Hash(), false
	c.pos += int64(size)
	if c.left--; c.left == 0 {
		c.pos, c.mode = c.writeEnd(), modeWrite
	}
	return foundEntry
}

// writeEnd is where the write after the present one begins.
func (c *cursor) writeEnd() int64 { return blocks(c.writeAt + int64(c.write.Bytes)) }

func (c *cursor) stepHunt() found {
	b, ok := c.Need(c.pos, op.WritePrefix)
	switch {
	case !ok:
		return foundWait
	case len(b) == 0:
		return foundEnd
	}
	w, err := format.DecodeJournalWrite(b, c.seed)
	if err != nil {
		c.pos += format.JournalBlock
		return foundWait
	}
	c.write, c.writeAt = w, c.pos
	c.pos = c.writeEnd()
	return foundMark
}

package segment

import (
	"errors"

	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

// scan reads a segment from its start to limit, a chunk at a time, and checks
// everything: the header, and every record.
type scan struct {
	p     *partition
	at    segment
	limit int64
	buf   []byte
	have  int // bytes of buf that hold what was read and not checked yet
	begun bool
	piece int // what the next read is at most, 0 for all of buf
	run   run
}

func (c *scan) start(p *partition, at segment, limit int64) {
	*c = scan{p: p, at: at, limit: limit, buf: c.buf, run: run{next: at.base, entries: c.run.entries[:0]}}
}

// next submits the next read of w on the segment's handle. It is false at the
// end.
func (c *scan) next(s *Set, w worker, h disk.Handle) bool {
	at := c.run.offset + int64(c.have)
	if at >= c.limit {
		return false
	}
	if c.buf == nil {
		c.buf = make([]byte, s.o.ReadChunk)
	}
	n := c.wanted()
	s.submit(w, disk.Request{Kind: disk.KindRead, Lane: disk.LaneRead, Handle: h, Offset: at, Buf: c.buf[c.have : c.have+int(n)]})
	return true
}

// wanted is how many bytes the next read asks for.
func (c *scan) wanted() int64 {
	n := len(c.buf) - c.have
	if c.piece > 0 {
		n = min(n, c.piece)
	}
	return min(int64(n), c.limit-c.run.offset-int64(c.have))
}

// moveTo goes on at the record next, which may lie at offset: with small reads
// first, since it may not, and what cannot be read may lie close.
func (c *scan) moveTo(offset int64, next op.Sequence) {
	c.run.offset, c.run.next, c.run.indexed = offset, next, 0
	c.have, c.piece = 0, format.IndexInterval
}

// take checks what the read brought. It says what is wrong, "" for nothing; the
// record that is hit is run.next, at run.offset.
func (c *scan) take(clusterID [16]byte, n int, err disk.Errno) string {
	if err != disk.OK {
		return "cannot be read: " + err.String()
	}
	at := c.run.offset + int64(c.have)
	wanted := int(c.wanted())
	c.have, c.piece = c.have+n, min(2*c.piece, len(c.buf))
	b := c.buf[:c.have]
	if !c.begun {
		if what := checkHeader(b, c.p, c.at, clusterID); what != "" {
			return what
		}
		c.begun = true
		c.run.offset = format.SegmentHeaderSize
		b = b[format.SegmentHeaderSize:]
	}
	used, bad := c.run.check(b)
	b = b[used:]
	switch {
	case bad != nil && !errors.Is(bad, format.ErrRecordShort):
		return bad.Error()
	case n < wanted, bad != nil && at+int64(n) >= c.limit:
		return "the segment ends early"
	}
	if size, err := format.RecordSize(b); err == nil && size > len(c.buf) {
		grown := make([]byte, size)
		copy(grown, b)
		c.buf = grown
	} else {
		copy(c.buf, b)
	}
	c.have = len(b)
	return ""
}

// checkHeader says what is wrong with the header of a segment, "" for nothing.
func checkHeader(b []byte, p *partition, at segment, clusterID [16]byte) string {
	h, err := format.DecodeSegmentHeader(b)
	if err != nil {
		var version *format.VersionError
		if errors.As(err, &version) {
			version.Path = p.path(at.base, format.SegmentSuffix)
		}
		return err.Error()
	}
	if h.Topic != p.topic || h.Partition != p.part || h.Base != at.base || h.ClusterID != clusterID {
		return "the header is that of another segment"
	}
	return ""
}

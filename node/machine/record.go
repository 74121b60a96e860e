package machine

import (
	"encoding/binary"

	"github.com/mortarmq/mortarmq/node/op"
)

// Records of checkpoint pieces, big-endian. Each is a tag (1), the length of
// what follows (4) and:
//
//	log header    number 8, epoch 4, log time 8, idempotent accepts 8
//	partition     topic 2, partition 2, last 8, timestamp 8, bytes 8, plain 8,
//	              purged 8, ranges 4, then from 8, to 8 for each
//	window        producer 8, topic 2, partition 2, last 8, use 8, active 8,
//	              runs 2, then first 8, epoch 4, count 4 for each, oldest first
//	log end       partitions 8, windows 8
//	cursor        group 2, partition 2, next 8, start 8, delivered 8, dropped 8,
//	              dlq 8, quarantined 8, retries 8, entries 4
//	entry         group 2, partition 2, sequence 8, delivery 8, ownership 8,
//	              due 8, attempts 2, charges 2, state 1
//	cursor end    cursors 8, entries 8
//
// The end records count the records before them in their file. A partition
// without records, window or marks has no record.
const (
	tagLogHeader byte = iota + 1
	tagPartition
	tagWindow
	tagLogEnd
	tagCursor
	tagEntry
	tagCursorEnd
)

const recordHeader = 5

func putU16(b []byte, v uint16) []byte { return binary.BigEndian.AppendUint16(b, v) }
func putU32(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }
func putU64(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

func beginRecord(b []byte, tag byte) (out []byte, at int) {
	return append(b, tag, 0, 0, 0, 0), len(b)
}

func endRecord(b []byte, at int) []byte {
	binary.BigEndian.PutUint32(b[at+1:], uint32(len(b)-at-recordHeader))
	return b
}

// recordSize gives the size of the record that b, made here, begins with.
func recordSize(b []byte) int {
	return recordHeader + int(binary.BigEndian.Uint32(b[1:]))
}

func (m *Machine) appendHeader(b []byte) []byte {
	b, at := beginRecord(b, tagLogHeader)
	b = putU32(putU64(b, uint64(m.number)), uint32(m.epoch))
	b = putU64(putU64(b, uint64(m.logTime)), m.windows.uses)
	return endRecord(b, at)
}

func (m *Machine) appendPartition(b []byte, key partitionKey, p *partition) []byte {
	b, at := beginRecord(b, tagPartition)
	b = putU16(putU16(b, uint16(key.topic)), uint16(key.partition))
	b = putU64(putU64(b, uint64(p.last)), p.timestamp)
	b = putU64(putU64(b, p.bytes), p.plain)
	b = putU64(b, uint64(p.purged))
	k := m.marks[key]
	if k == nil {
		return endRecord(putU32(b, 0), at)
	}
	b = putU32(b, uint32(len(k.ranges)))
	for _, r := range k.ranges {
		b = putU64(putU64(b, uint64(r.from)), uint64(r.to))
	}
	return endRecord(b, at)
}

func (m *Machine) appendWindow(b []byte, w *window) []byte {
	b, at := beginRecord(b, tagWindow)
	b = putU64(b, w.producer)
	b = putU16(putU16(b, uint16(w.topic)), uint16(w.partition))
	b = putU64(putU64(b, w.last), w.use)
	b = putU64(b, uint64(w.active))
	countAt := len(b)
	b = putU16(b, 0)
	n := uint16(1)
	for c := w.head; c != 0; {
		ch := m.windows.chunks.at(c)
		for _, r := range ch.runs[ch.head:ch.end] {
			b = appendRun(b, r)
			n++
		}
		c = ch.next
	}
	b = appendRun(b, w.newest)
	binary.BigEndian.PutUint16(b[countAt:], n)
	return endRecord(b, at)
}

func appendRun(b []byte, r run) []byte {
	return putU32(putU32(putU64(b, uint64(r.first)), uint32(r.epoch)), r.count)
}

func appendCursor(b []byte, g *group, p op.PartitionID) []byte {
	c := &g.cursors[p]
	b, at := beginRecord(b, tagCursor)
	b = putU16(putU16(b, uint16(g.id)), uint16(p))
	b = putU64(putU64(b, uint64(c.next)), uint64(c.start))
	b = putU64(putU64(b, c.delivered), c.dropped)
	b = putU64(putU64(b, c.dlq), c.quarantined)
	b = putU32(putU64(b, c.retries), c.count)
	return endRecord(b, at)
}

func appendEntry(b []byte, e *entry) []byte {
	b, at := beginRecord(b, tagEntry)
	b = putU16(putU16(b, uint16(e.group)), uint16(e.partition))
	b = putU64(putU64(b, uint64(e.seq)), uint64(e.delivery))
	b = putU64(putU64(b, uint64(e.ownership)), uint64(e.due))
	b = append(putU16(putU16(b, e.attempts), e.charges), byte(e.state))
	return endRecord(b, at)
}

// reader takes fields off the front of bytes that may be anything. After a
// short read everything is 0 and bad is set.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n > len(r.b) {
		r.bad = true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) u8() uint8 {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// ids reads topic or group, and partition.
func (r *reader) ids() (uint16, op.PartitionID) { return r.u16(), op.PartitionID(r.u16()) }

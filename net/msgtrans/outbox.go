package msgtrans

import (
	"slices"
	"sync/atomic"

	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

const (
	// writeBytes is how much is written before the queue is looked at again, for
	// packets that may overtake.
	writeBytes = 256 << 10
	// gatherBytes is how much the writer waits for while others go on sending.
	gatherBytes = 16 << 10
	// batchKeepBytes is the largest buffer that an outbox keeps.
	batchKeepBytes = 512 << 10
)

// batch is packets back to back, as they go to a link.
type batch struct {
	buf  []byte
	ends []int
}

func (b *batch) add(p *Packet, f wire.Framing) error {
	buf, err := wire.Append(b.buf, p, f)
	if err != nil {
		return err
	}
	b.buf = buf
	b.ends = append(b.ends, len(buf))
	return nil
}

func (b *batch) reset() {
	b.buf, b.ends = b.buf[:0], b.ends[:0]
	if cap(b.buf) > batchKeepBytes {
		b.buf = nil
	}
}

// outbox is a connection's send queue. Everything is guarded by the connection's
// mutex but the batches that take has handed out.
//
// Invariants: packets and bytes count what is queued and what is being written; a
// waiter waits only while there is no room for the first of them.
type outbox struct {
	conn               *Conn
	framing            wire.Framing
	packetsMax         int
	bytesMax           int
	normal, urgent     batch
	spare, spareUrgent batch
	packets, bytes     int
	// queued is the bytes in the batches that are not being written, for gather.
	queued  atomic.Int64
	waiters []*waiter
}

// waiter is a sender that waits for room. Whoever makes room queues its packet, so
// that packets leave in the order in which their senders came.
type waiter struct {
	op     string
	packet *Packet
	bytes  int
	at     wire.Instant // the deadline of a Request
	call   *call        // of a Request
	queued bool
	err    error
	ready  chan struct{} // closed when queued, or failed, or the connection has ended
}

func (o *outbox) fits(bytes int) bool {
	return o.packets == 0 || o.packets < o.packetsMax && o.bytes+bytes <= o.bytesMax
}

// add queues w's packet if there is room and nobody waits for it already.
func (o *outbox) add(w *waiter) (queued bool, err error) {
	if len(o.waiters) > 0 || !o.fits(w.bytes) {
		return false, nil
	}
	if err := o.conn.queue(w); err != nil {
		return false, err
	}
	o.packets++
	o.bytes += w.bytes
	return true, nil
}

// leave takes w out of the queue, unless its packet has been queued.
func (o *outbox) leave(w *waiter) {
	i := slices.Index(o.waiters, w)
	if i < 0 {
		return
	}
	o.waiters = slices.Delete(o.waiters, i, i+1)
	o.grant() // the next one may be smaller
}

// release gives room back and hands it to those who wait, in order.
func (o *outbox) release(packets, bytes int) {
	o.packets -= packets
	o.bytes -= bytes
	if o.packets < 0 || o.bytes < 0 {
		panic("msgtrans: outbox: more was released than was reserved")
	}
	o.grant()
}

func (o *outbox) grant() {
	for len(o.waiters) > 0 && o.fits(o.waiters[0].bytes) {
		w := o.waiters[0]
		o.waiters = slices.Delete(o.waiters, 0, 1)
		if w.err = o.conn.queue(w); w.err == nil {
			w.queued = true
			o.packets++
			o.bytes += w.bytes
		}
		close(w.ready)
	}
}

// abandon wakes every waiter without room: the connection has ended.
func (o *outbox) abandon() {
	for _, w := range o.waiters {
		close(w.ready)
	}
	o.waiters = nil
}

// put appends p to its batch.
func (o *outbox) put(p *Packet) error {
	b := &o.normal
	if p.Flags&HighPriority != 0 {
		b = &o.urgent
	}
	if err := b.add(p, o.framing); err != nil {
		return err
	}
	o.queued.Store(int64(len(o.normal.buf) + len(o.urgent.buf)))
	return nil
}

// idle reports whether everything that was accepted has been written.
func (o *outbox) idle() bool { return o.packets == 0 && len(o.waiters) == 0 }

// takeUrgent returns the packets that go first, to be given back to doneUrgent.
func (o *outbox) takeUrgent() (batch, bool) {
	if len(o.urgent.ends) == 0 {
		return batch{}, false
	}
	b := o.urgent
	o.urgent, o.spareUrgent = o.spareUrgent, batch{}
	return b, true
}

func (o *outbox) doneUrgent(b batch) {
	o.release(len(b.ends), len(b.buf))
	b.reset()
	o.spareUrgent = b
}

// takeNormal returns the other packets, to be given back to doneNormal.
func (o *outbox) takeNormal() (batch, bool) {
	if len(o.normal.ends) == 0 {
		return batch{}, false
	}
	b := o.normal
	o.normal, o.spare = o.spare, batch{}
	return b, true
}

// doneNormal takes a batch back whose room was released piece by piece.
func (o *outbox) doneNormal(b batch) {
	b.reset()
	o.spare = b
}

package msgtrans

import (
	"slices"

	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

const (
	// batchBytes is where a batch ends: between two of them the writer looks for
	// packets that may overtake.
	batchBytes = 256 << 10
	// gatherBytes is how much the writer waits for while others go on sending.
	gatherBytes = 32 << 10
	// batchKeepBytes is the largest buffer that is kept for another batch.
	batchKeepBytes = 2 * batchBytes
)

// batch is packets back to back, as they go to a link in one write.
type batch struct {
	buf  []byte
	ends []int
}

func newBatch() any { return new(batch) }

func (b *batch) add(p *Packet, f wire.Framing) error {
	buf, err := wire.Append(b.buf, p, f)
	if err != nil {
		return err
	}
	b.buf = buf
	b.ends = append(b.ends, len(buf))
	return nil
}

// outbox is a connection's send queue. Everything is guarded by the connection's
// mutex but the batches that take has handed out. An empty one holds no buffer.
//
// Invariants: packets and bytes count what is queued and what is being written; a
// waiter waits only while there is no room for the first of them.
type outbox struct {
	conn       *Conn
	framing    wire.Framing
	packetsMax int
	bytesMax   int
	// normal and urgent end with the batch that is being filled.
	normal, urgent []*batch
	packets, bytes int
	waiters        []*waiter
}

// waiter is a sender that waits for room. Whoever makes room queues its packet, so
// that packets leave in the order in which their senders came.
type waiter struct {
	op     string
	packet Packet // a copy of the sender's
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

// add queues p if there is room and nobody waits for it already. Its arguments are
// not one struct, or every packet would go to the heap along with the call.
func (o *outbox) add(op string, p *Packet, bytes int, at wire.Instant, l *call) (queued bool, err error) {
	if len(o.waiters) > 0 || !o.fits(bytes) {
		return false, nil
	}
	if err := o.conn.queue(op, p, at, l); err != nil {
		return false, err
	}
	o.packets++
	o.bytes += bytes
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
		if w.err = o.conn.queue(w.op, &w.packet, w.at, w.call); w.err == nil {
			w.queued = true
			o.packets++
			o.bytes += w.bytes
		}
		close(w.ready)
	}
}

// giveUpRequests fails the Requests that wait for room: the peer will not answer.
func (o *outbox) giveUpRequests(why error) {
	o.waiters = slices.DeleteFunc(o.waiters, func(w *waiter) bool {
		if w.packet.Type != wire.Request {
			return false
		}
		w.err = &Error{Op: w.op, Kind: ErrClosed, Cause: unsent(why)}
		close(w.ready)
		return true
	})
	o.grant() // the next one may be smaller
}

// abandon wakes every waiter without room: the connection has ended.
func (o *outbox) abandon() {
	for _, w := range o.waiters {
		close(w.ready)
	}
	o.waiters = nil
}

// put appends p to the last of its batches.
func (o *outbox) put(p *Packet) error {
	lane := &o.normal
	if p.Flags&HighPriority != 0 {
		lane = &o.urgent
	}
	n := len(*lane)
	if n == 0 || len((*lane)[n-1].buf) >= batchBytes {
		*lane = append(*lane, o.conn.set.batches.Get().(*batch))
		n++
	}
	b := (*lane)[n-1]
	before := len(b.buf)
	if err := b.add(p, o.framing); err != nil {
		if before == 0 {
			*lane = (*lane)[:n-1]
		}
		return err
	}
	return nil
}

// empty reports whether there is nothing to write.
func (o *outbox) empty() bool { return len(o.normal) == 0 && len(o.urgent) == 0 }

// idle reports whether everything that was accepted has been written.
func (o *outbox) idle() bool { return o.packets == 0 && len(o.waiters) == 0 }

// take returns the batch that goes next, to be given back to done.
func (o *outbox) take() *batch {
	lane := &o.urgent
	if len(*lane) == 0 {
		lane = &o.normal
	}
	b := (*lane)[0]
	*lane = slices.Delete(*lane, 0, 1)
	return b
}

// done makes the room of a batch that was written free.
func (o *outbox) done(b *batch) {
	o.release(len(b.ends), len(b.buf))
	b.buf, b.ends = b.buf[:0], b.ends[:0]
	if cap(b.buf) <= batchKeepBytes {
		o.conn.set.batches.Put(b)
	}
}

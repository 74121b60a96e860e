package sim

import (
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/wire"
)

// allowance counts what a client core's one subscription may still be sent, from
// the bytes in both directions: SUB and CREDIT give, MSG takes, and nothing else
// does. What was asked for counts from when it was asked for, so the broker may
// never go below it.
type allowance struct {
	reader       wire.FrameReader
	fifo         []asked // requests without an answer
	count, bytes int64
}

// asked is a request, and the credit that it is about.
type asked struct {
	op           wire.Op
	count, bytes int64
}

// sent takes in what the core sends on the connection.
func (a *allowance) sent(r *net.Request) {
	a.reader.FromClient = true
	a.reader.Feed(r.Data)
	for {
		f, ok, err := a.reader.Next()
		if err != nil || !ok {
			return
		}
		q := asked{op: f.Op}
		switch f.Op {
		case wire.OpSub:
			var m wire.Sub
			if m.Decode(f.Payload) == nil {
				q.count, q.bytes = int64(m.CreditCount), int64(m.CreditBytes)
				a.count, a.bytes = q.count, q.bytes
			}
		case wire.OpCredit:
			var m wire.Credit
			if m.Decode(f.Payload) == nil {
				q.count, q.bytes = int64(m.CreditCount), int64(m.CreditBytes)
				a.count += q.count
				a.bytes += q.bytes
			}
		}
		a.fifo = append(a.fifo, q)
	}
}

// answered takes in an answer: what was refused was not given.
func (a *allowance) answered(refused bool) {
	if len(a.fifo) == 0 {
		return
	}
	if q := a.fifo[0]; refused && q.op == wire.OpCredit {
		a.count -= q.count
		a.bytes -= q.bytes
	}
	a.fifo = a.fifo[1:]
}

// take takes a MSG off; it says whether there was credit for it.
func (a *allowance) take(m *wire.Msg) bool {
	a.count--
	a.bytes -= int64(len(m.Value))
	return a.count >= 0 && a.bytes >= 0
}

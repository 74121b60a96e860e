package cli

import (
	"context"
	"errors"
	"fmt"
	stdnet "net"
	"os"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/mortarmq/mortarmq/wire"
)

// benchConn is one connection of the load generator. It speaks the protocol
// itself, without the client library, so that the figure is the broker's.
type benchConn struct {
	conn     stdnet.Conn
	reader   wire.FrameReader
	in       []byte
	out      []byte
	topicID  uint16
	producer uint64
	seq      uint64
	part     uint16
	value    []byte
	sent     []time.Time // of the requests in flight, oldest first, a ring
	head     int
	inFlight int
	latency  *hdrhistogram.Histogram
	done     int
	ctx      context.Context
	unwatch  func() bool
}

// How long the load generator waits for a broker that says nothing.
const (
	benchConnectMax = 10 * time.Second
	benchDrainMax   = 30 * time.Second
)

func dialBench(ctx context.Context, addr, token, topic string, partitions uint16, index, inFlight, size int) (*benchConn, error) {
	d := stdnet.Dialer{Timeout: 5 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", addr)
	switch {
	case ctx.Err() != nil:
		return nil, errInterrupted
	case err != nil:
		return nil, noBrokerError{fmt.Errorf("no broker answers on %s: %w", addr, err)}
	}
	c := &benchConn{
		conn: conn, ctx: ctx, in: make([]byte, 64<<10), value: make([]byte, size), sent: make([]time.Time, inFlight),
		latency: hdrhistogram.New(1, 60_000_000, 3), producer: uint64(time.Now().UnixNano())<<8 | uint64(index)<<1 | 1,
	}
	for i := range c.value {
		c.value[i] = byte('a' + i%26)
	}
	c.unwatch = context.AfterFunc(ctx, func() { conn.Close() })
	if err := c.begin(token, topic, partitions, index); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// begin says who it is and finds the topic.
func (c *benchConn) begin(token, topic string, partitions uint16, index int) error {
	if err := c.conn.SetDeadline(time.Now().Add(benchConnectMax)); err != nil {
		return c.lost(err)
	}
	connect := wire.Connect{ProtocolVersion: wire.Version, Token: []byte(token)}
	declare := wire.Declare{Topic: []byte(topic), PartitionCount: partitions}
	if _, err := c.conn.Write(declare.Append(connect.Append(nil))); err != nil {
		return c.lost(err)
	}
	if _, err := c.answer(wire.OpConnect); err != nil {
		return err
	}
	result, err := c.answer(wire.OpDeclare)
	if err != nil {
		return err
	}
	var r wire.DeclareResult
	if err := r.Decode(result); err != nil {
		return err
	}
	c.topicID, c.part = r.TopicID, uint16(index)%r.PartitionCount
	return nil
}

func (c *benchConn) close() {
	c.unwatch()
	c.conn.Close()
}

// lost names what ended the connection: the caller, the time, or the broker.
func (c *benchConn) lost(err error) error {
	switch {
	case c.ctx.Err() != nil:
		return errInterrupted
	case errors.Is(err, os.ErrDeadlineExceeded):
		return noBrokerError{fmt.Errorf("the broker on %s does not answer", c.conn.RemoteAddr())}
	}
	return noBrokerError{fmt.Errorf("the broker closed the connection: %w", err)}
}

// frame waits for the next frame.
func (c *benchConn) frame() (wire.Frame, error) {
	for {
		f, ok, err := c.reader.Next()
		if err != nil {
			return f, err
		}
		if ok {
			return f, nil
		}
		n, err := c.conn.Read(c.in)
		if n == 0 {
			return f, c.lost(err)
		}
		c.reader.Feed(c.in[:n])
	}
}

// answer waits for the OK of op and gives its result.
func (c *benchConn) answer(op wire.Op) ([]byte, error) {
	f, err := c.frame()
	if err != nil {
		return nil, err
	}
	return okResult(f, op)
}

func okResult(f wire.Frame, op wire.Op) ([]byte, error) {
	if f.Op == wire.OpErr {
		var e wire.Err
		if err := e.Decode(f.Payload); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%s: %s", e.Code, e.Message)
	}
	var ok wire.OK
	if f.Op != wire.OpOK {
		return nil, fmt.Errorf("the broker answers %s with %s", op, f.Op)
	}
	if err := ok.Decode(f.Payload); err != nil {
		return nil, err
	}
	if ok.RequestOp != op {
		return nil, errors.New("the broker answers out of order")
	}
	return ok.Result, nil
}

// run publishes until the time is up, keeping the connection's share in flight,
// and waits for what is out. Latencies are in microseconds, taken while
// recording says so.
func (c *benchConn) run(warm, end time.Time) error {
	if err := c.conn.SetDeadline(end.Add(benchDrainMax)); err != nil {
		return c.lost(err)
	}
	now := time.Now()
	for {
		c.out = c.out[:0]
		for now.Before(end) && c.inFlight < len(c.sent) {
			c.seq++
			p := wire.Pub{TopicID: c.topicID, Partition: c.part, ProducerID: c.producer, ProducerSeq: c.seq, Value: c.value}
			c.out = p.Append(c.out)
			c.sent[(c.head+c.inFlight)%len(c.sent)] = now
			c.inFlight++
		}
		if len(c.out) > 0 {
			if _, err := c.conn.Write(c.out); err != nil {
				return c.lost(err)
			}
		}
		if c.inFlight == 0 {
			return nil
		}
		n, err := c.conn.Read(c.in)
		if n == 0 {
			return c.lost(err)
		}
		now = time.Now()
		c.reader.Feed(c.in[:n])
		for {
			f, ok, err := c.reader.Next()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if _, err := okResult(f, wire.OpPub); err != nil {
				return err
			}
			sent := c.sent[c.head]
			c.head = (c.head + 1) % len(c.sent)
			c.inFlight--
			if sent.After(warm) && !now.After(end) {
				c.done++
				if err := c.latency.RecordValue(max(1, now.Sub(sent).Microseconds())); err != nil {
					return err
				}
			}
		}
	}
}

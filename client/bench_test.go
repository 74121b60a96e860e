package client

import (
	"context"
	stdnet "net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mortarmq/mortarmq/wire"
)

// sink is the cheapest broker there can be: it answers and forgets.
func sink(b *testing.B) string {
	ln, err := stdnet.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { swallow(nc) })
		}
	})
	b.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	return ln.Addr().String()
}

func swallow(nc stdnet.Conn) {
	defer nc.Close()
	var r wire.FrameReader
	var out []byte
	var src source
	res := wire.PubResult{}
	buf := make([]byte, 1<<20)
	for {
		n, err := nc.Read(buf)
		if err != nil {
			return
		}
		out = out[:0]
		r.Feed(buf[:n])
		for {
			f, ok, err := r.Next()
			if err != nil {
				return
			}
			if !ok {
				break
			}
			switch f.Op {
			case wire.OpPub:
				res.Sequence++
				out = res.AppendOK(out)
			case wire.OpDeclare:
				out = (&wire.DeclareResult{TopicID: 1, PartitionCount: 4}).AppendOK(out)
			default:
				out = src.answer(out, f)
			}
		}
		if _, err := nc.Write(out); err != nil {
			return
		}
	}
}

// source is a broker's consuming side at its cheapest: it has as many messages of 1 KiB as are pulled.
type source struct {
	seq     uint64
	balance int
}

func (s *source) answer(out []byte, f wire.Frame) []byte {
	switch f.Op {
	case wire.OpSub:
		s.balance = 1 << 15
		out = (&wire.SubResult{SubscriptionID: 1, MemberID: 1}).AppendOK(out)
		for p := range uint16(4) {
			out = (&wire.Notice{NoticeID: 1, OwnershipEpoch: 1, TopicID: 1, Partition: p, MemberID: 1}).Append(out)
		}
		return out
	case wire.OpCredit:
		var m wire.Credit
		if err := m.Decode(f.Payload); err != nil {
			panic(err)
		}
		s.balance += int(m.CreditCount)
		return (&wire.CreditResult{GrantedCount: uint16(s.balance), GrantedBytes: 1 << 30}).AppendOK(out)
	case wire.OpPull:
		var m wire.Pull
		if err := m.Decode(f.Payload); err != nil {
			panic(err)
		}
		msg := wire.Msg{SubscriptionID: 1, TopicID: 1, Attempt: 1, OwnershipEpoch: 1, Value: make([]byte, 1024)}
		for range min(256, s.balance, int(m.MaxMsgs)) {
			s.seq++
			s.balance--
			msg.Sequence, msg.DeliveryID, msg.Partition = s.seq, s.seq, uint16(s.seq&3)
			out = msg.Append(out)
		}
	}
	return wire.AppendOKEmpty(out, f.Op)
}

func benchProducer(b *testing.B) *Producer {
	c, err := Dial(b.Context(), Options{Addrs: []string{sink(b)}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return producer(b, c, "orders", ProducerOptions{})
}

// Goal: what one producer costs a message of 1 KiB, the broker's side of the sockets included.
func BenchmarkPublishAsync(b *testing.B) {
	p := benchProducer(b)
	m := Message{Value: make([]byte, 1024)}
	b.SetBytes(1024)
	b.ReportAllocs()
	for b.Loop() {
		if err := p.PublishAsync(b.Context(), m, func(Result, error) {}); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// Goal: what a publish that waits costs, one after another.
func BenchmarkPublish(b *testing.B) {
	p := benchProducer(b)
	m := Message{Value: make([]byte, 1024)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Publish(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
}

// Goal: what consuming a message of 1 KiB costs, with its ACK and the broker's side of the sockets included.
func BenchmarkConsume(b *testing.B) {
	c, err := Dial(b.Context(), Options{Addrs: []string{sink(b)}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	cons, err := c.Consumer(b.Context(), "orders", "g", ConsumerOptions{CreditCount: 4096, CreditBytes: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	ctx, cancel := context.WithCancel(b.Context())
	b.SetBytes(1024)
	b.ReportAllocs()
	b.ResetTimer()
	_ = cons.Run(ctx, func(context.Context, *Delivery) error { // ends with the context's error
		if left.Add(-1) == 0 {
			cancel()
		}
		return nil
	})
}

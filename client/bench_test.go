package client

import (
	stdnet "net"
	"sync"
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
				out = wire.AppendOKEmpty(out, f.Op)
			}
		}
		if _, err := nc.Write(out); err != nil {
			return
		}
	}
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

// Goal: W2, neither good nor hostile input costs an allocation; and how long the common frames take.
package wire

import (
	"bytes"
	"testing"
)

var (
	benchPub = Pub{TopicID: 1, Partition: PartitionAny, ProducerID: 7, ProducerSeq: 9, Key: []byte("customer-1"),
		Value: bytes.Repeat([]byte{'v'}, 256)}
	benchMsg = Msg{SubscriptionID: 1, TopicID: 1, Sequence: 5, DeliveryID: 6, Attempt: 1, Key: []byte("customer-1"),
		Value: bytes.Repeat([]byte{'v'}, 256)}
)

// noAllocs fails when f allocates.
func noAllocs(t *testing.T, what string, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(100, f); n != 0 {
		t.Errorf("%s: %v allocations", what, n)
	}
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	// Goal: each decoder handles every golden case, accepted or refused, in place.
	decoders := map[string]func(p []byte, arg bool) error{
		"connect":        func(p []byte, _ bool) error { var m Connect; return m.Decode(p) },
		"declare":        func(p []byte, _ bool) error { var m Declare; return m.Decode(p) },
		"pub":            func(p []byte, _ bool) error { var m Pub; return m.Decode(p) },
		"sub":            func(p []byte, _ bool) error { var m Sub; return m.Decode(p) },
		"ack":            func(p []byte, _ bool) error { var m Ack; return m.Decode(p) },
		"nack":           func(p []byte, _ bool) error { var m Nack; return m.Decode(p) },
		"ping":           func(p []byte, _ bool) error { var m Ping; return m.Decode(p) },
		"err":            func(p []byte, _ bool) error { var m Err; return m.Decode(p) },
		"ok":             func(p []byte, _ bool) error { var m OK; return m.Decode(p) },
		"msg":            func(p []byte, _ bool) error { var m Msg; return m.Decode(p) },
		"pull":           func(p []byte, _ bool) error { var m Pull; return m.Decode(p) },
		"heartbeat":      func(p []byte, _ bool) error { var m Heartbeat; return m.Decode(p) },
		"notice":         func(p []byte, _ bool) error { var m Notice; return m.Decode(p) },
		"control_ack":    func(p []byte, _ bool) error { var m ControlAck; return m.Decode(p) },
		"credit":         func(p []byte, _ bool) error { var m Credit; return m.Decode(p) },
		"result_connect": func(p []byte, arg bool) error { var m ConnectResult; return m.Decode(p, arg) },
		"result_declare": func(p []byte, _ bool) error { var m DeclareResult; return m.Decode(p) },
		"result_pub":     func(p []byte, arg bool) error { var m PubResult; return m.Decode(p, arg) },
		"result_sub":     func(p []byte, _ bool) error { var m SubResult; return m.Decode(p) },
		"result_credit":  func(p []byte, _ bool) error { var m CreditResult; return m.Decode(p) },
	}
	if len(decoders) != len(codecs) {
		t.Fatalf("%d decoders of %d", len(decoders), len(codecs))
	}
	for _, c := range codecs {
		decode := decoders[c.file]
		for _, g := range readGolden(t, c.file) {
			p := c.body(g.data)
			noAllocs(t, c.file+", "+g.name, func() { _ = decode(p, g.args == "true") })
		}
	}
}

func TestReaderDoesNotAllocate(t *testing.T) {
	// Goal: frames that arrive whole cost nothing; small ones that are always cut in two reuse one buffer.
	stream := benchPub.Append(nil)
	for range 9 {
		stream = benchPub.Append(stream)
	}
	var r FrameReader
	var m Pub
	n := 0
	take := func(data []byte) {
		r.Feed(data)
		for {
			f, ok, err := r.Next()
			if err != nil || ok && m.Decode(f.Payload) != nil {
				t.Fatal("a good frame was refused")
			}
			if !ok {
				return
			}
			n++
		}
	}
	noAllocs(t, "whole frames", func() { take(stream) })
	cut := len(stream) - 100
	take(stream[:cut])
	turned := append(bytes.Clone(stream[cut:]), stream[:cut]...)
	noAllocs(t, "frames cut in two", func() { take(turned) })
	if n == 0 {
		t.Fatal("no frame was read")
	}
}

func TestEncodeDoesNotAllocate(t *testing.T) {
	// Goal: encoding into a buffer with room costs nothing, results and errors included.
	b := make([]byte, 0, 4096)
	res := PubResult{Sequence: 1, HasPartition: true}
	noAllocs(t, "PUB", func() { b = benchPub.Append(b[:0]) })
	noAllocs(t, "MSG header", func() { b = benchMsg.AppendHeader(b[:0], 1<<20) })
	noAllocs(t, "OK of PUB", func() { b = res.AppendOK(b[:0]) })
	noAllocs(t, "empty OK", func() { b = AppendOKEmpty(b[:0], OpAck) })
	noAllocs(t, "ERR", func() { b = AppendErr(b[:0], CodeInternal, OpPub, "a text") })
}

func TestNamesDoNotAllocate(t *testing.T) {
	// Goal: judging names, keys and codes costs nothing, whatever the judgement.
	good, twin, bad := []byte("orders.eu.заказы"), []byte("orders.dlq"), []byte("a..b")
	noAllocs(t, "names", func() {
		_ = CheckTopicName(good)
		_ = CheckTopicName(bad)
		_ = CheckGroupName(good)
		_ = IsDLQName(twin)
		_ = Partition(good, 16)
		_, _ = CodeNotOwner.Info()
		_ = CodeNotOwner.String()
	})
}

func BenchmarkDecodePub(b *testing.B) {
	p := benchPub.Append(nil)[frameHeaderSize:]
	var m Pub
	b.ReportAllocs()
	for b.Loop() {
		if m.Decode(p) != nil {
			b.Fatal("refused")
		}
	}
}

func BenchmarkAppendMsg(b *testing.B) {
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		buf = benchMsg.Append(buf[:0])
	}
}

// BenchmarkReader reads 64 KiB of publishes as a receive buffer would bring them, the last frame cut in two.
func BenchmarkReader(b *testing.B) {
	var stream []byte
	for len(stream) < 64<<10 {
		stream = benchPub.Append(stream)
	}
	frame := len(benchPub.Append(nil))
	head, rest := stream[:len(stream)-frame/2], stream[len(stream)-frame/2:]
	var r FrameReader
	var m Pub
	take := func(data []byte) {
		r.Feed(data)
		for f, ok, _ := r.Next(); ok; f, ok, _ = r.Next() {
			if m.Decode(f.Payload) != nil {
				b.Fatal("refused")
			}
		}
	}
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		take(head)
		take(rest)
	}
}

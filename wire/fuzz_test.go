// Goal: no input makes a decoder panic, and what is accepted is encoded to the same bytes again (W4).
package wire

import (
	"bytes"
	"testing"
)

// fuzzCodec fuzzes one decoder, from the golden cases that are small enough to be useful seeds.
func fuzzCodec(f *testing.F, file string) {
	c := codecOf(file)
	for _, g := range readGolden(f, file) {
		if len(g.data) <= 1024 {
			f.Add(bytes.Clone(c.body(g.data)), g.args == "true")
		}
	}
	f.Fuzz(func(t *testing.T, p []byte, arg bool) {
		before := bytes.Clone(p)
		m, err := c.decode(p, arg)
		if !bytes.Equal(p, before) {
			t.Fatal("the decoder wrote to its input")
		}
		if err != nil {
			if _, ok := err.(*DecodeError); !ok {
				t.Fatalf("a foreign error: %v", err)
			}
			return
		}
		again := c.body(c.encode(m))
		if c.unknown(m) {
			// A tail that nobody here knows is dropped, so the fields come first and are all there is.
			if !bytes.HasPrefix(p, again) {
				t.Fatalf("%s\n got %x\nfrom %x", dump(m), again, p)
			}
		} else if !bytes.Equal(again, p) {
			t.Fatalf("%s\n got %x\nfrom %x", dump(m), again, p)
		}
		if n := len(again) + frameHeaderSize; n > MaxFrameLen {
			t.Fatalf("accepted a payload of %d bytes", n)
		}
	})
}

func FuzzConnect(f *testing.F)       { fuzzCodec(f, "connect") }
func FuzzDeclare(f *testing.F)       { fuzzCodec(f, "declare") }
func FuzzPub(f *testing.F)           { fuzzCodec(f, "pub") }
func FuzzSub(f *testing.F)           { fuzzCodec(f, "sub") }
func FuzzAck(f *testing.F)           { fuzzCodec(f, "ack") }
func FuzzNack(f *testing.F)          { fuzzCodec(f, "nack") }
func FuzzPing(f *testing.F)          { fuzzCodec(f, "ping") }
func FuzzErr(f *testing.F)           { fuzzCodec(f, "err") }
func FuzzOK(f *testing.F)            { fuzzCodec(f, "ok") }
func FuzzMsg(f *testing.F)           { fuzzCodec(f, "msg") }
func FuzzPull(f *testing.F)          { fuzzCodec(f, "pull") }
func FuzzHeartbeat(f *testing.F)     { fuzzCodec(f, "heartbeat") }
func FuzzNotice(f *testing.F)        { fuzzCodec(f, "notice") }
func FuzzControlAck(f *testing.F)    { fuzzCodec(f, "control_ack") }
func FuzzCredit(f *testing.F)        { fuzzCodec(f, "credit") }
func FuzzConnectResult(f *testing.F) { fuzzCodec(f, "result_connect") }
func FuzzDeclareResult(f *testing.F) { fuzzCodec(f, "result_declare") }
func FuzzPubResult(f *testing.F)     { fuzzCodec(f, "result_pub") }
func FuzzSubResult(f *testing.F)     { fuzzCodec(f, "result_sub") }
func FuzzCreditResult(f *testing.F)  { fuzzCodec(f, "result_credit") }

// FuzzReader cuts any stream in two ways and wants the same frames, the same remainder and the same error.
func FuzzReader(f *testing.F) {
	for _, g := range readGolden(f, "reader") {
		if len(g.data) <= 1024 {
			f.Add(g.data, uint8(3), uint8(1), false)
			f.Add(g.data, uint8(0), uint8(7), true)
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte, first, step uint8, client bool) {
		whole := fuzzRead(t, stream, len(stream), len(stream), client)
		parts := fuzzRead(t, stream, int(first), max(1, int(step)), client)
		if !bytes.Equal(whole, parts) {
			t.Fatalf("in one piece\n%s\nin parts\n%s", whole, parts)
		}
	})
}

// fuzzRead reads a stream in parts of step bytes behind a first one and tells what came out of it.
func fuzzRead(t *testing.T, stream []byte, first, step int, client bool) []byte {
	r := FrameReader{FromClient: client}
	var out []byte
	taken := 0
	for n := min(first, len(stream)); ; n = min(step, len(stream)) {
		part := bytes.Clone(stream[:n])
		stream = stream[n:]
		r.Feed(part)
		frames, err := drain(t, &r)
		clear(part)
		for _, f := range frames {
			out = append(append(out, frameLine(f)...), '\n')
			out = append(out, f.Payload...)
			taken += f.Size()
		}
		if err != nil {
			return append(out, err.Error()...)
		}
		if len(stream) == 0 {
			return append(out, partialLine(&r)...)
		}
	}
}

// FuzzNames wants that no name is both a topic's and a twin's, and that what passes keeps its promises.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"a", "a.b.dlq", ".dlq", "$a", "a b", "\xff", "é.語", "a..b", "a."} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, name []byte) {
		err := CheckTopicName(name)
		if err != nil && CodeOf(err) != CodeInvalidTopic {
			t.Fatal(err)
		}
		if err == nil && (len(name) == 0 || len(name) > MaxTopicLen || CheckGroupName(name) != nil || IsDLQName(name)) {
			t.Fatalf("%q is no topic name", name)
		}
		if source, ok := DLQSource(name); ok {
			if back, ok := DLQName(source); !ok || !bytes.Equal(back, name) || err == nil {
				t.Fatalf("%q is no twin's name", name)
			}
		}
	})
}

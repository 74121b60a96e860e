package msgtrans

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

// sample returns a valid Request on the wire, to be damaged.
func sample(t testing.TB) []byte {
	t.Helper()
	b, err := Append(nil, &Packet{Type: Request, ID: 9, Biz: 3, Ext: []byte("ext"), Payload: []byte("payload")}, Bare)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Goal: each rule of refusal has an input that meets it alone.
func TestDecodeRefuses(t *testing.T) {
	cases := []struct {
		name   string
		damage func(b []byte) []byte
		limits Limits
		want   error
	}{
		{"no header", func(b []byte) []byte { return b[:15] }, Limits{}, ErrShort},
		{"version 0", func(b []byte) []byte { b[0] = 0; return b }, Limits{}, ErrVersion},
		{"version 2", func(b []byte) []byte { b[0] = 2; return b }, Limits{}, ErrVersion},
		{"compression 3", func(b []byte) []byte { b[1] = 3; return b }, Limits{}, ErrCompression},
		{"packet_type 3", func(b []byte) []byte { b[2] = 3; return b }, Limits{}, ErrType},
		{"fragmented", func(b []byte) []byte { b[15] |= 1; return b }, Limits{}, ErrFragmented},
		{"one byte short", func(b []byte) []byte { return b[:len(b)-1] }, Limits{}, ErrShort},
		{"one byte long", func(b []byte) []byte { return append(b, 0) }, Limits{}, ErrLong},
		{"over the packet limit", func(b []byte) []byte { return b }, Limits{PacketBytes: 25}, ErrPacketTooLong},
		{"over the ext limit", func(b []byte) []byte { return b }, Limits{ExtBytes: 2}, ErrExtTooLong},
		{"over the payload limit", func(b []byte) []byte { return b }, Limits{PayloadBytes: 6}, ErrPayloadTooLong},
		{"4 GiB payload", func(b []byte) []byte { binary.BigEndian.PutUint32(b[10:], 1<<32-1); return b }, Limits{}, ErrPacketTooLong},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Decode(c.damage(sample(t)), c.limits); !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
		})
	}
	if _, err := Decode(sample(t), Limits{PacketBytes: 26, ExtBytes: 3, PayloadBytes: 7}); err != nil {
		t.Fatalf("exactly at every limit: %v", err)
	}
}

// Goal: bits that version 1 does not define are no reason to refuse, and are
// not passed on; message id 0 is accepted.
func TestDecodeIsLenientWhereTheTextIs(t *testing.T) {
	b := sample(t)
	binary.BigEndian.PutUint16(b[14:], 0xFFFE)
	binary.BigEndian.PutUint32(b[4:], 0)
	p, err := Decode(b, Limits{})
	if err != nil || p.Flags != HighPriority|HasRouteTag || p.ID != 0 {
		t.Fatalf("%+v, %v", p, err)
	}
}

// Goal: a sender is told, and its buffer is left alone.
func TestAppendRefuses(t *testing.T) {
	cases := []struct {
		name   string
		packet Packet
		want   error
	}{
		{"OneWay without id", Packet{}, ErrIDZero},
		{"Request without id", Packet{Type: Request}, ErrIDZero},
		{"type", Packet{ID: 1, Type: 3}, ErrType},
		{"compression", Packet{ID: 1, Compression: 3}, ErrCompression},
		{"fragmented", Packet{ID: 1, Flags: Fragmented}, ErrFragmented},
		{"undefined flag", Packet{ID: 1, Flags: 8}, ErrFlags},
		{"ext of 65536", Packet{ID: 1, Ext: make([]byte, 65536)}, ErrExtTooLong},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := Append([]byte("before"), &c.packet, Bare)
			if !errors.Is(err, c.want) || string(got) != "before" {
				t.Fatalf("%q, %v; want %v", got, err, c.want)
			}
		})
	}
	if _, err := Append(nil, &Packet{Type: Response}, Bare); err != nil {
		t.Fatalf("a Response repeats the id 0 of its Request: %v", err)
	}
	if _, err := Append(nil, &Packet{ID: 1, Ext: make([]byte, 65535)}, Bare); err != nil {
		t.Fatalf("an ext header of 65535: %v", err)
	}
	long := &Packet{ID: 1, Payload: make([]byte, PrefixedPacketBytesMax-HeaderBytes+1)}
	if _, err := Append(nil, long, Prefixed); !errors.Is(err, ErrPacketTooLong) {
		t.Fatalf("16 MiB + 1 behind a prefix: %v", err)
	}
}

// Goal: encoding into a buffer with room and decoding allocate nothing.
func TestUncompressedPacketsDoNotAllocate(t *testing.T) {
	p := Packet{Type: Request, ID: 7, Ext: []byte("ext"), Payload: bytes.Repeat([]byte("x"), 1000)}
	buf := make([]byte, 0, 2048)
	stream := NewStream(Bare, Limits{})
	stream.Space()
	var decoded Packet
	if n := testing.AllocsPerRun(100, func() {
		out, err := Append(buf, &p, Bare)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(out, Limits{}); err != nil {
			t.Fatal(err)
		}
		stream.Filled(copy(stream.Space(), out))
		if ok, err := stream.Next(&decoded); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// Goal: a decoded packet's parts cannot grow into each other.
func TestDecodedSlicesAreCapped(t *testing.T) {
	b := sample(t)
	p, err := Decode(b, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	_ = append(p.Ext, "overwrites"...)
	if string(p.Payload) != "payload" {
		t.Fatalf("payload is now %q", p.Payload)
	}
}

func BenchmarkAppendDecode(b *testing.B) {
	p := Packet{Type: Request, ID: 7, Payload: make([]byte, 100)}
	buf := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		out, err := Append(buf, &p, Bare)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Decode(out, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

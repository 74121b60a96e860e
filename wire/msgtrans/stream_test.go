package msgtrans

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func genPacket() *rapid.Generator[Packet] {
	return rapid.Custom(func(t *rapid.T) Packet {
		return Packet{
			Type:    Type(rapid.IntRange(0, 2).Draw(t, "type")),
			Biz:     rapid.Byte().Draw(t, "biz"),
			ID:      MessageID(rapid.Uint32Min(1).Draw(t, "id")),
			Flags:   Flags(rapid.IntRange(0, 3).Draw(t, "flags")) << 1,
			Ext:     make([]byte, rapid.SampledFrom([]int{0, 1, 9, 65535}).Draw(t, "ext")),
			Payload: bytes.Repeat([]byte{rapid.Byte().Draw(t, "fill")}, rapid.SampledFrom([]int{0, 1, 100, 4096, 32752, 200000}).Draw(t, "payload")),
		}
	})
}

// Goal: however a byte stream is cut into reads, the packets that come out are
// those that went in, and the buffer stays within twice of what arrived.
func TestStreamYieldsWhatWasSentHoweverCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		framing := rapid.SampledFrom([]Framing{Bare, Prefixed}).Draw(t, "framing")
		sent := rapid.SliceOfN(genPacket(), 1, 6).Draw(t, "packets")
		var wire []byte
		for i := range sent {
			var err error
			if wire, err = Append(wire, &sent[i], framing); err != nil {
				t.Fatal(err)
			}
		}
		s := NewStream(framing, Limits{})
		got := 0
		for len(wire) > 0 {
			space := s.Space()
			n := min(len(wire), len(space), rapid.SampledFrom([]int{1, 3, 15, 16, 20, 1000, 40000, 1 << 20}).Draw(t, "cut"))
			copy(space, wire[:n])
			wire = wire[n:]
			s.Filled(n)
			if len(s.buf) > max(2*s.Buffered(), streamKeepBytes) {
				t.Fatalf("a buffer of %d for %d bytes", len(s.buf), s.Buffered())
			}
			for {
				var p Packet
				ok, err := s.Next(&p)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				w := sent[got]
				if p.Type != w.Type || p.Biz != w.Biz || p.ID != w.ID || p.Flags != w.Flags || !bytes.Equal(p.Ext, w.Ext) || !bytes.Equal(p.Payload, w.Payload) {
					t.Fatalf("packet %d differs", got)
				}
				got++
			}
		}
		if got != len(sent) || s.Buffered() != 0 {
			t.Fatalf("%d of %d packets, %d bytes left", got, len(sent), s.Buffered())
		}
	})
}

// Goal: a header that claims too much is refused when the header is there, with
// nothing buffered for it; and the refusal stays.
func TestStreamRefusesOnTheHeaderAlone(t *testing.T) {
	huge := sample(t)[:HeaderBytes]
	binary.BigEndian.PutUint32(huge[10:], 1<<30)
	foreign := bytes.Clone(sample(t))
	foreign[0] = 'G'
	cases := []struct {
		name    string
		framing Framing
		bytes   []byte
		want    error
	}{
		{"1 GiB by the header", Bare, huge, ErrPacketTooLong},
		{"not this protocol", Bare, foreign, ErrVersion},
		{"1 GiB by the prefix", Prefixed, []byte{0x40, 0, 0, 0}, ErrPacketTooLong},
		{"16 MiB + 1 by the prefix", Prefixed, []byte{1, 0, 0, 1}, ErrPacketTooLong},
		{"prefix below a header", Prefixed, []byte{0, 0, 0, 15}, ErrShort},
		{"prefix below its header", Prefixed, append([]byte{0, 0, 0, 25}, sample(t)...), ErrShort},
		{"prefix above its header", Prefixed, append([]byte{0, 0, 0, 27}, sample(t)...), ErrLong},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := NewStream(c.framing, Limits{PacketBytes: 64 << 20})
			s.Filled(copy(s.Space(), c.bytes))
			if _, err := s.Next(new(Packet)); !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if len(s.buf) != streamIdleBytes {
				t.Fatalf("a buffer of %d", len(s.buf))
			}
			s.Filled(copy(s.Space(), sample(t)))
			if ok, err := s.Next(new(Packet)); ok || !errors.Is(err, c.want) {
				t.Fatalf("after the refusal: %v, %v", ok, err)
			}
		})
	}
}

// Goal: a read that fills the idle stream's buffer makes the next one longer, also when
// it ends in mid-packet, as it nearly always does.
func TestStreamReadsMoreWhenItIsBusy(t *testing.T) {
	wire, err := Append(nil, &Packet{ID: 1, Payload: make([]byte, 100)}, Bare)
	if err != nil {
		t.Fatal(err)
	}
	s := NewStream(Bare, Limits{})
	wire = bytes.Repeat(wire, streamIdleBytes/len(wire)+1)
	s.Filled(copy(s.Space(), wire))
	for {
		if ok, err := s.Next(new(Packet)); err != nil {
			t.Fatal(err)
		} else if !ok {
			break
		}
	}
	if n := s.Buffered() + len(s.Space()); s.Buffered() == 0 || n != streamBytes {
		t.Fatalf("a buffer of %d with %d bytes of a packet in it", n, s.Buffered())
	}
}

// Goal: a large packet's buffer is given back once the stream is empty.
func TestStreamGivesALargeBufferBack(t *testing.T) {
	wire, err := Append(nil, &Packet{ID: 1, Payload: make([]byte, 4<<20)}, Bare)
	if err != nil {
		t.Fatal(err)
	}
	s := NewStream(Bare, Limits{})
	for len(wire) > 0 {
		n := copy(s.Space(), wire)
		wire = wire[n:]
		s.Filled(n)
		if _, err := s.Next(new(Packet)); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.Space()) > streamBytes {
		t.Fatalf("%d bytes are kept", len(s.buf))
	}
}

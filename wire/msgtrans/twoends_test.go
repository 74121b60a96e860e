package msgtrans

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

// end is one end of a connection made of the pure halves alone.
type end struct {
	pairing *Pairing[string] // what each request expects to get back
	stream  *Stream
	codec   *Codec
	out     []byte   // on its way to the other end
	owed    []Packet // Requests that are not answered yet
	waiting map[string]bool
	oneWay  uint32 // the next message to be sent, and
	heard   uint32 // the next one to be heard
}

func newEnd() *end {
	return &end{pairing: NewPairing[string](16), stream: NewStream(Bare, Limits{}), codec: NewCodec(0), waiting: map[string]bool{}}
}

func (e *end) send(t *rapid.T, p Packet, payload []byte) {
	p.Compression = rapid.SampledFrom([]Compression{None, None, Zstd, Zlib}).Draw(t, "compression")
	var err error
	if p.Payload, err = e.codec.Compress(nil, payload, p.Compression); err != nil {
		t.Fatal(err)
	}
	if e.out, err = Append(e.out, &p, Bare); err != nil {
		t.Fatal(err)
	}
}

// receive takes what has arrived. A Response has to be the one that was asked for.
func (e *end) receive(t *rapid.T) {
	for {
		var p Packet
		ok, err := e.stream.Next(&p)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return
		}
		payload, err := e.codec.Decompress(nil, p.Payload, p.Compression)
		if err != nil {
			t.Fatal(err)
		}
		switch p.Type {
		case OneWay:
			if n := binary.BigEndian.Uint32(payload); n != e.heard {
				t.Fatalf("message %d came in place of %d", n, e.heard)
			}
			e.heard++
		case Request:
			e.owed = append(e.owed, Packet{ID: p.ID, Payload: payload})
		case Response:
			if want, ok := e.pairing.Match(p.ID); ok {
				if want != string(payload) || !e.waiting[want] {
					t.Fatalf("got %q for %q", payload, want)
				}
				delete(e.waiting, want)
			}
		}
	}
}

// Goal: two ends made of Pairing, Stream and Codec, over simulated byte streams that
// cut and delay as they like, with answers in any order, late or never: every
// request ends exactly once, with its own answer or by its deadline, and one-way
// messages arrive in order.
func TestTwoEndsOverSimulatedStreams(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ends := [2]*end{newEnd(), newEnd()}
		now, begun := Instant(0), 0
		pick := func(t *rapid.T) (*end, *end) {
			i := rapid.IntRange(0, 1).Draw(t, "end")
			return ends[i], ends[1-i]
		}
		expire := func(t *rapid.T, e *end) {
			for _, late := range e.pairing.Expire(now, nil) {
				if !e.waiting[late.Value] {
					t.Fatalf("%q ended twice", late.Value)
				}
				delete(e.waiting, late.Value)
			}
		}
		deliver := func(t *rapid.T, from, to *end, n int) {
			n = copy(to.stream.Space(), from.out[:min(n, len(from.out))])
			from.out = from.out[n:]
			to.stream.Filled(n)
			to.receive(t)
		}
		t.Repeat(map[string]func(*rapid.T){
			"request": func(t *rapid.T) {
				e, _ := pick(t)
				payload := bytes.Repeat(binary.BigEndian.AppendUint32(nil, uint32(begun)), rapid.IntRange(1, 500).Draw(t, "length"))
				begun++
				id, err := e.pairing.Begin(now+Instant(rapid.IntRange(1, 50).Draw(t, "patience")), string(payload))
				if err != nil {
					return // full
				}
				e.waiting[string(payload)] = true
				e.send(t, Packet{Type: Request, ID: id}, payload)
			},
			"message": func(t *rapid.T) {
				e, _ := pick(t)
				e.send(t, Packet{ID: e.pairing.OneWay()}, binary.BigEndian.AppendUint32(nil, e.oneWay))
				e.oneWay++
			},
			"answer": func(t *rapid.T) {
				e, _ := pick(t)
				if len(e.owed) == 0 {
					return
				}
				i := rapid.IntRange(0, len(e.owed)-1).Draw(t, "which")
				for range rapid.IntRange(0, 2).Draw(t, "times") { // never, once, twice
					e.send(t, Packet{Type: Response, ID: e.owed[i].ID}, e.owed[i].Payload)
				}
				e.owed = append(e.owed[:i], e.owed[i+1:]...)
			},
			"bytes": func(t *rapid.T) {
				from, to := pick(t)
				deliver(t, from, to, rapid.SampledFrom([]int{1, 7, 16, 100, 4096, 1 << 20}).Draw(t, "bytes"))
			},
			"time": func(t *rapid.T) {
				now += Instant(rapid.IntRange(1, 30).Draw(t, "passes"))
				expire(t, ends[0])
				expire(t, ends[1])
			},
			"": func(t *rapid.T) {
				for _, e := range ends {
					if e.pairing.Len() != len(e.waiting) {
						t.Fatalf("%d pending, %d waiting", e.pairing.Len(), len(e.waiting))
					}
				}
			},
		})
		// Everything arrives in the end, and what nobody answered runs out of time.
		for i, e := range ends {
			for len(e.out) > 0 {
				deliver(t, e, ends[1-i], len(e.out))
			}
		}
		now += 100
		for i, e := range ends {
			expire(t, e)
			if len(e.waiting) != 0 || e.stream.Buffered() != 0 || e.heard != ends[1-i].oneWay {
				t.Fatalf("%d wait, %d bytes are left, %d of %d messages", len(e.waiting), e.stream.Buffered(), e.heard, ends[1-i].oneWay)
			}
		}
	})
}

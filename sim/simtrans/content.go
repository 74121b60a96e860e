package simtrans

import (
	"encoding/binary"

	"github.com/mortarmq/mortarmq/sim/prng"
	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// Tag tells requests of a run apart. Messages are numbered per connection instead.
type Tag uint64

// The kinds of content. They stand in the ext header, so that a payload may be empty.
const (
	kindMessage  = 'M'
	kindRequest  = 'Q'
	kindAnswer   = 'A'
	kindForeign  = 'F' // an answer under an id that was never issued
	kindDamaged  = 'D' // must not be accepted
	identityLen  = 1 + 4 + 8
	smallBytes   = 200
	mediumBytes  = 6_000
	largeBytes   = 60_000
	extExtraMax  = 40
	packetBytes  = 80 << 10
	payloadBytes = 96 << 10
	bombBytes    = 4 << 20
)

// identity is what every packet says of itself.
type identity struct {
	kind   byte
	serial int // the sender's connection, as the judge counts them
	tag    Tag // of the request, or the message's number
}

func (i identity) mix() uint64 {
	return prng.Mix(uint64(i.tag)<<8|uint64(i.kind), uint64(i.serial))
}

// ext returns the ext header of i: who it is, and some bytes behind that.
func (i identity) ext() []byte {
	b := make([]byte, identityLen, identityLen+extExtraMax)
	b[0] = i.kind
	binary.BigEndian.PutUint32(b[1:], uint32(i.serial))
	binary.BigEndian.PutUint64(b[5:], uint64(i.tag))
	for range i.mix() >> 8 % extExtraMax {
		b = append(b, byte(len(b)))
	}
	return b
}

// payload returns the payload of i, which follows from it alone.
func (i identity) payload() []byte {
	r := prng.New(i.mix())
	n := 0
	switch r.Weighted(10, 70, 17, 3) {
	case 1:
		n = r.Intn(smallBytes)
	case 2:
		n = r.Intn(mediumBytes)
	case 3:
		n = r.Intn(largeBytes)
	}
	b := make([]byte, n)
	if r.Bool(500) {
		r.Fill(b)
		return b
	}
	for j := range b {
		b[j] = byte(j / 16 * int(i.kind))
	}
	return b
}

// biz follows from i as well.
func (i identity) biz() uint8 { return uint8(i.mix()) }

// identify reads the identity of a packet, false if it says none.
func identify(p *wire.Packet) (identity, bool) {
	if len(p.Ext) < identityLen {
		return identity{}, false
	}
	return identity{
		kind:   p.Ext[0],
		serial: int(binary.BigEndian.Uint32(p.Ext[1:])),
		tag:    Tag(binary.BigEndian.Uint64(p.Ext[5:])),
	}, true
}

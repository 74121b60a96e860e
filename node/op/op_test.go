package op

import (
	"bytes"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func drawOp(t *rapid.T) Op {
	k := Kind(rapid.IntRange(1, int(kindEnd)-1).Draw(t, "kind"))
	o := Op{Kind: k, Flags: uint8(rapid.IntRange(0, int(flagsEnd)-1).Draw(t, "flags"))}
	u64 := rapid.Uint64()
	raw := func(label string, n int) []byte { return rapid.SliceOfN(rapid.Byte(), 0, n).Draw(t, label) }
	id := func() (TopicID, PartitionID, GroupID) {
		return TopicID(rapid.Uint16().Draw(t, "topic")), PartitionID(rapid.Uint16().Draw(t, "part")), GroupID(rapid.Uint16().Draw(t, "group"))
	}
	switch k {
	case KindPublish:
		o.Topic, o.Partition, _ = id()
		o.ProducerID, o.ProducerSeq, o.Timestamp = u64.Draw(t, "pid"), u64.Draw(t, "pseq"), u64.Draw(t, "ts")
		o.Key, o.Value = raw("key", 40), raw("value", 300)
	case KindDeliver:
		_, o.Partition, o.Group = id()
		o.Count = rapid.Uint32().Draw(t, "count")
		o.Sequence, o.Delivery, o.Ownership = Sequence(u64.Draw(t, "s")), DeliveryID(u64.Draw(t, "d")), OwnershipEpoch(u64.Draw(t, "o"))
	case KindAck, KindNack, KindExpire:
		_, o.Partition, o.Group = id()
		o.Reason, o.DelayMillis = rapid.Byte().Draw(t, "reason"), rapid.Uint32().Draw(t, "delay")
		o.Sequence, o.Delivery, o.Ownership = Sequence(u64.Draw(t, "s")), DeliveryID(u64.Draw(t, "d")), OwnershipEpoch(u64.Draw(t, "o"))
	case KindDeadLetter, KindRedrive:
		o.Topic, o.Partition, o.Group = id()
		o.Cause = rapid.Byte().Draw(t, "cause")
		o.Sequence, o.Delivery, o.Ownership = Sequence(u64.Draw(t, "s")), DeliveryID(u64.Draw(t, "d")), OwnershipEpoch(u64.Draw(t, "o"))
		o.ProducerID, o.ProducerSeq, o.Timestamp = u64.Draw(t, "pid"), u64.Draw(t, "pseq"), u64.Draw(t, "ts")
		o.Key, o.Envelope, o.Value = raw("key", 40), raw("env", 80), raw("value", 300)
	case KindEpochStart:
		o.Settings = Settings{rapid.Uint16().Draw(t, "a"), rapid.Uint32().Draw(t, "b"), rapid.Uint32().Draw(t, "c"), rapid.Uint16().Draw(t, "d"), rapid.Uint16().Draw(t, "e"), u64.Draw(t, "f")}
	default:
		o.Topic, o.Partition, o.Group = id()
		o.Cause, o.StartPolicy, o.Partitions = rapid.Byte().Draw(t, "cause"), rapid.Byte().Draw(t, "pol"), rapid.Uint16().Draw(t, "n")
		o.Sequence = Sequence(u64.Draw(t, "s"))
		o.Mutation = u64.Draw(t, "mutation")
		if k == KindForgetProducer {
			o.ProducerID = u64.Draw(t, "pid")
		} else {
			o.Member = MemberID(u64.Draw(t, "m"))
		}
		o.Name = raw("name", 255)
	}
	return o
}

func (o *Op) clean() {
	for _, p := range []*[]byte{&o.Key, &o.Value, &o.Name, &o.Envelope} {
		if len(*p) == 0 {
			*p = nil
		}
	}
}

// Goal: every op decodes to what was encoded, Size tells the truth, and every
// proper prefix is refused.
func TestOpRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOp(t)
		b := o.Append(nil)
		if len(b) != o.Size() {
			t.Fatalf("%v: %d bytes, Size says %d", o.Kind, len(b), o.Size())
		}
		var got Op
		rest, err := got.Decode(append(bytes.Clone(b), 7))
		if err != nil || len(rest) != 1 {
			t.Fatalf("%v: %v, rest %d", o.Kind, err, len(rest))
		}
		o.clean()
		got.clean()
		if !reflect.DeepEqual(o, got) {
			t.Fatalf("got  %+v\nwant %+v", got, o)
		}
		if _, err := got.Decode(b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")]); err == nil {
			t.Fatal("a prefix was accepted")
		}
	})
}

// Goal: no input makes Decode panic, and what it accepts encodes to the same bytes.
func FuzzOp(f *testing.F) {
	for k := KindInvalid + 1; k < kindEnd; k++ {
		o := Op{Kind: k, Sequence: 3}
		if k == KindEpochStart || k == KindPublish {
			o.Sequence = 0
		}
		f.Add(o.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var o Op
		rest, err := o.Decode(b)
		if err != nil {
			return
		}
		if got := o.Append(nil); !bytes.Equal(got, b[:len(b)-len(rest)]) {
			t.Fatalf("%+v\nread %x\nwrote %x", o, b, got)
		}
	})
}

// Goal: a header survives its encoding and the hash covers each of its bytes.
func TestHeader(t *testing.T) {
	h := Header{Number: 9, Epoch: 3, Ops: 2, PrevHash: Hash{1, 2}, Commit: 7, LogTime: 11, BodyLen: 5, BodyCRC: 77}
	var b [HeaderSize]byte
	h.Put(b[:])
	got, err := DecodeHeader(b[:])
	if err != nil || got != h {
		t.Fatalf("%+v %v", got, err)
	}
	want := HashHeader(b[:])
	for i := range b {
		b[i] ^= 0x40
		if HashHeader(b[:]) == want {
			t.Fatalf("byte %d is not hashed", i)
		}
		b[i] ^= 0x40
	}
}

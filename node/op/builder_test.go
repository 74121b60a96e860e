package op

import (
	"bytes"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// Goal: what is collected comes back op by op, in entries within the bound,
// chained, in page-aligned memory.
func TestBuilder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Builder
		prev, next := Hash{9}, Number(5)
		for range rapid.IntRange(1, 3).Draw(t, "batches") {
			n := rapid.IntRange(1, 30).Draw(t, "ops")
			var want []Op
			for i := range n {
				o := Op{Kind: KindPublish, ProducerSeq: uint64(i), Value: bytes.Repeat([]byte{byte(i)}, rapid.SampledFrom([]int{0, 10, 1 << 19, 3 << 20}).Draw(t, "len"))}
				b.Add(&o)
				want = append(want, o)
			}
			last, hash := b.Seal(Header{Number: next, Epoch: 2, PrevHash: prev, Commit: next - 1, LogTime: 8})
			i := 0
			for e := range b.Entries() {
				en := b.Entry(e)
				if en.Header.Number != next || en.Header.PrevHash != prev || !en.Header.CheckBody(en.Body) {
					t.Fatalf("entry %d: %+v", e, en.Header)
				}
				if en.Header.Ops > 1 && len(en.Body) > BatchBytesMax {
					t.Fatalf("a batch of %d bytes", len(en.Body))
				}
				var o Op
				if err := en.Each(&o, func(int) error {
					if o.ProducerSeq != want[i].ProducerSeq || !bytes.Equal(o.Value, want[i].Value) {
						t.Fatalf("op %d differs", i)
					}
					i++
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				next++
				prev = en.Hash()
			}
			if i != n || last != next-1 || hash != prev {
				t.Fatalf("%d of %d ops, last %d, next %d", i, n, last, next)
			}
			p := b.Padded()
			if len(p)%pageSize != 0 || uintptr(unsafe.Pointer(&p[0]))%pageSize != 0 {
				t.Fatal("not page-aligned")
			}
			b.Reset()
		}
	})
}

// Goal: collecting publishes allocates nothing once the buffer has grown.
func TestBuilderAllocates(t *testing.T) {
	var b Builder
	o := Op{Kind: KindPublish, Value: make([]byte, 1024)}
	round := func() {
		for range 100 {
			b.Add(&o)
		}
		b.Seal(Header{Number: 1, Epoch: 1})
		b.Padded()
		b.Reset()
	}
	round()
	if n := testing.AllocsPerRun(20, round); n != 0 {
		t.Fatalf("%v allocations per batch", n)
	}
}

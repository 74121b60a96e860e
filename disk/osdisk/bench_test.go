package osdisk

import (
	"testing"

	"github.com/mortarmq/mortarmq/disk"
)

// journal gives a disk with a preallocated, synced file of 16 MiB on handle 1.
func journal(b *testing.B, flags uint8) (*Disk, chan struct{}) {
	d, woken := opened(b, b.TempDir())
	got, ok := runInline(d, []disk.Request{
		{Kind: disk.KindOpen, Handle: 1, Path: "journal", Flags: disk.FlagCreate | flags},
		{Kind: disk.KindZero, Handle: 1, Length: 16 << 20},
		{Kind: disk.KindSync, Handle: 1},
	}, nil)
	for _, c := range got {
		if !ok || c.Err != disk.OK {
			b.Fatal(ok, c.Err)
		}
	}
	return d, woken
}

func pair(buf []byte, i int) []disk.Request {
	return []disk.Request{
		{Kind: disk.KindWrite, Handle: 1, Buf: buf, Offset: int64(i) * int64(len(buf)) % (16 << 20)},
		{Kind: disk.KindSync, Handle: 1},
	}
}

// Goal: what one small journal batch costs, by direct or buffered overwrite,
// inline or over the lane's worker.
func BenchmarkJournal(b *testing.B) {
	for _, c := range []struct {
		name   string
		flags  uint8
		inline bool
		bytes  int
	}{
		{"4KiB/direct/inline", disk.FlagDirect, true, 4096},
		{"4KiB/buffered/inline", 0, true, 4096},
		{"4KiB/direct/worker", disk.FlagDirect, false, 4096},
		{"4KiB/buffered/worker", 0, false, 4096},
		{"256KiB/direct/inline", disk.FlagDirect, true, 256 << 10},
		{"256KiB/buffered/inline", 0, true, 256 << 10},
	} {
		b.Run(c.name, func(b *testing.B) {
			d, woken := journal(b, c.flags)
			buf := disk.AlignedBuffer(c.bytes)
			var done []disk.Completion
			b.SetBytes(int64(c.bytes))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				reqs := pair(buf, i)
				if c.inline {
					done, _ = runInline(d, reqs, done[:0])
					continue
				}
				d.Submit(reqs)
				for done = done[:0]; len(done) < 2; done = d.Poll(done) {
					<-woken
				}
			}
		})
	}
}

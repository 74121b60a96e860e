package simdisk

import "github.com/mortarmq/mortarmq/sim/prng"

// Sizes of what is written as a whole (sector) and of what is stored (page).
const (
	sectorSize     = 512
	pageSize       = 4096
	sectorsPerPage = pageSize / sectorSize
	allSectors     = 1<<sectorsPerPage - 1
	freeBlocksMax  = 4096
	fileBytesMax   = 4 << 30 // of what is written: a page table reaches that far
)

// owner marks the blocks that one Disk may write. It has a size, so that each
// has an address of its own.
type owner struct{ _ byte }

// block is the memory of a page. Blocks of another owner are shared with a clone
// and are copied before they are changed.
type block struct {
	owner *owner
	data  [pageSize]byte
}

// zeroBlock is an allocated page of zeros. Nobody owns it, so it is never
// changed.
var zeroBlock = &block{}

// page is 4096 bytes of a file.
//
// Invariants:
//
//  1. A nil block is a hole: zeros, and no space taken.
//  2. A sector in neither dirty nor stale is durable as cache has it; another is
//     durable as durable has it. Both masks empty: durable and mid are nil.
//  3. dirty and stale are disjoint. Sectors of midway are dirty, and mid has a
//     version between the durable one and the cache's, which may have got out.
type page struct {
	cache, durable, mid *block
	first               uint64 // version of the first write since it was clean
	dirty               uint8  // to be written by the next sync
	stale               uint8  // a failed sync gave them up
	midway              uint8
}

// content is what a file holds.
type content struct {
	size        int64
	durableSize int64
	// minSize is the least size since the last sync: below durableSize a
	// truncation is waiting.
	minSize   int64
	sizeFirst uint64 // version of the first change of size since the last sync
	sizeDirty bool
	pages     []page
	dirty     []int32 // pages with dirty sectors, in the order of their first write
	stale     []int32 // pages that have had stale sectors
	allocated int64   // pages with a cache block
	bad       []span  // unreadable ranges
}

// pageStore owns blocks and counts versions.
type pageStore struct {
	owner   *owner
	version uint64 // rises with every change of content
	free    []*block
	used    int64 // pages allocated in all files
	rand    *prng.Rand
}

// sectorMask gives the sectors of a page that hold the bytes from..to-1.
func sectorMask(from, to int) uint8 {
	first, last := from/sectorSize, (to-1)/sectorSize
	return uint8(allSectors << first & (allSectors >> (sectorsPerPage - 1 - last)))
}

// fresh gives a block of this owner with unspecified bytes.
func (s *pageStore) fresh() *block {
	if n := len(s.free); n > 0 {
		b := s.free[n-1]
		s.free = s.free[:n-1]
		return b
	}
	return &block{owner: s.owner}
}

// release takes back a block that nothing refers to any more.
func (s *pageStore) release(b *block) {
	if b != nil && b.owner == s.owner && len(s.free) < freeBlocksMax {
		s.free = append(s.free, b)
	}
}

// own gives a block with b's bytes that may be changed.
func (s *pageStore) own(b *block) *block {
	if b != nil && b.owner == s.owner {
		return b
	}
	n := s.fresh()
	if b == nil {
		n.data = [pageSize]byte{}
	} else {
		n.data = b.data
	}
	return n
}

// sector gives sector i of b; a hole has zeros.
func sector(b *block, i int) []byte {
	if b == nil {
		b = zeroBlock
	}
	return b.data[i*sectorSize : (i+1)*sectorSize]
}

// grow makes the page table reach to byte size.
func (c *content) grow(size int64) {
	need := int((size + pageSize - 1) / pageSize)
	if need <= len(c.pages) {
		return
	}
	if need > cap(c.pages) {
		pages := make([]page, len(c.pages), max(need, min(2*cap(c.pages), cap(c.pages)+4096)))
		copy(pages, c.pages)
		c.pages = pages
	}
	c.pages = c.pages[:need]
}

// resize changes the size that readers see.
func (s *pageStore) resize(c *content, size int64) {
	if size == c.size {
		return
	}
	if !c.sizeDirty {
		c.sizeDirty, c.sizeFirst = true, s.version
	}
	c.size, c.minSize = size, min(c.minSize, size)
}

// dirtied notes that mask's sectors of page i are about to change, and saves
// what is durable of them.
func (s *pageStore) dirtied(c *content, i int, mask uint8) *page {
	p := &c.pages[i]
	if p.dirty == 0 {
		p.first = s.version
		c.dirty = append(c.dirty, int32(i))
	}
	diverged := p.dirty | p.stale
	if fresh := mask &^ diverged; diverged != 0 && fresh != 0 && (p.durable != nil || p.cache != nil) {
		p.durable = s.own(p.durable)
		for j := range sectorsPerPage {
			if fresh>>j&1 != 0 {
				copy(sector(p.durable, j), sector(p.cache, j))
			}
		}
	}
	if again := mask & p.dirty; again != 0 && s.rand.Bool(250) {
		p.mid = s.own(p.mid)
		p.midway |= again
		for j := range sectorsPerPage {
			if again>>j&1 != 0 {
				copy(sector(p.mid, j), sector(p.cache, j))
			}
		}
	}
	p.dirty |= mask
	p.stale &^= mask
	return p
}

// touch makes mask's sectors of page i dirty and gives the block to change. With
// whole the block's bytes are unspecified.
func (s *pageStore) touch(c *content, i int, mask uint8, whole bool) *block {
	p := &c.pages[i]
	clean := p.dirty|p.stale == 0
	if p.cache == nil {
		c.allocated++
		s.used++
	}
	p = s.dirtied(c, i, mask)
	if !clean {
		p.cache = s.own(p.cache)
		return p.cache
	}
	p.durable = p.cache
	p.cache = s.fresh()
	if !whole {
		if p.durable == nil {
			p.cache.data = [pageSize]byte{}
		} else {
			p.cache.data = p.durable.data
		}
	}
	return p.cache
}

// replace makes page i wholly dirty with b, zeroBlock or nil, as its bytes.
func (s *pageStore) replace(c *content, i int, b *block) {
	p := &c.pages[i]
	if p.cache == nil && b == nil && p.dirty|p.stale == 0 {
		return
	}
	clean := p.dirty|p.stale == 0
	if (p.cache == nil) != (b == nil) {
		change := int64(1)
		if b == nil {
			change = -1
		}
		c.allocated += change
		s.used += change
	}
	p = s.dirtied(c, i, allSectors)
	if clean {
		p.durable = p.cache
	} else {
		s.release(p.cache)
	}
	p.cache = b
}

// write puts b at offset. A nil b writes length zeros.
func (s *pageStore) write(c *content, offset int64, b []byte, length int64) {
	if length == 0 {
		return
	}
	s.version++
	c.grow(offset + length)
	for at, end := offset, offset+length; at < end; {
		i, from := int(at/pageSize), int(at%pageSize)
		to := int(min(pageSize, int64(from)+end-at))
		whole := from == 0 && to == pageSize
		if b == nil && whole {
			s.replace(c, i, zeroBlock)
		} else {
			dst := s.touch(c, i, sectorMask(from, to), whole).data[from:to]
			if b == nil {
				clear(dst)
			} else {
				copy(dst, b[at-offset:])
			}
		}
		at += int64(to - from)
	}
	if offset+length > c.size {
		s.resize(c, offset+length)
	}
}

// truncate sets the size; what lies beyond it becomes a hole.
func (s *pageStore) truncate(c *content, size int64) {
	s.version++
	if size < c.size {
		if from := int(size % pageSize); from != 0 {
			if i := int(size / pageSize); i < len(c.pages) && c.pages[i].cache != nil {
				clear(s.touch(c, i, sectorMask(from, pageSize), false).data[from:])
			}
		}
		for i := int((size + pageSize - 1) / pageSize); i < len(c.pages); i++ {
			s.replace(c, i, nil)
		}
	}
	s.resize(c, size)
}

// read fills b from offset and tells how much of it lies inside the file.
func (s *pageStore) read(c *content, offset int64, b []byte) int {
	return readPages(c, offset, b, c.size, func(p *page, _ int) *block { return p.cache })
}

// missing counts the pages that a write of the range would have to allocate.
func (c *content) missing(offset, length int64) int64 {
	n := int64(0)
	first, last := offset/pageSize, (offset+length+pageSize-1)/pageSize
	for i := first; i < min(last, int64(len(c.pages))); i++ {
		if c.pages[i].cache == nil {
			n++
		}
	}
	return n + max(0, last-max(first, int64(len(c.pages))))
}

package simdisk

import "github.com/mortarmq/mortarmq/sim/prng"

// sync makes durable what was dirty at version upTo; whether what came later goes
// with it is drawn, as the contract leaves it open.
func (s *pageStore) sync(c *content, upTo uint64) {
	kept := c.dirty[:0]
	for _, i := range c.dirty {
		if int(i) >= len(c.pages) {
			continue
		}
		p := &c.pages[i]
		if p.first > upTo && s.rand.Bool(500) {
			kept = append(kept, i)
			continue
		}
		s.clean(p)
	}
	c.dirty = kept
	if c.sizeDirty && c.sizeFirst > upTo && s.rand.Bool(500) {
		return
	}
	c.sizeDirty = false
	c.durableSize, c.minSize = c.size, c.size
	c.trim(len(kept) > 0)
}

// clean makes a page's dirty sectors durable.
func (s *pageStore) clean(p *page) {
	s.release(p.mid)
	p.mid, p.midway, p.dirty = nil, 0, 0
	if p.stale == 0 {
		s.release(p.durable)
		p.durable = nil
	}
}

// trim drops the page table beyond the size, unless dirty pages may lie there.
func (c *content) trim(dirty bool) {
	need := int((c.size + pageSize - 1) / pageSize)
	if dirty || need >= len(c.pages) {
		return
	}
	clear(c.pages[need:])
	c.pages = c.pages[:need]
}

// failSync gives the dirty sectors up (invariant 5 of the package).
func (s *pageStore) failSync(c *content) {
	for _, i := range c.dirty {
		if int(i) >= len(c.pages) || c.pages[i].dirty == 0 {
			continue
		}
		p := &c.pages[i]
		if p.stale == 0 {
			c.stale = append(c.stale, i)
		}
		s.release(p.mid)
		p.mid, p.midway = nil, 0
		p.stale |= p.dirty
		p.dirty = 0
	}
	c.dirty = c.dirty[:0]
}

// readPages copies from the blocks that pick chooses per page and sector.
func readPages(c *content, offset int64, b []byte, size int64, pick func(*page, int) *block) int {
	if offset >= size {
		return 0
	}
	n := int(min(int64(len(b)), size-offset))
	for done := 0; done < n; {
		at := offset + int64(done)
		from := int(at % sectorSize)
		step := min(sectorSize-from, n-done)
		dst := b[done : done+step]
		if i := int(at / pageSize); i < len(c.pages) {
			j := int(at%pageSize) / sectorSize
			copy(dst, sector(pick(&c.pages[i], j), j)[from:])
		} else {
			clear(dst)
		}
		done += step
	}
	return n
}

// certainSize is the size that every power loss leaves at least.
func (c *content) certainSize() int64 {
	if !c.sizeDirty {
		return c.size
	}
	return min(c.durableSize, c.minSize, c.size)
}

// readDurable is read for what a power loss is sure to leave. A dirty sector
// shows its durable version, which is not certain (see certain).
func (c *content) readDurable(offset int64, b []byte) int {
	return readPages(c, offset, b, c.certainSize(), func(p *page, j int) *block {
		if (p.dirty|p.stale)>>j&1 != 0 {
			return p.durable
		}
		return p.cache
	})
}

// certain reports whether the range is durable as the cache has it.
func (c *content) certain(from, to int64) bool {
	if to > c.certainSize() {
		return false
	}
	for at := from; at < to; {
		end := min(to, (at/pageSize+1)*pageSize)
		if i := int(at / pageSize); i < len(c.pages) {
			p := &c.pages[i]
			if (p.dirty|p.stale)&sectorMask(int(at%pageSize), int(end-1)%pageSize+1) != 0 {
				return false
			}
		}
		at = end
	}
	return true
}

// How a power loss treats a file's dirty sectors.
const (
	lossNone = iota
	lossAll
	lossPages
	lossSectors
)

// powerLoss decides what of the file is left and makes that its content.
func (s *pageStore) powerLoss(c *content, r *prng.Rand) {
	mode := r.Weighted(2, 3, 2, 3)
	cut := c.sizeDirty && c.minSize < c.durableSize && mode != lossAll && (mode == lossNone || r.Bool(500))
	size := c.sizeAfterLoss(mode, cut, r)
	for _, list := range [2][]int32{c.dirty, c.stale} {
		for _, i := range list {
			if int(i) < len(c.pages) && c.pages[i].dirty|c.pages[i].stale != 0 {
				s.losePage(c, int(i), mode, cut, r)
			}
		}
	}
	c.dirty, c.stale = c.dirty[:0], c.stale[:0]
	c.size, c.durableSize, c.minSize, c.sizeDirty = size, size, size, false
	c.trim(false)
	if from, i := int(size%pageSize), int(size/pageSize); from != 0 && i < len(c.pages) {
		if p := &c.pages[i]; p.cache != nil && p.cache != zeroBlock {
			p.cache = s.own(p.cache)
			clear(p.cache.data[from:])
		}
	}
	c.allocated = 0
	for i := range c.pages {
		if c.pages[i].cache != nil {
			c.allocated++
		}
	}
}

// sizeAfterLoss draws the size: an old one, the last one or one between. With
// cut the waiting truncation happened.
func (c *content) sizeAfterLoss(mode int, cut bool, r *prng.Rand) int64 {
	if !c.sizeDirty {
		return c.size
	}
	low, high := c.durableSize, max(c.durableSize, c.size)
	if cut {
		low, high = c.minSize, c.size
	}
	switch {
	case mode == lossNone:
		return c.size
	case mode == lossAll:
		return c.durableSize
	case r.Bool(300):
		return low
	case r.Bool(500):
		return high
	}
	return r.Range(low, high)
}

// losePage draws a version for each sector that is not durable.
func (s *pageStore) losePage(c *content, i int, mode int, cut bool, r *prng.Rand) {
	p := &c.pages[i]
	keepPage := mode == lossNone || mode == lossPages && r.Bool(500)
	var cache *block
	for j := range sectorsPerPage {
		bit := uint8(1) << j
		if (p.dirty|p.stale)&bit == 0 {
			continue
		}
		keep := keepPage || mode == lossSectors && r.Bool(500)
		if p.stale&bit != 0 {
			keep = r.Bool(200)
		}
		if keep {
			continue
		}
		if cache == nil {
			cache = s.own(p.cache)
			p.cache = cache
		}
		dst := sector(cache, j)
		if p.midway&bit != 0 && r.Bool(500) {
			copy(dst, sector(p.mid, j))
			continue
		}
		copy(dst, sector(p.durable, j))
		if beyond := c.minSize - (int64(i)*pageSize + int64(j)*sectorSize); cut && beyond < sectorSize {
			clear(dst[max(0, beyond):])
		}
	}
	s.release(p.mid)
	s.release(p.durable)
	p.durable, p.mid, p.dirty, p.stale, p.midway = nil, nil, 0, 0, 0
}

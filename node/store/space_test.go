package store

import "testing"

// Goal: the reserve is the smaller of the parts that are set, and the default is
// none of them: a disk smaller than a part that nobody asked for is not low for ever.
func TestReserve(t *testing.T) {
	const gib = int64(1) << 30
	for _, c := range []struct {
		percent      int
		bytes, total int64
		want         int64
	}{
		{0, 0, 50 * gib, 50 * gib / 100 * 10},
		{0, 0, 1000 * gib, 10 * gib},
		{-1, 0, gib, 0},
		{0, -1, gib, 0},
		{-1, -1, gib, 0},
		{-1, gib / 2, gib, gib / 2},
		{0, gib / 2, gib, gib / 2},
		{5, 0, 1000 * gib, 1000 * gib / 100 * 5},
		{5, gib, 1000 * gib, gib},
	} {
		o := Options{NodeID: 1, ReservePercent: c.percent, ReserveBytes: c.bytes}.withDefaults()
		if got := o.reserve(c.total); got != c.want {
			t.Errorf("%d %% and %d bytes of %d: %d, want %d", c.percent, c.bytes, c.total, got, c.want)
		}
	}
}

package sim

import (
	"sync"
	"sync/atomic"
)

// Many runs the seeds from first to last, workers at a time, and hands each
// result to done, one at a time, in no order. It stops early when done says so.
func Many(first, last uint64, workers int, o Options, done func(*Plan, *Result) bool) {
	var next atomic.Uint64
	next.Store(first)
	var stop atomic.Bool
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range max(1, workers) {
		wg.Go(func() {
			for !stop.Load() {
				seed := next.Add(1) - 1
				if seed > last || seed < first {
					return
				}
				p := Draw(seed)
				r := Run(p, o)
				mu.Lock()
				if !stop.Load() && !done(p, r) {
					stop.Store(true)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

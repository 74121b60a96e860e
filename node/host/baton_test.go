package host

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Goal: one at a time has the baton, and what was put down before a call is found,
// whoever calls and however visitors come and go between.
func TestBaton(t *testing.T) {
	const callers, each = 4, 20_000
	b := newBaton()
	var put, found atomic.Int64
	var holders atomic.Int32
	hold := func() {
		if holders.Add(1) != 1 {
			t.Error("two have the baton")
		}
		b.look()
		found.Store(put.Load())
		holders.Add(-1)
	}
	var tasks sync.WaitGroup
	for i := range callers {
		tasks.Go(func() {
			for n := range each {
				put.Add(1)
				switch {
				case i%2 == 0 || !b.try():
					b.call()
				default:
					hold()
					if n%3 == 0 {
						b.call()
					}
					b.leave()
				}
				if n%16 == i {
					runtime.Gosched()
				}
			}
		})
	}
	// The loop's goroutine. Its timer fires often, and takes no part in what is found.
	ticker := time.NewTicker(20 * time.Microsecond)
	defer ticker.Stop()
	for found.Load() < callers*each {
		hold()
		b.await(ticker.C)
	}
	tasks.Wait()
}

// Goal: a call alone wakes the loop's goroutine: no timer helps here.
func TestBatonWakes(t *testing.T) {
	b := newBaton()
	var put atomic.Int64
	found := make(chan int64)
	go func() {
		for {
			b.look()
			n := put.Load()
			found <- n
			if n == 2000 {
				return
			}
			b.await(nil)
		}
	}()
	for n := range int64(2000) {
		put.Store(n + 1)
		if n%2 == 0 && b.try() {
			b.call()
			b.leave()
		} else {
			b.call()
		}
		for <-found != n+1 {
		}
	}
}

// Goal: in every order of steps, a call that nobody has looked after yet is known to
// who has the baton, or the goroutine that is to look has been woken.
func TestBatonModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBaton()
		called, free := false, false
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				b.call()
				called = true
			case 1:
				if got := b.try(); got != free {
					t.Fatalf("try: %v, free %v", got, free)
				}
				free = false
			case 2:
				if !free {
					b.look()
					called = false
				}
			case 3:
				if !free {
					b.leave()
					free = true
				}
			case 4:
				if free { // the loop's goroutine, woken
					select {
					case <-b.wake:
						if !b.take() {
							t.Fatal("a free baton was not taken")
						}
						free = false
					default:
					}
				} else if b.take() {
					t.Fatal("a baton that is held was taken")
				} else {
					called = true
				}
			}
			if called && !b.called() && len(b.wake) == 0 {
				t.Fatal("a call was lost: nobody is told, nobody was woken")
			}
		}
	})
}

package host

import (
	"sync/atomic"
	"time"
)

// baton is the right to run the loop. The loop's own goroutine has it but while it
// waits; then a reader that brings something may take it for a turn or two, which
// saves the hand-off to a goroutine that sleeps.
//
// Invariant 1: who calls after something has happened can go: somebody looks after
// that. Whoever has the baton is told by called, or else the loop's goroutine is
// woken.
type baton struct {
	state atomic.Int32
	wake  chan struct{} // of the loop's goroutine; holds one
}

// The states. The zero value is held: nobody takes a loop before it runs.
const (
	batonHeld   int32 = iota
	batonCalled       // held, and something has happened since the last look
	batonFree
)

func newBaton() baton { return baton{wake: make(chan struct{}, 1)} }

// call makes somebody look; it may be called from any goroutine.
func (b *baton) call() {
	for {
		switch b.state.Load() {
		case batonCalled:
			return
		case batonFree:
			b.rouse()
			return
		default:
			if b.state.CompareAndSwap(batonHeld, batonCalled) {
				return
			}
		}
	}
}

func (b *baton) rouse() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// called tells who has the baton that something has happened since the last look.
func (b *baton) called() bool { return b.state.Load() == batonCalled }

// try takes the baton if nobody has it.
func (b *baton) try() bool { return b.state.CompareAndSwap(batonFree, batonHeld) }

// look says that the holder looks now: what happened until here, it finds.
func (b *baton) look() { b.state.Store(batonHeld) }

// leave gives the baton up, to the loop's goroutine if there was a call.
func (b *baton) leave() {
	if !b.state.CompareAndSwap(batonHeld, batonFree) {
		b.state.Store(batonFree)
		b.rouse()
	}
}

// await is for the loop's goroutine alone: it gives the baton up until there is a
// call, or the timer fires, which it reports. It returns at once if there was one.
func (b *baton) await(timer <-chan time.Time) (fired bool) {
	if !b.state.CompareAndSwap(batonHeld, batonFree) {
		return false
	}
	for {
		select {
		case <-b.wake:
		case <-timer:
			fired = true
		}
		if b.take() {
			return fired
		}
	}
}

// take takes the baton, or makes sure that who has it calls when he leaves. The call
// that it was taken for stands until there is a look: what was left to do comes
// first.
func (b *baton) take() bool {
	for !b.state.CompareAndSwap(batonFree, batonCalled) {
		if b.state.CompareAndSwap(batonHeld, batonCalled) || b.state.Load() == batonCalled {
			return false
		}
	}
	return true
}

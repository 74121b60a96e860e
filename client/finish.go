package client

import "sync"

// finished is a publish whose outcome is for a callback.
type finished struct {
	producer *Producer
	callback func(Result, error)
	result   Result
	err      error
}

// finishers calls callbacks, one after another, in a goroutine of their own: in the loop they would stop everything, and a
// callback may publish. The goroutine starts with the first outcome and ends, once ended, when the last callback is done.
type finishers struct {
	mu      sync.Mutex
	some    *sync.Cond
	queue   []finished
	running bool
	ended   bool
}

func (f *finishers) init() { f.some = sync.NewCond(&f.mu) }

// add takes over batch's contents.
func (f *finishers) add(batch []finished) {
	f.mu.Lock()
	f.queue = append(f.queue, batch...)
	start := !f.running
	f.running = true
	f.mu.Unlock()
	if start {
		go f.run()
		return
	}
	f.some.Signal()
}

// end lets the goroutine go once the queue is empty. Nothing is added afterwards.
func (f *finishers) end() {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.some.Signal()
}

func (f *finishers) run() {
	var batch []finished
	for {
		clear(batch)
		f.mu.Lock()
		for len(f.queue) == 0 && !f.ended {
			f.some.Wait()
		}
		batch, f.queue = f.queue, batch[:0]
		f.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		for i := range batch {
			b := &batch[i]
			b.callback(b.result, b.err)
			if i+1 == len(batch) || batch[i+1].producer != b.producer {
				b.producer.ranCallbacks(i + 1 - firstOf(batch, i))
			}
		}
	}
}

// firstOf is where the run of outcomes of one producer begins that ends at i.
func firstOf(batch []finished, i int) int {
	p := batch[i].producer
	for i > 0 && batch[i-1].producer == p {
		i--
	}
	return i
}

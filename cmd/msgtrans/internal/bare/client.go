package bare

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Run sends n copies of message over p, keeping window of them in flight from one
// goroutine that writes as soon as an answer has come and flushes when nothing more
// has arrived. It reports how long each was under way. Nothing is handed from one
// goroutine to another: this is the ceiling of the transport. It writes its window
// before it reads, so that has to fit what the transport buffers.
func Run(p Pipe, message []byte, n, window int, took func(time.Duration)) error {
	sent := make([]time.Time, window)
	for i := range min(window, n) {
		sent[i] = time.Now()
		if err := p.Write(message); err != nil {
			return err
		}
	}
	if err := p.Flush(); err != nil {
		return err
	}
	for i := range n {
		b, more, err := p.Read()
		if err != nil {
			return err
		}
		if len(b) != len(message) {
			return fmt.Errorf("bare: %d bytes came back for %d", len(b), len(message))
		}
		at := time.Now()
		took(at.Sub(sent[i%window]))
		if i+window < n {
			sent[i%window] = at
			if err := p.Write(message); err != nil {
				return err
			}
		}
		if !more {
			if err := p.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Client lets any number of goroutines call over one Pipe: a caller writes into the
// buffer and waits, one goroutine flushes when nobody else is about to write, one
// reads and wakes the callers in order.
type Client struct {
	pipe Pipe
	// writing is held while a message is written, which may wait until answers are
	// read; so the reader does without it. It is taken before mu.
	writing sync.Mutex
	mu      sync.Mutex
	waiting []chan []byte
	free    []chan []byte
	dirty   chan struct{}
	err     error // of the reader or the flusher; ends every call
	done    sync.WaitGroup
}

// NewClient starts the goroutines of a client; they end when p fails.
func NewClient(p Pipe) *Client {
	c := &Client{pipe: p, dirty: make(chan struct{}, 1)}
	c.done.Go(c.read)
	c.done.Go(c.flush)
	return c
}

// Wait returns when p has failed and the goroutines have ended.
func (c *Client) Wait() { c.done.Wait() }

// Call sends message and waits for its answer, which belongs to the caller.
func (c *Client) Call(message []byte) ([]byte, error) {
	answered, err := c.write(message)
	if err != nil {
		return nil, err
	}
	select {
	case c.dirty <- struct{}{}:
	default:
	}
	answer := <-answered
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free = append(c.free, answered)
	if answer == nil {
		return nil, c.err
	}
	return answer, nil
}

// write writes message and returns where its answer will come.
func (c *Client) write(message []byte) (chan []byte, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return nil, c.err
	}
	var answered chan []byte
	if n := len(c.free); n > 0 {
		answered, c.free = c.free[n-1], c.free[:n-1]
	} else {
		answered = make(chan []byte, 1)
	}
	c.waiting = append(c.waiting, answered)
	c.mu.Unlock()
	return answered, c.pipe.Write(message)
}

func (c *Client) flush() {
	for range c.dirty {
		runtime.Gosched() // let the others write first
		c.writing.Lock()
		err := c.pipe.Flush()
		c.writing.Unlock()
		if err != nil {
			c.fail(err)
			return
		}
	}
}

func (c *Client) read() {
	defer close(c.dirty)
	for {
		b, _, err := c.pipe.Read()
		if err != nil {
			c.fail(err)
			return
		}
		c.mu.Lock()
		first := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.mu.Unlock()
		first <- append(make([]byte, 0, len(b)), b...)
	}
}

func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for _, w := range c.waiting {
		w <- nil
	}
	c.waiting = nil
}

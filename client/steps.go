package client

import "sync"

// steps calls functions one after another, in order, in a goroutine that lives while there are any: the rebalance callbacks
// of a consumer.
type steps struct {
	mu      sync.Mutex
	queue   []func()
	running bool
}

func (s *steps) add(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, f)
	if !s.running {
		s.running = true
		go s.run()
	}
}

func (s *steps) run() {
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.running = false
			s.mu.Unlock()
			return
		}
		f := s.queue[0]
		s.queue = s.queue[1:]
		s.mu.Unlock()
		f()
	}
}

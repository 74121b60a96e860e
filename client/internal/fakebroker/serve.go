package fakebroker

import (
	stdnet "net"
	"sync"
	"time"

	"github.com/mortarmq/mortarmq/clock"
)

// Server serves a Broker over TCP. The broker may be looked at and changed under Lock.
type Server struct {
	sync.Mutex
	Broker *Broker
	// Addr is where it listens.
	Addr string

	ln    stdnet.Listener
	start time.Time
	conns map[stdnet.Conn]bool
	wg    sync.WaitGroup
	stop  chan struct{}
}

// Serve listens on a loopback port.
func Serve(b *Broker, addr string) (*Server, error) {
	ln, err := stdnet.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &Server{Broker: b, Addr: ln.Addr().String(), ln: ln, start: time.Now(), conns: map[stdnet.Conn]bool{}, stop: make(chan struct{})}
	s.wg.Add(2)
	go s.accept()
	go s.tick()
	return s, nil
}

// tick moves the broker's time: the only ticker that waits here.
func (s *Server) tick() {
	defer s.wg.Done()
	t := time.NewTicker(5 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
			s.Lock()
			s.Broker.Now = clock.Instant(time.Since(s.start))
			s.Broker.Tick()
			s.kickAll()
			s.Unlock()
		}
	}
}

// Kick sends what a change under Lock has brought about.
func (s *Server) Kick() { s.kickAll() }

func (s *Server) kickAll() {
	for _, o := range s.Broker.Sessions {
		if len(o.Out) > 0 && o.Kick != nil {
			o.Kick()
		}
	}
}

func (s *Server) accept() {
	defer s.wg.Done()
	for {
		nc, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.Lock()
		s.conns[nc] = true
		s.wg.Add(2)
		s.Unlock()
		go s.serve(nc)
	}
}

func (s *Server) serve(nc stdnet.Conn) {
	defer s.wg.Done()
	kick := make(chan struct{}, 1)
	s.Lock()
	o := s.Broker.Open()
	o.Kick = func() {
		select {
		case kick <- struct{}{}:
		default:
		}
	}
	s.Unlock()
	gone := make(chan struct{})
	go s.write(nc, o, kick, gone)
	buf := make([]byte, 256<<10)
	for {
		n, err := nc.Read(buf)
		s.Lock()
		if err != nil || o.Closed {
			o.Drop()
			delete(s.conns, nc)
			s.Unlock()
			break
		}
		o.Feed(buf[:n])
		s.kickAll()
		o.Kick()
		s.Unlock()
	}
	close(gone)
}

func (s *Server) write(nc stdnet.Conn, o *Session, kick, gone chan struct{}) {
	defer s.wg.Done()
	defer nc.Close()
	for {
		select {
		case <-kick:
		case <-gone:
			return
		}
		s.Lock()
		out, closed := o.Out, o.Closed
		o.Out = nil
		s.Unlock()
		if _, err := nc.Write(out); err != nil || closed {
			return
		}
	}
}

// Cut breaks every connection.
func (s *Server) Cut() {
	s.Lock()
	defer s.Unlock()
	for nc := range s.conns {
		nc.Close()
	}
}

// Close stops listening and breaks every connection.
func (s *Server) Close() {
	close(s.stop)
	s.ln.Close()
	s.Cut()
	s.wg.Wait()
}

package msgtrans

import (
	"sync"
	"sync/atomic"
)

// place is what a connection takes of a server's ConnsMax, from the first sign of it
// on. It has a holder for each thing that can outlast the others: the socket, the
// handshake, and the Conn, whose handlers may run for long after its socket is closed.
//
// Invariants: holders does not rise from 0; the last one to leave gives the place back.
// What became of the handshake is reported once, by accept or refuse.
type place struct {
	server  *Server
	holders atomic.Int32
	judged  sync.Once
}

// admit takes a place for a connection whose handshake begins; it has one holder.
func (s *Server) admit(p Peer) (*place, bool) {
	if s.places.Add(1) > int64(s.opts.ConnsMax) {
		s.places.Add(-1)
		s.refused(p, &Error{Op: "accept", Kind: ErrLimit, Cause: errConnsMax})
		return nil, false
	}
	l := &place{server: s}
	l.holders.Store(1)
	return l, true
}

// hold adds a holder, unless the place has been given back.
func (l *place) hold() bool {
	for {
		n := l.holders.Load()
		if n == 0 {
			return false
		}
		if l.holders.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// leave is called once by each holder.
func (l *place) leave() {
	if l.holders.Add(-1) == 0 {
		l.server.places.Add(-1)
	}
}

// accept says that the connection has come about.
func (l *place) accept() { l.judged.Do(func() {}) }

// refuse reports that the connection did not come about, unless it did or this has
// been reported.
func (l *place) refuse(p Peer, err error) { l.judged.Do(func() { l.server.refused(p, err) }) }

// crowded reports whether half of the places are taken: then it is worth a round trip
// to find out whether a client has the address that it says.
func (s *Server) crowded() bool { return s.places.Load() >= int64(s.opts.ConnsMax)/2 }

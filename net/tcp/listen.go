package tcp

import (
	"context"
	"errors"
	"fmt"
	stdnet "net"
	"syscall"
	"time"

	"github.com/mortarmq/mortarmq/net"
)

// ErrInUse is what Listen's error wraps when another program has the port.
var ErrInUse = errors.New("address in use")

// ErrClosed is the error of Listen after Close.
var ErrClosed = errors.New("network closed")

// How long an accept loop waits after an error: the descriptors that it lacks
// come back when connections close, and spinning does not bring them.
const (
	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = time.Second
)

// Listener is a port that was taken. The system lets connections to it wait until
// Accept.
type Listener struct {
	network *Network
	socket  *stdnet.TCPListener
	plane   net.Plane
}

// Listen accepts connections on addr, HOST:PORT, for a plane. It gives the address
// in full, which tells the port when 0 was asked for.
func (n *Network) Listen(addr string, plane net.Plane) (string, error) {
	l, err := n.Bind(addr, plane)
	if err != nil {
		return "", err
	}
	l.Accept()
	return l.Addr(), nil
}

// Bind takes the port of addr, HOST:PORT, for a plane.
func (n *Network) Bind(addr string, plane net.Plane) (*Listener, error) {
	l, err := new(stdnet.ListenConfig).Listen(n.closing, "tcp", addr)
	switch {
	case errors.Is(err, context.Canceled):
		return nil, ErrClosed
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%w: another program listens on %s: stop it, or choose another address", ErrInUse, addr)
	case err != nil:
		return nil, fmt.Errorf("cannot listen on %s: %w", addr, err)
	}
	socket := l.(*stdnet.TCPListener)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		socket.Close()
		return nil, ErrClosed
	}
	n.listeners = append(n.listeners, socket)
	return &Listener{network: n, socket: socket, plane: plane}, nil
}

// Addr is the address in full.
func (l *Listener) Addr() string { return l.socket.Addr().String() }

// Accept begins to take in connections. It is called once.
func (l *Listener) Accept() {
	n := l.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.tasks.Go(func() { n.accept(l.socket.AcceptTCP, l.plane) })
	}
}

// Close gives the port back; what was accepted lives on.
func (l *Listener) Close() { l.socket.Close() }

// accept takes in connections until the listener is closed.
func (n *Network) accept(next func() (*stdnet.TCPConn, error), plane net.Plane) {
	pause := acceptPauseMin
	for {
		socket, err := next()
		switch {
		case err == nil:
			pause = acceptPauseMin
			n.serve(socket, plane)
			continue
		case errors.Is(err, stdnet.ErrClosed):
			return
		}
		n.acceptErrors.Add(1)
		select {
		case <-time.After(pause):
			pause = min(2*pause, acceptPauseMax)
		case <-n.closing.Done():
			return
		}
	}
}

func (n *Network) serve(socket *stdnet.TCPConn, plane net.Plane) {
	c := newConn(n, n.options.NextID(), plane)
	if !n.adopt(c) {
		socket.Close()
		return
	}
	go c.run(socket)
}

// run is the task that adopt counted.
func (c *conn) run(socket *stdnet.TCPConn) {
	if c.attach(socket) {
		c.read()
	} else {
		c.network.tasks.Done()
	}
}

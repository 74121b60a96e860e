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

// Listen accepts connections on addr, HOST:PORT, for a plane. It gives the address
// in full, which tells the port when 0 was asked for.
func (n *Network) Listen(addr string, plane net.Plane) (string, error) {
	l, err := new(stdnet.ListenConfig).Listen(n.closing, "tcp", addr)
	switch {
	case errors.Is(err, context.Canceled):
		return "", ErrClosed
	case errors.Is(err, syscall.EADDRINUSE):
		return "", fmt.Errorf("%w: another program listens on %s: stop it, or choose another address", ErrInUse, addr)
	case err != nil:
		return "", fmt.Errorf("cannot listen on %s: %w", addr, err)
	}
	listener := l.(*stdnet.TCPListener)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		listener.Close()
		return "", ErrClosed
	}
	n.listeners = append(n.listeners, listener)
	n.tasks.Go(func() { n.accept(listener.AcceptTCP, plane) })
	return listener.Addr().String(), nil
}

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
	defer c.network.tasks.Done()
	if c.attach(socket) {
		c.read()
	}
}

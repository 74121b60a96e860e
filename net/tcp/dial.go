package tcp

import (
	"context"
	stdnet "net"

	"github.com/mortarmq/mortarmq/net"
)

// dial begins a connection to addr.
func (n *Network) dial(id net.ConnID, addr string) {
	c := newConn(n, id, net.PlaneDialed)
	ctx, cancel := context.WithTimeout(n.closing, n.options.DialTimeout)
	c.cancel = cancel
	if !n.adopt(c) {
		cancel()
		return
	}
	go c.connect(ctx, addr)
}

// connect is the task that adopt counted; it hands that on to run, whose stack is
// a fresh one.
func (c *conn) connect(ctx context.Context, addr string) {
	var dialer stdnet.Dialer
	socket, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		c.finish(net.CauseRefused)
		c.network.tasks.Done()
		return
	}
	c.mu.Lock()
	c.cancel()
	c.cancel = nil
	c.mu.Unlock()
	go c.run(socket.(*stdnet.TCPConn))
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/mortarmq/mortarmq/client"
)

// dial connects to the broker and tells on stderr when the connection comes and
// goes.
func (c *call) dial(ctx context.Context) (*client.Client, error) {
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	addrs, err := c.addrList()
	if err != nil {
		return nil, err
	}
	connected, lost := atomic.Bool{}, atomic.Bool{}
	cl, err := client.Dial(ctx, client.Options{Addrs: addrs, Token: token, OnConnection: func(addr string, err error) {
		switch {
		case err != nil && lost.Swap(true):
		case err != nil && connected.Load():
			fmt.Fprintf(c.Stderr, "mortarmq: connection to %s lost (%s), trying again\n", addr, plain(err))
		case err != nil && !errors.Is(err, client.ErrUnauthorized):
			fmt.Fprintf(c.Stderr, "mortarmq: no connection to %s (%s), trying again\n", addr, plain(err))
		case err == nil:
			connected.Store(true)
			if lost.Swap(false) {
				fmt.Fprintf(c.Stderr, "mortarmq: connected to %s\n", addr)
			}
		}
	}})
	switch {
	case errors.Is(err, client.ErrNoBroker):
		return nil, noBrokerError{fmt.Errorf("%w: is mortarmqd running? --addr chooses another address", err)}
	case errors.Is(err, client.ErrUnauthorized) && token == "":
		return nil, errNoToken
	}
	return cl, err
}

// declare makes sure that the command's topic is there. One that was not may be a
// mistyped name, so it is told.
func (c *call) declare(ctx context.Context, cl *client.Client) error {
	topic, err := cl.Declare(ctx, c.args[0], 0)
	if err == nil && topic.Created {
		fmt.Fprintf(c.Stderr, "mortarmq: created topic %s with %d partitions\n", c.args[0], topic.Partitions)
	}
	return err
}

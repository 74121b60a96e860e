package client

import "github.com/mortarmq/mortarmq/net/tcp"

// newNetwork makes what moves this client's bytes; notify is called when there is something to poll.
func newNetwork(notify func()) network { return tcp.New(tcp.Options{Wake: notify}) }

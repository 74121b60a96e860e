package host

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mortarmq/mortarmq/clock/osclock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/disk/osdisk"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/net/tcp"
	"github.com/mortarmq/mortarmq/node"
)

// turnBytesMax bounds the client bytes that one turn takes in.
const turnBytesMax = 4 << 20

// storage is the disk as the host uses it; tests put one in between that stalls.
type storage interface {
	disk.Disk
	ClaimInline(reqs []disk.Request) bool
	RunInline(reqs []disk.Request, into []disk.Completion, keep func() bool) ([]disk.Completion, bool)
	Counters() disk.Counters
	Close() error
}

// Options are what a host needs beside the node's own configuration.
type Options struct {
	DataDir      string
	ListenClient string
	Node         node.Config
	Log          *slog.Logger
}

// Host drives one node.
type Host struct {
	log      *slog.Logger
	clock    *osclock.Clock
	disk     storage
	net      *tcp.Network
	listener *tcp.Listener
	node     *node.Node
	queries  queryInbox
	loop     *loop // for who has the baton
	baton    baton
	stop     atomic.Int32
	tasks    sync.WaitGroup // the loop, and who was left behind with a stalled disk
	opened   time.Time
}

// Open takes the port and then the directory, which it makes if need be, and prepares the node; Run starts it.
// Its errors are for the operator: they name what is in the way. Clients that come
// before the node serves wait until it does.
func Open(o Options) (*Host, error) {
	h := &Host{log: o.Log, clock: osclock.New(), baton: newBaton(), opened: time.Now()}
	h.net = tcp.New(tcp.Options{Wake: h.baton.call, Arrived: h.visit})
	var err error
	if h.listener, err = h.net.Bind(o.ListenClient, net.PlaneClient); err != nil {
		h.Close()
		return nil, fmt.Errorf("listen_client: %w", err)
	}
	files, err := osdisk.Open(o.DataDir, h.baton.call)
	if err != nil {
		h.Close()
		return nil, err
	}
	h.disk = files
	if o.Node.Session.AdvertisedAddr == "" {
		o.Node.Session.AdvertisedAddr = h.listener.Addr()
	}
	if h.node, err = node.New(o.Node); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// ClientAddr gives the address that clients connect to.
func (h *Host) ClientAddr() string { return h.listener.Addr() }

// Stop asks the node to drain and end. A second call ends it at once.
func (h *Host) Stop() {
	h.stop.Add(1)
	h.baton.call()
}

// Run drives the node until it exits. It returns nil after a drain that was
// asked for, and an error that says what ended the node otherwise.
func (h *Host) Run(ctx context.Context) error {
	release := context.AfterFunc(ctx, h.Stop)
	defer release()
	l := newLoop(h)
	h.loop = l
	h.tasks.Go(l.begin)
	err := <-l.ended
	l.watch.stop()
	l.timer.Stop()
	return err
}

// Close gives the port, the goroutines and the directory back. It waits for the
// disk.
func (h *Host) Close() {
	h.queries.close()
	h.net.Close()
	if h.disk != nil {
		h.disk.Close()
	}
	h.tasks.Wait()
}

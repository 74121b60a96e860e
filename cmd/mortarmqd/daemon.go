package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/cmd/internal/version"
	"github.com/mortarmq/mortarmq/node"
	"github.com/mortarmq/mortarmq/node/admin"
	"github.com/mortarmq/mortarmq/node/config"
	"github.com/mortarmq/mortarmq/node/host"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/session"
	"github.com/mortarmq/mortarmq/node/store"
)

// Main is one run of the program. Tests start it as main does.
type Main struct {
	Args    []string
	Stdout  io.Writer
	Stderr  io.Writer
	Signals <-chan os.Signal
	// Ready, when it is set, is told the addresses once the ports are open.
	Ready func(client, admin string)
}

// Run serves until a signal ends it, and gives the exit code: 0 after a drain, 1
// when it could not start or could not go on.
func (m Main) Run() int {
	c, err := config.Load(m.Args, m.Stdout)
	if errors.Is(err, config.ErrHelp) {
		return 0
	}
	if err != nil {
		return m.fail(err)
	}
	if c.VersionOnly {
		fmt.Fprintln(m.Stdout, "mortarmqd", version.String())
		return 0
	}
	if c.CheckOnly {
		if err := c.Print(m.Stdout); err != nil {
			return m.fail(err)
		}
		return 0
	}
	if err := m.serve(c); err != nil {
		return m.fail(err)
	}
	return 0
}

func (m Main) fail(err error) int {
	fmt.Fprintf(m.Stderr, "mortarmqd: %v\n", err)
	return 1
}

func (m Main) serve(c *config.Config) error {
	tune.Do(func() {
		runtime.GOMAXPROCS(processors(runtime.GOMAXPROCS(0), os.Getenv("GOMAXPROCS")))
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(gcPercent)
		}
	})
	log := newLogger(c, m.Stderr)
	// Ports come first: a start that fails for one leaves no directory behind.
	port, err := admin.Bind(c.ListenAdmin)
	if err != nil {
		return err
	}
	h, err := host.Open(hostOptions(c, log))
	if err != nil {
		port.Close()
		return err
	}
	defer func() {
		if !within(closeMax, h.Close) {
			log.Warn("the disk still holds a call: ending without it")
		}
	}()
	a := admin.Serve(port, c.ListenAdmin, h, admin.Options{TokenDigests: c.TokenDigests, NoMetrics: !c.MetricsEnabled})
	defer a.Close()
	log.Info("listening", "client", h.ClientAddr(), "admin", a.Addr(), "data_dir", c.DataDir)
	if m.Ready != nil {
		m.Ready(h.ClientAddr(), a.Addr())
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case <-m.Signals:
				h.Stop()
			case <-ended:
				return
			}
		}
	}()
	if err := h.Run(context.Background()); err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

// closeMax bounds how long a broker that has stopped waits for calls that the disk
// holds: nothing was promised of them.
const closeMax = time.Second

// within calls f and waits for its end, but not for longer than limit.
func within(limit time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() {
		f()
		close(done)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// tune is done once in a process, however many runs it has.
var tune sync.Once

// gcPercent is how much garbage the heap may hold beside what lives. The state is
// in pages without pointers and a steady path allocates nothing, so collections
// are rare and cheap: half the usual keeps a full ledger small. GOGC overrides it.
const gcPercent = 50

// processors gives how many the process is to have. While the loop waits in a
// system call for the disk its processor is lent out only after a while; one more
// than the runtime gives - the machine's, or those of the container's limit - keeps
// the readers going meanwhile. What an operator set stays as it is.
func processors(given int, set string) int {
	if set != "" {
		return given
	}
	return given + 1
}

func newLogger(c *config.Config, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		level = slog.LevelInfo
	}
	o := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// storeReserve gives the reserve as the store takes it, where 0 stands for the
// default: a part that is 0 is the smaller one, so nothing is kept free.
func storeReserve(r config.Reserve) config.Reserve {
	if r.Percent == 0 || r.Bytes == 0 {
		return config.Reserve{Percent: -1, Bytes: -1}
	}
	return r
}

func hostOptions(c *config.Config, log *slog.Logger) host.Options {
	reserve := storeReserve(c.StorageReserve)
	o := host.Options{DataDir: c.DataDir, ListenClient: c.ListenClient, Log: log}
	o.Node = node.Config{
		Version: version.String(),
		Settings: op.Settings{
			DeliveryMaxAttempts:   c.DeliveryMaxAttempts,
			RetryBackoffBaseMs:    c.RetryBackoffBaseMs,
			RetryBackoffMaxMs:     c.RetryBackoffMaxMs,
			PartitionDefaultCount: c.PartitionDefaultCount,
			MaxTopics:             c.MaxTopics,
		},
		Session: session.Config{
			NodeID:           c.NodeID,
			TokenDigests:     c.TokenDigests,
			MaxConnections:   c.MaxConnections,
			PublishRateLimit: int(c.PublishRateLimit),
			PollMaxWait:      clock.Duration(c.PollMaxWaitMs) * clock.Millisecond,
			DeliveryLease:    clock.Duration(c.DeliveryLeaseMs) * clock.Millisecond,
			CreditCount:      c.CreditInitialCount,
			CreditBytes:      c.CreditInitialBytes,
		},
		Store: store.Options{
			NodeID:                  c.NodeID,
			SegmentMaxBytes:         c.SegmentMaxBytes,
			MetadataSnapshotRecords: c.MetadataSnapshotRecords,
			ReservePercent:          reserve.Percent,
			ReserveBytes:            reserve.Bytes,
		},
	}
	// crypto/rand.Read never fails: it ends the program instead.
	rand.Read(o.Node.NewClusterID[:])
	return o
}

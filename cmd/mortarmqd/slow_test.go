package main

import (
	"context"
	"flag"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/client"
)

var (
	slowMessages = flag.Int("slow.messages", 5_000, "messages in each partition of TestSlowMember")
	slowRuns     = flag.Int("slow.runs", 1, "how often TestSlowMember measures with and without the slow member")
)

// Goal: a member that holds its full credit and settles nothing holds up nobody
// else: seven others drain all their partitions beside it, and it has got just
// its credit. Their throughput is logged beside that of seven alone.
func TestSlowMember(t *testing.T) {
	p := start(t, "--data-dir", t.TempDir(), "--listen-client", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var ratios []float64
	for range *slowRuns {
		alone := drainBeside(ctx, t, p, 0)
		beside := drainBeside(ctx, t, p, 1)
		ratios = append(ratios, beside/alone)
		t.Logf("seven members: %.0f/s alone, %.0f/s beside one that holds its credit", alone, beside)
	}
	slices.Sort(ratios)
	t.Logf("ratio %.2f (%.2f to %.2f)", ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1])
}

// drainBeside gives how many messages a second seven members settle, two full
// partitions each, beside slow members that settle none.
func drainBeside(ctx context.Context, t *testing.T, p *process, slow int) float64 {
	t.Helper()
	const working, credit = 7, 256
	c := &slowCrew{credit: credit, want: int64(2 * working * *slowMessages), full: make(chan struct{}), drained: make(chan struct{})}
	admin, err := client.Dial(ctx, client.Options{Addrs: []string{p.client}})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.Declare(ctx, "orders", 2*(working+slow)); err != nil {
		t.Fatal(err)
	}
	run, stop := context.WithCancel(ctx)
	defer stop()
	for i := range working + slow {
		c.join(run, t, p, i < slow)
	}
	c.waitBalanced(ctx, t)
	for _, m := range c.members {
		m.Pause()
	}
	publishEvenly(ctx, t, p, 2*(working+slow), 2*(working+slow)**slowMessages)
	for _, m := range c.members[:slow] {
		m.Resume()
	}
	if slow > 0 {
		wait(ctx, t, c.full)
	}
	began := time.Now()
	for _, m := range c.members[slow:] {
		m.Resume()
	}
	wait(ctx, t, c.drained)
	took := time.Since(began)
	if n := c.held.Load(); n != int64(slow*credit) {
		t.Fatalf("slow members hold %d messages, the credit of each is %d", n, credit)
	}
	stop()
	c.running.Wait()
	if _, err := admin.DeleteTopic(ctx, "orders"); err != nil {
		t.Fatal(err)
	}
	return float64(c.want) / took.Seconds()
}

// slowCrew is a group of members of which some hold what they get.
type slowCrew struct {
	credit, want  int64
	held, settled atomic.Int64
	full, drained chan struct{}
	members       []*client.Consumer
	running       sync.WaitGroup
}

func (c *slowCrew) join(ctx context.Context, t *testing.T, p *process, slow bool) {
	t.Helper()
	cl, err := client.Dial(ctx, client.Options{Addrs: []string{p.client}})
	if err != nil {
		t.Fatal(err)
	}
	opt := client.ConsumerOptions{CreditCount: 8192, CreditBytes: 32 << 20, StopGrace: time.Millisecond}
	handler := func(context.Context, *client.Delivery) error {
		if c.settled.Add(1) == c.want {
			close(c.drained)
		}
		return nil
	}
	if slow {
		opt.CreditCount, opt.PartitionHandlers = uint16(c.credit), int(c.credit)
		handler = func(ctx context.Context, _ *client.Delivery) error {
			if c.held.Add(1) == c.credit {
				close(c.full)
			}
			<-ctx.Done()
			return ctx.Err()
		}
	}
	m, err := cl.Consumer(ctx, "orders", "crew", opt)
	if err != nil {
		t.Fatal(err)
	}
	c.members = append(c.members, m)
	c.running.Go(func() {
		_ = m.Run(ctx, handler) // ends with ctx
		cl.Close()
	})
}

// waitBalanced waits until each member has its two partitions.
func (c *slowCrew) waitBalanced(ctx context.Context, t *testing.T) {
	t.Helper()
	for slices.ContainsFunc(c.members, func(m *client.Consumer) bool { return len(m.Assigned()) != 2 }) {
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
		time.Sleep(time.Millisecond)
	}
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/client"
	"github.com/mortarmq/mortarmq/node/admin"
)

var unsettledMessages = flag.Int("unsettled.messages", 64_000, "how many messages TestUnsettled leaves unsettled, a multiple of 16")

// Goal: a ledger full of messages that wait for hours costs bounded memory (at
// most 400 MiB for a million over 16 partitions, fewer in proportion), survives
// a SIGKILL, gives nothing out early, and lets new messages flow past.
func TestUnsettled(t *testing.T) {
	const partitions = 16
	args := []string{"--data-dir", t.TempDir(), "--listen-client", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0"}
	p := start(t, args...)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	total := int64(*unsettledMessages)
	begin := time.Now()
	publishEvenly(ctx, t, p, partitions, int(total))
	published := time.Since(begin)

	cl, err := client.Dial(ctx, client.Options{Addrs: []string{p.client}})
	if err != nil {
		t.Fatal(err)
	}
	var taken atomic.Int64
	all := make(chan struct{})
	later := errors.New("not now")
	c, err := cl.Consumer(ctx, "orders", "late", client.ConsumerOptions{CreditCount: 4096, CreditBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	begin = time.Now()
	go c.Run(ctx, func(context.Context, *client.Delivery) error {
		if taken.Add(1) == total {
			close(all)
		}
		return client.RetryAfter(10*time.Hour, later)
	})
	wait(ctx, t, all)
	if err := c.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	cl.Close()
	delayed := time.Since(begin)
	before := p.residentKiB()
	p.kill()

	begin = time.Now()
	p = start(t, args...)
	p.serving()
	restart := time.Since(begin)
	after := p.residentKiB()
	limit := 50<<10 + int(total*350/1000)
	t.Logf("%d messages published in %v, delayed in %v: %d KiB resident; restart %v, then %d KiB", total, published, delayed, before, restart, after)
	if before > limit || after > limit {
		t.Fatalf("%d and %d KiB resident, at most %d", before, after, limit)
	}
	var g admin.Group
	if p.getJSON("/v1/groups/late", &g); g.Lag != uint64(total) {
		t.Fatalf("lag %d, %d are unsettled", g.Lag, total)
	}
	flowPast(ctx, t, p, partitions, uint64(total)/partitions)
}

// publishEvenly gives each partition of topic orders the same number of messages.
func publishEvenly(ctx context.Context, t *testing.T, p *process, partitions int, total int) {
	t.Helper()
	cl, err := client.Dial(ctx, client.Options{Addrs: []string{p.client}})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := cl.Declare(ctx, "orders", partitions); err != nil {
		t.Fatal(err)
	}
	producer, err := cl.Producer(ctx, "orders", client.ProducerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 100)
	for i := range total {
		m := client.Message{Partition: client.InPartition(uint16(i % partitions)), Value: value}
		if err := producer.PublishAsync(ctx, m, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := producer.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// flowPast publishes one more message to each partition and sees that these,
// and nothing else, are delivered.
func flowPast(ctx context.Context, t *testing.T, p *process, partitions int, old uint64) {
	t.Helper()
	cl, err := client.Dial(ctx, client.Options{Addrs: []string{p.client}})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	c, err := cl.Consumer(ctx, "orders", "late", client.ConsumerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var taken atomic.Int64
	all := make(chan struct{})
	go c.Run(ctx, func(_ context.Context, d *client.Delivery) error {
		if d.Sequence <= old {
			t.Errorf("partition %d: %d came before its time", d.Partition, d.Sequence)
		}
		if taken.Add(1) == int64(partitions) {
			close(all)
		}
		return nil
	})
	publishEvenly(ctx, t, p, partitions, partitions)
	wait(ctx, t, all)
	if err := c.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}

func wait(ctx context.Context, t *testing.T, done chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatal(fmt.Errorf("not all came: %w", ctx.Err()))
	}
}

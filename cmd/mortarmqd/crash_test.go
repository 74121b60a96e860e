package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/mortarmq/mortarmq/client"
)

var (
	crashKills    = flag.Int("crash.kills", 3, "how often TestKill kills the broker")
	crashMessages = flag.Int("crash.messages", 30_000, "how many messages TestKill publishes")
	crashSeed     = flag.Uint64("crash.seed", 1, "when TestKill kills")
)

// Goal: a real broker process, killed with SIGKILL in the middle of a stream of
// publishes again and again, has every acknowledged message afterwards, each
// once, each key's in order.
func TestKill(t *testing.T) {
	const keys = 16
	dir := t.TempDir()
	p := start(t, "--data-dir", dir, "--listen-client", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0")
	ctx := context.Background()
	cl, err := client.Dial(ctx, client.Options{Addrs: []string{p.client}})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	producer, err := cl.Producer(ctx, "crash", client.ProducerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The killer is told after each acknowledgement how many there are.
	rng := rand.New(rand.NewPCG(*crashSeed, 0))
	kills := make(map[int64]bool)
	for len(kills) < *crashKills {
		kills[1+rng.Int64N(int64(*crashMessages)*9/10)] = true
	}
	kill := make(chan struct{}, *crashKills)
	killed := make(chan struct{})
	args := []string{"--data-dir", dir, "--listen-client", p.client, "--listen-admin", p.admin}
	go func() {
		defer close(killed)
		for range *crashKills {
			<-kill
			p.kill()
			p = start(t, args...)
		}
	}()
	var acked atomic.Int64
	var failed atomic.Pointer[error]
	for i := range *crashMessages {
		value := binary.BigEndian.AppendUint64(nil, uint64(i))
		err := producer.PublishAsync(ctx, client.Message{Key: fmt.Appendf(nil, "key-%d", i%keys), Value: value}, func(_ client.Result, err error) {
			if err != nil {
				failed.Store(&err)
			}
			if kills[acked.Add(1)] {
				kill <- struct{}{}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := producer.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if err := failed.Load(); err != nil {
		t.Fatalf("an idempotent publish was given up: %v", *err)
	}
	<-killed
	checkLog(t, p, keys)
	if code := p.term(); code != 0 {
		t.Fatalf("exit %d after SIGTERM", code)
	}
}

// checkLog holds the log against what was published: numbers 0, 1, 2 ... dealt
// out to the keys in turn.
func checkLog(t *testing.T, p *process, keys int) {
	t.Helper()
	next := make([]int, keys)
	for k := range next {
		next[k] = k
	}
	total := 0
	for part, records := range p.log("crash") {
		for i, r := range records {
			if r.Sequence != uint64(i+1) {
				t.Fatalf("partition %d: sequence %d at place %d", part, r.Sequence, i)
			}
			var k int
			if _, err := fmt.Sscanf(string(r.Key), "key-%d", &k); err != nil {
				t.Fatal(err)
			}
			n := int(binary.BigEndian.Uint64(r.Value))
			if n != next[k] {
				t.Fatalf("key %d: message %d where %d was due (partition %d, sequence %d)", k, n, next[k], part, r.Sequence)
			}
			next[k] += keys
			total++
		}
	}
	if total != *crashMessages {
		t.Fatalf("%d messages in the log, %d were acknowledged", total, *crashMessages)
	}
}

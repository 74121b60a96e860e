package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/client"
	"github.com/mortarmq/mortarmq/node/admin"
)

var (
	groupSeconds = flag.Int("group.seconds", 5, "how long TestGroupKilled publishes")
	groupRate    = flag.Int("group.rate", 2000, "messages a second that TestGroupKilled publishes")
	groupKill    = flag.Duration("group.kill", 700*time.Millisecond, "how often TestGroupKilled kills a consumer")
)

// asConsumer makes the test binary a consumer of topic "work" in group "crew": it
// takes address and file from its arguments, and notes each message in the file
// before it acknowledges it.
const asConsumer = "MORTARMQD_TEST_RUNS_CONSUMER"

func runConsumer(addr, file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	ctx := context.Background()
	cl, err := client.Dial(ctx, client.Options{Addrs: []string{addr}})
	if err != nil {
		return err
	}
	defer cl.Close()
	c, err := cl.Consumer(ctx, "work", "crew", client.ConsumerOptions{})
	if err != nil {
		return err
	}
	return c.Run(ctx, func(_ context.Context, d *client.Delivery) error {
		_, err := fmt.Fprintf(f, "%d %d %d\n", d.Partition, d.Sequence, time.Now().UnixNano())
		return err
	})
}

// member is one consumer process that is killed and started again.
type member struct {
	addr, file string
	cmd        *exec.Cmd
}

func (m *member) start(t *testing.T) {
	m.cmd = exec.Command(os.Args[0], m.addr, m.file)
	m.cmd.Env = append(os.Environ(), asConsumer+"=1")
	m.cmd.Stderr = os.Stderr
	if err := tether(m.cmd); err != nil {
		t.Error(err)
	}
	if err := m.cmd.Start(); err != nil {
		t.Error(err)
	}
}

func (m *member) kill() {
	m.cmd.Process.Kill()
	m.cmd.Wait()
}

type place struct {
	partition uint16
	sequence  uint64
}

// Goal: a group of four consumer processes over twelve partitions, one of them
// killed and started again all the time under load, gets every message: each
// ends acknowledged or as a listed dead letter, and the books say the same.
func TestGroupKilled(t *testing.T) {
	p := start(t, "--data-dir", t.TempDir(), "--listen-client", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0", "--retry-backoff-base-ms", "100", "--retry-backoff-max-ms", "200")
	ctx := context.Background()
	cl, err := client.Dial(ctx, client.Options{Addrs: []string{p.client}})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := cl.Declare(ctx, "work", 12); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var crew []*member
	for i := range 4 {
		m := &member{addr: p.client, file: filepath.Join(dir, fmt.Sprint(i))}
		m.start(t)
		crew = append(crew, m)
	}
	published, kills := publishWhileKilling(t, cl, crew)
	waitSettled(t, p, published)
	for _, m := range crew {
		m.kill()
	}
	seen, still := readNotes(t, crew)
	dead := deadLetters(t, p)
	for _, d := range dead {
		seen[place{d.SourcePartition, d.SourceSequence}]++
	}
	if len(seen) != published {
		t.Fatalf("%d of %d messages were handled or dead-lettered", len(seen), published)
	}
	totals := (&scraper{t: t, url: "http://" + p.admin + "/metrics"}).scrape()
	delivered, dropped := totals["delivered work crew"], totals["dropped work crew"]
	t.Logf("%d published, %d kills, %.0f acknowledged, %d dead letters, longest stand-still of a partition %v", published, kills, delivered, len(dead), still)
	if int(delivered+dropped) != published || int(dropped) != len(dead) {
		t.Fatalf("delivered %.0f + dropped %.0f, published %d, dead letters %d", delivered, dropped, published, len(dead))
	}
}

// publishWhileKilling publishes for the test's time and kills one of the crew
// after the other.
func publishWhileKilling(t *testing.T, cl *client.Client, crew []*member) (published, kills int) {
	ctx := context.Background()
	producer, err := cl.Producer(ctx, "work", client.ProducerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() {
		tick := time.NewTicker(*groupKill)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				m := crew[kills%len(crew)]
				m.kill()
				m.start(t)
				kills++
			}
		}
	})
	value := make([]byte, 256)
	begin := time.Now()
	for time.Since(begin) < time.Duration(*groupSeconds)*time.Second {
		if int(time.Since(begin).Seconds()*float64(*groupRate)) <= published {
			time.Sleep(time.Millisecond)
			continue
		}
		if err := producer.PublishAsync(ctx, client.Message{Key: fmt.Append(nil, published), Value: value}, nil); err != nil {
			t.Fatal(err)
		}
		published++
	}
	close(stop)
	killer.Wait()
	if err := producer.Close(ctx); err != nil {
		t.Fatal(err)
	}
	return published, kills
}

// waitSettled waits until the group has settled everything.
func waitSettled(t *testing.T, p *process, published int) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var g admin.Group
		p.getJSON("/v1/groups/crew", &g)
		total := uint64(0)
		for _, part := range g.Items {
			total += part.LastSeq
		}
		if g.Lag == 0 && total == uint64(published) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not settled: %+v", g)
		}
	}
}

func (p *process) getJSON(path string, body any) {
	p.t.Helper()
	resp, err := http.Get("http://" + p.admin + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(body); err != nil || resp.StatusCode != http.StatusOK {
		p.t.Fatalf("%s: %s %v", path, resp.Status, err)
	}
}

// readNotes gives what the crew handled, and the longest time that a partition
// got nothing.
func readNotes(t *testing.T, crew []*member) (map[place]int, time.Duration) {
	seen := map[place]int{}
	moments := map[uint16][]int64{}
	for _, m := range crew {
		data, err := os.ReadFile(m.file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
			var at place
			var nanos int64
			if _, err := fmt.Sscan(line, &at.partition, &at.sequence, &nanos); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			seen[at]++
			moments[at.partition] = append(moments[at.partition], nanos)
		}
	}
	return seen, longestGap(moments)
}

func longestGap(moments map[uint16][]int64) time.Duration {
	longest := int64(0)
	for _, m := range moments {
		slices.Sort(m)
		for i := 1; i < len(m); i++ {
			longest = max(longest, m[i]-m[i-1])
		}
	}
	return time.Duration(longest)
}

// deadLetters lists those of topic "work".
func deadLetters(t *testing.T, p *process) []admin.DeadLetter {
	t.Helper()
	var all []admin.DeadLetter
	for from := ""; ; {
		var page admin.DeadLetters
		p.getJSON("/v1/dlq?topic=work&max=100&from="+from, &page)
		all = append(all, page.Items...)
		if page.Done {
			return all
		}
		from = strings.Trim(strings.ReplaceAll(fmt.Sprint(page.Next), " ", ","), "[]")
	}
}

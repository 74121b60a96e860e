package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/mortarmq/mortarmq/client"
)

var (
	accountingKills    = flag.Int("accounting.kills", 2, "how often TestAccountingScrapes kills the broker")
	accountingMessages = flag.Int("accounting.messages", 10_000, "how many messages it publishes, a multiple of 100")
)

// Goal: in every scrape of a real process, under load and across SIGKILLs, each
// group's counters add up, and no durable total ever falls; in the end every
// message is settled once, the rejected ones as dead letters.
func TestAccountingScrapes(t *testing.T) {
	dir := t.TempDir()
	args := []string{"--data-dir", dir, "--listen-client", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0", "--storage-reserve", "0%", "--retry-backoff-base-ms", "100"}
	p := start(t, args...)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	s := &scraper{t: t, url: "http://" + p.admin + "/metrics"}
	publish, consume := s.dial(ctx, p), s.dial(ctx, p)
	producer, err := publish.Producer(ctx, "orders", client.ProducerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var consumers []*client.Consumer
	for range 2 {
		c, err := consume.Consumer(ctx, "orders", "billing", client.ConsumerOptions{RetryBackoffMax: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		consumers = append(consumers, c)
		wg.Go(func() {
			if err := c.Run(ctx, handle); err != nil {
				t.Errorf("the consumer ended: %v", err)
			}
		})
	}
	var published atomic.Int64
	wg.Go(func() {
		for i := range *accountingMessages {
			value := binary.BigEndian.AppendUint64(nil, uint64(i))
			err := producer.PublishAsync(ctx, client.Message{Key: fmt.Append(nil, i%32), Value: value}, func(client.Result, error) { published.Add(1) })
			if err != nil {
				t.Errorf("publish: %v", err)
				return
			}
		}
		if err := producer.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	for k := range *accountingKills {
		for published.Load() < int64((k+1)**accountingMessages/(*accountingKills+1)) && ctx.Err() == nil {
			s.scrape()
		}
		p.kill()
		p = start(t, append(args, "--listen-client", p.client, "--listen-admin", p.admin)...)
	}
	var last map[string]float64
	for ctx.Err() == nil {
		last = s.scrape()
		if last["produced orders"] == float64(*accountingMessages) && last["lag orders billing"] == 0 {
			break
		}
	}
	for _, c := range consumers {
		if err := c.Stop(ctx); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	dead := float64(*accountingMessages / 100)
	if last["dlq orders billing"] != dead || last["delivered orders billing"] != float64(*accountingMessages)-dead || last["produced orders.dlq"] != dead {
		t.Fatalf("%d messages: %v", *accountingMessages, last)
	}
	t.Logf("%d scrapes, %d of them with messages in flight", s.scrapes, s.busy)
	if s.busy == 0 {
		t.Fatal("no scrape saw a message in flight: the test proves nothing")
	}
	if code := p.term(); code != 0 {
		t.Fatalf("exit %d after SIGTERM", code)
	}
}

// handle rejects one message of a hundred, and fails another one once.
func handle(_ context.Context, d *client.Delivery) error {
	switch i := binary.BigEndian.Uint64(d.Value); {
	case i%100 == 7:
		return client.Reject(errors.New("bad"))
	case i%100 == 13 && d.Attempt == 1:
		return errors.New("try again")
	}
	return nil
}

// scraper asks for /metrics and holds each answer against the accounting.
type scraper struct {
	t       *testing.T
	url     string
	before  map[string]float64
	scrapes int
	busy    int
}

func (s *scraper) dial(ctx context.Context, p *process) *client.Client {
	s.t.Helper()
	c, err := client.Dial(ctx, client.Options{Addrs: []string{p.client}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

// scrape gives the counters of topics and groups, as "name topic group".
func (s *scraper) scrape() map[string]float64 {
	s.t.Helper()
	resp, err := http.Get(s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		s.t.Fatal(resp.Status)
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	now := map[string]float64{}
	for full, name := range map[string]string{
		"mortarmq_topic_messages_produced_total": "produced", "mortarmq_topic_messages_delivered_total": "delivered", "mortarmq_topic_messages_dropped_total": "dropped",
		"mortarmq_topic_messages_dlq_total": "dlq", "mortarmq_group_lag": "lag", "mortarmq_group_in_flight": "in_flight", "mortarmq_group_start": "start",
		"mortarmq_group_retries_total": "retries", "mortarmq_topic_bytes_total": "bytes",
	} {
		for _, m := range families[full].GetMetric() {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			v := m.GetCounter().GetValue() + m.GetGauge().GetValue()
			now[strings.TrimSpace(name+" "+labels["topic"]+" "+labels["group"])] = v
		}
	}
	s.check(now)
	return now
}

func (s *scraper) check(now map[string]float64) {
	s.t.Helper()
	if _, serves := now["produced orders"]; !serves {
		return // it recovers, or nothing was declared yet
	}
	s.scrapes++
	const g = " orders billing"
	if now["produced orders"]-now["start"+g] != now["delivered"+g]+now["dropped"+g]+now["lag"+g] || now["dlq"+g] > now["dropped"+g] || now["in_flight"+g] > now["lag"+g] {
		s.t.Fatalf("a scrape does not add up: %v", now)
	}
	for _, total := range []string{"produced orders", "bytes orders", "delivered" + g, "dropped" + g, "dlq" + g, "retries" + g} {
		if now[total] < s.before[total] {
			s.t.Fatalf("%s fell from %v to %v", total, s.before[total], now[total])
		}
	}
	s.before = now
	if now["in_flight"+g] > 0 {
		s.busy++
	}
}

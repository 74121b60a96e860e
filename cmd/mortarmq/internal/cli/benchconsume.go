package cli

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/mortarmq/mortarmq/client"
)

// consumeColumns are those of bench --consume.
var consumeColumns = []string{"members", "publish_per_second", "consume_per_second", "consume_min", "consume_max", "ratio", "ratio_min", "ratio_max", "e2e_p50_us", "e2e_p99_us"}

// consumeFigures is what the runs with one number of members gave.
type consumeFigures struct {
	members          int
	publish, consume []float64 // messages a second
	ratio            []float64
	latency          *hdrhistogram.Histogram // microseconds
}

// benchConsume measures groups: for each number of members a backlog is
// published and then consumed with an explicit ACK for each message, and after
// that messages are published at half that rate while they are consumed, which
// gives the time from PUB sent to MSG read.
func benchConsume(ctx context.Context, c *call, o *benchOptions) error {
	var all []consumeFigures
	for _, s := range strings.Split(o.consume, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 || n > 10 {
			return usagef("--consume: %q is not a list of 1 to 10 members", o.consume)
		}
		all = append(all, consumeFigures{members: n, latency: hdrhistogram.New(1, 60_000_000, 3)})
	}
	if o.size < 8 {
		return usagef("--size: at least 8 bytes with --consume")
	}
	for run := range o.runs {
		for i := range all {
			f := &all[i]
			fmt.Fprintf(c.Stderr, "run %d of %d: %d members\n", run+1, o.runs, f.members)
			if err := c.consumeOnce(ctx, o, f, fmt.Sprintf("%s-consume-%d-%d-%d", o.topic, time.Now().UnixNano(), f.members, run)); err != nil {
				return err
			}
		}
	}
	t := c.tableOf(consumeColumns)
	for i := range all {
		f := &all[i]
		row := []any{f.members, spread(f.publish, 0)[0]}
		row = append(row, spread(f.consume, 0)...)
		row = append(row, spread(f.ratio, 2)...)
		row = append(row, f.latency.ValueAtQuantile(50), f.latency.ValueAtQuantile(99))
		t.row(row...)
	}
	return t.print()
}

// consumeOnce runs both halves on a topic of its own, which it deletes.
func (c *call) consumeOnce(ctx context.Context, o *benchOptions, f *consumeFigures, topic string) error {
	own := *o
	own.topic = topic
	var published figures
	rate, err := c.benchLoad(ctx, &own, load{64, 16}, &published)
	if err != nil {
		return err
	}
	admin, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	defer admin.DeleteTopic(context.WithoutCancel(ctx), topic)
	g, err := c.openGroup(ctx, topic, f.members)
	if err != nil {
		return err
	}
	consumed := g.drain(int64(published.sent))
	f.publish = append(f.publish, rate)
	f.consume = append(f.consume, consumed)
	f.ratio = append(f.ratio, consumed/rate)
	err = c.paced(ctx, &own, g, consumed/2, f.latency)
	g.close()
	return err
}

// group is the members of one consumer group in this process, each with a
// connection of its own.
type benchGroup struct {
	clients  []*client.Client
	wg       sync.WaitGroup
	stop     context.CancelFunc
	settled  atomic.Int64
	target   atomic.Int64
	reached  chan struct{}
	mu       sync.Mutex // around latency
	latency  *hdrhistogram.Histogram
	measured atomic.Bool
	begun    time.Time
}

func (c *call) openGroup(ctx context.Context, topic string, members int) (*benchGroup, error) {
	run, stop := context.WithCancel(ctx)
	g := &benchGroup{stop: stop, reached: make(chan struct{}, 1)}
	g.target.Store(-1)
	var consumers []*client.Consumer
	for range members {
		cl, err := c.dial(ctx)
		if err != nil {
			g.close()
			return nil, err
		}
		g.clients = append(g.clients, cl)
		s, err := cl.Consumer(ctx, topic, "bench", client.ConsumerOptions{MustExist: true, CreditCount: 8192, CreditBytes: 32 << 20})
		if err != nil {
			g.close()
			return nil, err
		}
		consumers = append(consumers, s)
	}
	g.begun = time.Now()
	for _, s := range consumers {
		g.wg.Go(func() { _ = s.Run(run, g.handle) }) // ends by close
	}
	return g, nil
}

func (g *benchGroup) handle(_ context.Context, d *client.Delivery) error {
	if g.measured.Load() {
		sent := int64(binary.BigEndian.Uint64(d.Value))
		g.mu.Lock()
		_ = g.latency.RecordValue(min(max(1, (time.Now().UnixNano()-sent)/1000), 60_000_000))
		g.mu.Unlock()
	}
	if g.settled.Add(1) == g.target.Load() {
		g.reached <- struct{}{}
	}
	return nil
}

// drain waits until n messages were handled and gives how many that was a
// second.
func (g *benchGroup) drain(n int64) float64 {
	g.target.Store(n)
	if g.settled.Load() < n {
		<-g.reached
	}
	return float64(n) / time.Since(g.begun).Seconds()
}

func (g *benchGroup) close() {
	g.stop()
	g.wg.Wait()
	for _, cl := range g.clients {
		cl.Close()
	}
}

// paced publishes rate messages a second for the load's time, each with the
// moment it was sent in front, and waits until all were consumed.
func (c *call) paced(ctx context.Context, o *benchOptions, g *benchGroup, rate float64, into *hdrhistogram.Histogram) error {
	g.latency = into
	cl, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	p, err := cl.Producer(ctx, o.topic, client.ProducerOptions{})
	if err != nil {
		return err
	}
	total := int64(rate * o.seconds)
	g.target.Store(g.settled.Load() + total)
	g.measured.Store(true)
	value := make([]byte, o.size)
	begin := time.Now()
	for i := range total {
		if due := begin.Add(time.Duration(float64(i) / rate * float64(time.Second))); time.Until(due) > 200*time.Microsecond {
			time.Sleep(time.Until(due))
		}
		binary.BigEndian.PutUint64(value, uint64(time.Now().UnixNano()))
		if err := p.PublishAsync(ctx, client.Message{Value: value}, nil); err != nil {
			return err
		}
	}
	if err := p.Close(ctx); err != nil {
		return err
	}
	select {
	case <-g.reached:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

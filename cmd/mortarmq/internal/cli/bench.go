package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/pflag"

	"github.com/mortarmq/mortarmq/wire"
)

type benchOptions struct {
	loads      string
	size       int
	seconds    float64
	runs       int
	topic      string
	partitions uint16
	deviceDir  string
	consume    string
}

func benchFlags(f *pflag.FlagSet, c *call) {
	o := &benchOptions{}
	c.values = o
	f.StringVar(&o.loads, "loads", "1x1,16x1,64x1,64x16", "connections x requests in flight on each, measured one after another")
	f.IntVar(&o.size, "size", 1024, "bytes of a message")
	f.Float64Var(&o.seconds, "seconds", 3, "seconds of each measurement, after half a second of warm-up")
	f.IntVar(&o.runs, "runs", 5, "how often everything is measured")
	f.StringVar(&o.topic, "topic", "bench", "topic to publish to; declared if it does not exist")
	f.Uint16Var(&o.partitions, "partitions", 4, "partitions of the topic")
	f.StringVar(&o.deviceDir, "device-dir", "", "directory on the broker's file system: measure the device's own limit there, beside each load")
	f.StringVar(&o.consume, "consume", "", "measure consuming instead, with so many members: a list such as 1,4")
}

type load struct{ connections, inFlight int }

func (o *benchOptions) parse() ([]load, error) {
	var loads []load
	for _, s := range strings.Split(o.loads, ",") {
		a, b, ok := strings.Cut(strings.TrimSpace(s), "x")
		conns, err1 := strconv.Atoi(a)
		flight, err2 := strconv.Atoi(b)
		if !ok || err1 != nil || err2 != nil || conns < 1 || conns > 10000 || flight < 1 || flight > wire.MaxUnansweredRequests {
			return nil, usagef("--loads: %q is not CONNECTIONSxINFLIGHT, such as 64x16", s)
		}
		loads = append(loads, load{conns, flight})
	}
	switch {
	case o.size < 0 || o.size > wire.MaxValueLen:
		return nil, usagef("--size: at most %d", wire.MaxValueLen)
	case o.seconds <= 0 || o.runs < 1:
		return nil, usagef("--seconds and --runs must be positive")
	case o.partitions < 1 || o.partitions > wire.MaxPartitions:
		return nil, usagef("--partitions: 1 to %d", wire.MaxPartitions)
	}
	return loads, nil
}

// figures is what the runs of one load gave.
type figures struct {
	perSecond, ratio []float64
	sent             uint64 // messages acknowledged, warm-up included
	latency          *hdrhistogram.Histogram
}

// bench measures each load, with the device's own limit right before and after
// it, several times over, and prints medians with their spread.
func bench(ctx context.Context, c *call) error {
	o := c.values.(*benchOptions)
	loads, err := o.parse()
	if err != nil {
		return err
	}
	// The library says best what is wrong with an address or a token.
	probe, err := c.dial(ctx)
	if err != nil {
		return err
	}
	probe.Close()
	if o.consume != "" {
		return benchConsume(ctx, c, o)
	}
	var dev *device
	if o.deviceDir != "" {
		if dev, err = openDevice(o.deviceDir); err != nil {
			return err
		}
		defer dev.close()
	}
	all := make([]figures, len(loads))
	var deviceRates []float64
	for run := range o.runs {
		for i, l := range loads {
			fmt.Fprintf(c.Stderr, "run %d of %d: %d connections, %d in flight on each\n", run+1, o.runs, l.connections, l.inFlight)
			before, err := measureDevice(dev)
			if err != nil {
				return err
			}
			rate, err := c.benchLoad(ctx, o, l, &all[i])
			if err != nil {
				return err
			}
			after, err := measureDevice(dev)
			if err != nil {
				return err
			}
			if dev != nil {
				limit := (before + after) / 2
				deviceRates = append(deviceRates, limit)
				all[i].ratio = append(all[i].ratio, rate/limit)
			}
		}
	}
	return c.printBench(loads, all, deviceRates)
}

func measureDevice(d *device) (float64, error) {
	if d == nil {
		return 0, nil
	}
	return d.measure(500 * time.Millisecond)
}

// benchLoad runs one load once and gives messages per second.
func (c *call) benchLoad(ctx context.Context, o *benchOptions, l load, f *figures) (float64, error) {
	token, err := c.token()
	if err != nil {
		return 0, err
	}
	addrs, err := c.addrList()
	if err != nil {
		return 0, err
	}
	conns := make([]*benchConn, l.connections)
	defer func() {
		for _, bc := range conns {
			if bc != nil {
				bc.close()
			}
		}
	}()
	for i := range conns {
		if conns[i], err = dialBench(ctx, addrs[0], token, o.topic, o.partitions, i, l.inFlight, o.size); err != nil {
			return 0, err
		}
	}
	span := time.Duration(o.seconds * float64(time.Second))
	warm := time.Now().Add(500 * time.Millisecond)
	end := warm.Add(span)
	errs := make([]error, len(conns))
	var wg sync.WaitGroup
	for i, bc := range conns {
		wg.Go(func() { errs[i] = bc.run(warm, end) })
	}
	wg.Wait()
	if f.latency == nil {
		f.latency = hdrhistogram.New(1, 60_000_000, 3)
	}
	total := 0
	for i, bc := range conns {
		if errs[i] != nil {
			return 0, errs[i]
		}
		total += bc.done
		f.sent += bc.seq
		f.latency.Merge(bc.latency)
	}
	rate := float64(total) / span.Seconds()
	f.perSecond = append(f.perSecond, rate)
	return rate, nil
}

func (c *call) printBench(loads []load, all []figures, device []float64) error {
	t := c.table()
	for i, l := range loads {
		f := &all[i]
		row := []any{l.connections, l.inFlight}
		row = append(row, spread(f.perSecond, 0)...)
		for _, q := range []float64{50, 99, 99.9} {
			row = append(row, f.latency.ValueAtQuantile(q))
		}
		row = append(row, spread(f.ratio, 2)...)
		t.row(row...)
	}
	if len(device) > 0 {
		d := spread(device, 0)
		fmt.Fprintf(c.Stderr, "device: %s overwrites of 4 KiB with fdatasync a second (%s to %s)\n", d[0], d[1], d[2])
	}
	return t.print()
}

// spread gives median, minimum and maximum, absent where there is none.
func spread(v []float64, decimals int) []any {
	if len(v) == 0 {
		return []any{absent{}, absent{}, absent{}}
	}
	v = slices.Clone(v)
	slices.Sort(v)
	return []any{number(v[len(v)/2], decimals), number(v[0], decimals), number(v[len(v)-1], decimals)}
}

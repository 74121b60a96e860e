package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/mortarmq/mortarmq/cmd/msgtrans/internal/bare"
	"github.com/mortarmq/mortarmq/net/msgtrans"
	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// subject is one of the things that are compared. call makes one request and waits
// for its answer; loop, where it is set, does everything from one goroutine.
type subject struct {
	name string
	call func() error
	loop func(inFlight int, took func(time.Duration)) error
	end  func()
}

// loopBytesMax is what every transport buffers.
const loopBytesMax = 256 << 10

// result is one round of one subject.
type result struct {
	perSecond float64
	p99       time.Duration
	cpu       time.Duration // per request, of client and server
}

// bench measures requests per second, the 99th percentile of their time and the
// processor time of each, of msgtrans and of the bare echo over the same transport,
// in turns.
func bench(ctx context.Context, args []string, out io.Writer) error {
	fs := flags("bench")
	transports := fs.StringSlice("transport", []string{"tcp", "ws", "quic"}, "transports")
	inFlight := fs.IntSlice("in-flight", []int{1, 256}, "requests at the same time")
	sizes := fs.IntSlice("size", []int{100, 65536}, "bytes of a payload")
	rounds := fs.Int("rounds", 5, "rounds; the table has their median and range")
	each := fs.Duration("each", time.Second, "length of a round")
	if err := fs.parse(args, 0, "every setting has its option"); err != nil {
		return err
	}
	if err := checkBench(*transports, *inFlight, *sizes, *rounds, *each); err != nil {
		return err
	}
	os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
	fmt.Fprintf(out, "%s, %d cores, client and server in this process, %d rounds of %v in turns: median (range)\n", runtime.Version(), runtime.GOMAXPROCS(0), *rounds, *each)
	fmt.Fprintf(out, benchRow, "transport", "in flight", "bytes", "of", "requests/s", "range", "p99", "cpu", "of bare")
	for _, t := range *transports {
		for _, size := range *sizes {
			for _, n := range *inFlight {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := compare(ctx, out, t, size, n, *rounds, *each); err != nil {
					return fmt.Errorf("%s, %d in flight, %d bytes: %w", t, n, size, err)
				}
			}
		}
	}
	return nil
}

// checkBench refuses what cannot be measured.
func checkBench(transports []string, inFlight, sizes []int, rounds int, each time.Duration) error {
	for _, t := range transports {
		if !slices.Contains([]string{"tcp", "ws", "quic"}, t) {
			return wrong("--transport %q is none of tcp, ws, quic", t)
		}
	}
	for _, n := range inFlight {
		if n < 1 || n > wire.DefaultPendingRequests {
			return wrong("--in-flight %d is outside 1..%d", n, wire.DefaultPendingRequests)
		}
	}
	for _, n := range sizes {
		if most := wire.DefaultPacketBytesWebSocket - wire.HeaderBytes; n < 0 || n > most {
			return wrong("--size %d is outside 0..%d", n, most)
		}
	}
	switch {
	case rounds < 1:
		return wrong("--rounds %d is less than 1", rounds)
	case each < time.Millisecond:
		return wrong("--each %v is less than a millisecond", each)
	}
	return nil
}

// benchRow has fixed widths: rows appear as they are measured.
const benchRow = "%9s  %9v  %6v  %14s  %10v  %17s  %9v  %9v  %7s\n"

// compare prints the rows of one transport, size and number of requests in flight.
func compare(ctx context.Context, out io.Writer, transport string, size, inFlight, rounds int, each time.Duration) error {
	payload := make([]byte, size)
	open := []func(context.Context, string, []byte) (*subject, error){openMsgtrans, openBare}
	// The loop needs a transport that says what has arrived and buffers the window.
	if transport != "ws" && inFlight*size <= loopBytesMax {
		open = append(open, openLoop)
	}
	results := make([][]result, len(open))
	names := make([]string, len(open))
	for range rounds {
		for i, f := range open {
			s, err := f(ctx, transport, payload)
			if err != nil {
				return err
			}
			r, err := measure(s, inFlight, each)
			s.end()
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			names[i] = s.name
			results[i] = append(results[i], r)
		}
	}
	bare := median(results[1]).perSecond
	for i, rs := range results {
		m := median(rs)
		low, high := rs[0].perSecond, rs[0].perSecond
		for _, r := range rs {
			low, high = min(low, r.perSecond), max(high, r.perSecond)
		}
		fmt.Fprintf(out, benchRow, transport, inFlight, size, names[i], fmt.Sprintf("%.0f", m.perSecond), fmt.Sprintf("%.0f-%.0f", low, high),
			m.p99.Round(time.Microsecond), m.cpu.Round(10*time.Nanosecond), fmt.Sprintf("%.0f %%", 100*m.perSecond/bare))
	}
	return nil
}

func median(rs []result) result {
	sorted := slices.Clone(rs)
	slices.SortFunc(sorted, func(a, b result) int { return int(a.perSecond - b.perSecond) })
	return sorted[len(sorted)/2]
}

// measure runs s for about as long as each says, after a tenth of that to warm up.
func measure(s *subject, inFlight int, each time.Duration) (result, error) {
	if _, err := burst(s, inFlight, each/10); err != nil {
		return result{}, err
	}
	return burst(s, inFlight, each)
}

func burst(s *subject, inFlight int, length time.Duration) (result, error) {
	if s.loop != nil {
		return burstLoop(s, inFlight, length)
	}
	histograms := make([]*hdrhistogram.Histogram, inFlight)
	errs := make([]error, inFlight)
	var callers sync.WaitGroup
	start, cpu := time.Now(), cpuTime()
	for i := range inFlight {
		h := newHistogram()
		histograms[i] = h
		callers.Go(func() {
			for at := time.Now(); at.Sub(start) < length; {
				if errs[i] = s.call(); errs[i] != nil {
					return
				}
				now := time.Now()
				_ = h.RecordValue(now.Sub(at).Microseconds())
				at = now
			}
		})
	}
	callers.Wait()
	took := time.Since(start)
	all := newHistogram()
	for i, h := range histograms {
		if errs[i] != nil {
			return result{}, errs[i]
		}
		all.Merge(h)
	}
	return newResult(all, took, cpuTime()-cpu), nil
}

// burstLoop repeats bursts of a fixed number until the time is over.
func burstLoop(s *subject, inFlight int, length time.Duration) (result, error) {
	h := newHistogram()
	start, cpu := time.Now(), cpuTime()
	for time.Since(start) < length {
		if err := s.loop(inFlight, func(d time.Duration) { _ = h.RecordValue(d.Microseconds()) }); err != nil {
			return result{}, err
		}
	}
	return newResult(h, time.Since(start), cpuTime()-cpu), nil
}

func newResult(h *hdrhistogram.Histogram, took, cpu time.Duration) result {
	return result{
		perSecond: float64(h.TotalCount()) / took.Seconds(),
		p99:       time.Duration(h.ValueAtQuantile(99)) * time.Microsecond,
		cpu:       cpu / time.Duration(max(h.TotalCount(), 1)),
	}
}

// newHistogram counts microseconds. Each caller has one, so it has to be small: with
// more digits 256 of them would be what is measured.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(10*time.Second/time.Microsecond), 2)
}

func openMsgtrans(ctx context.Context, transport string, payload []byte) (*subject, error) {
	server, client, err := selfSigned()
	if err != nil {
		return nil, err
	}
	s, err := msgtrans.Listen(msgtrans.ServerOptions{Options: msgtrans.Options{TLS: server, OnRequest: func(ctx context.Context, r msgtrans.Request) {
		_ = r.Reply(ctx, r.Message) // a failure shows at the client
	}}}, transport+"://127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c, err := msgtrans.Dial(ctx, s.Addrs()[0], msgtrans.ClientOptions{Options: msgtrans.Options{TLS: client}})
	if err != nil {
		return nil, err
	}
	return &subject{name: "msgtrans", call: func() error {
		_, err := c.Request(context.Background(), msgtrans.Message{Payload: payload})
		return err
	}, end: func() { _ = c.Close(); _ = s.Close() }}, nil
}

func openBare(ctx context.Context, transport string, payload []byte) (*subject, error) {
	s, p, end, err := bareEcho(ctx, transport)
	if err != nil {
		return nil, err
	}
	c := bare.NewClient(p)
	return &subject{name: "bare", call: func() error {
		_, err := c.Call(payload)
		return err
	}, end: func() { end(); c.Wait(); s.Close() }}, nil
}

func openLoop(ctx context.Context, transport string, payload []byte) (*subject, error) {
	s, p, end, err := bareEcho(ctx, transport)
	if err != nil {
		return nil, err
	}
	return &subject{name: "bare, one loop", loop: func(inFlight int, took func(time.Duration)) error {
		return bare.Run(p, payload, 20*inFlight, inFlight, took)
	}, end: func() { end(); s.Close() }}, nil
}

func bareEcho(ctx context.Context, transport string) (*bare.Server, bare.Pipe, func(), error) {
	server, client, err := selfSigned()
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := bare.Listen(transport, server)
	if err != nil {
		return nil, nil, nil, err
	}
	p, c, err := bare.Dial(ctx, transport, s.Addr, client)
	if err != nil {
		s.Close()
		return nil, nil, nil, err
	}
	return s, p, func() { _ = c.Close() }, nil
}

package cli

import (
	"context"
	"errors"
	"io"
	stdnet "net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Goal: the load generator that waits for a silent broker ends with its context.
func TestBenchInterrupted(t *testing.T) {
	l, err := stdnet.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(context.Background())
	var silent sync.WaitGroup
	silent.Go(func() {
		if s, err := l.Accept(); err == nil {
			_, _ = s.Read(make([]byte, 1)) // the CONNECT is here
			cancel()
			_, _ = io.Copy(io.Discard, s)
			s.Close()
		}
	})
	defer silent.Wait()
	for range 2 { // while it waits, and before it dials
		if _, err := dialBench(ctx, l.Addr().String(), "", "t", 1, 0, 1, 1); !errors.Is(err, errInterrupted) {
			t.Error(err)
		}
	}
}

// Goal: a broker that is silent for too long is an error that says so, and not the
// end of the load generator's patience without a word.
func TestBenchSilence(t *testing.T) {
	here, there := stdnet.Pipe()
	defer there.Close()
	c := &benchConn{conn: here, ctx: context.Background(), in: make([]byte, 1<<10), value: make([]byte, 8), sent: make([]time.Time, 2),
		latency: hdrhistogram.New(1, 60_000_000, 3)}
	past := time.Now().Add(-benchDrainMax)
	if err := c.run(past, past.Add(time.Millisecond)); err != nil {
		t.Fatal("nothing was sent, and an answer was waited for:", err)
	}
	c.inFlight = 1
	if err := c.run(past, past); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Fatal(err)
	}
}

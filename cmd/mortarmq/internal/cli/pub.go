package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/mortarmq/mortarmq/client"
	"github.com/mortarmq/mortarmq/cmd/internal/terminal"
	"github.com/mortarmq/mortarmq/wire"
)

type pubOptions struct {
	file      string
	key       string
	separator string
	size      int
	rate      float64
}

func pubFlags(f *pflag.FlagSet, c *call) {
	o := &pubOptions{}
	c.values = o
	f.StringVar(&o.file, "file", "", "read this file instead of standard input")
	f.StringVar(&o.key, "key", "", "key of every message")
	f.StringVar(&o.separator, "key-separator", "", "what stands before it in a line is the key, what stands behind it the value")
	f.IntVar(&o.size, "size", 0, "cut the input into messages of so many bytes instead of lines")
	f.Float64Var(&o.rate, "rate", 0, "messages a second; 0 is as fast as the broker acknowledges")
}

func (o *pubOptions) validate() error {
	switch {
	case o.key != "" && o.separator != "":
		return usagef("--key and --key-separator exclude each other")
	case o.size != 0 && o.separator != "":
		return usagef("--size and --key-separator exclude each other")
	case o.size < 0 || o.size > wire.MaxValueLen:
		return usagef("--size: 1 to %d", wire.MaxValueLen)
	case o.rate < 0:
		return usagef("--rate must not be negative")
	case len(o.key) > wire.MaxKeyLen:
		return usagef("--key: at most %d bytes", wire.MaxKeyLen)
	}
	return nil
}

// pubCounts is the summary of a pub.
type pubCounts struct {
	sent, acknowledged, deduplicated, failed atomic.Uint64
	mu                                       sync.Mutex
	first                                    error
}

func (n *pubCounts) done(r client.Result, err error) {
	switch {
	case err != nil:
		n.failed.Add(1)
		n.mu.Lock()
		if n.first == nil {
			n.first = err
		}
		n.mu.Unlock()
	case r.Deduplicated:
		n.deduplicated.Add(1)
		n.acknowledged.Add(1)
	default:
		n.acknowledged.Add(1)
	}
}

func (n *pubCounts) failure() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.first
}

func pub(ctx context.Context, c *call) error {
	o := c.values.(*pubOptions)
	if err := o.validate(); err != nil {
		return err
	}
	in := c.Stdin
	if o.file != "" {
		f, err := os.Open(o.file)
		if err != nil {
			return usagef("--file: %v", err)
		}
		defer f.Close()
		in = f
	}
	cl, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	counts := &pubCounts{}
	begin := time.Now()
	input := o.scanner(in)
	if !input.Scan() { // nothing to publish: no topic is made for it
		return errors.Join(inputError(input, counts), c.pubSummary(counts, begin))
	}
	if err := c.declare(ctx, cl); err != nil {
		return err
	}
	p, err := cl.Producer(ctx, c.args[0], client.ProducerOptions{})
	if err != nil {
		return err
	}
	progress := c.progress(counts)
	err = pubAll(ctx, o, input, p, counts)
	// What was sent gets its answer even when the input ended in an error or an
	// interrupt; a second interrupt ends the program.
	flushErr := p.Close(context.WithoutCancel(ctx))
	progress()
	return errors.Join(err, counts.failure(), flushErr, c.pubSummary(counts, begin))
}

func (c *call) pubSummary(n *pubCounts, begin time.Time) error {
	t := c.table()
	t.row(n.sent.Load(), n.acknowledged.Load(), n.deduplicated.Load(), n.failed.Load(), number(time.Since(begin).Seconds(), 3))
	return t.print()
}

// scanner cuts the input into messages.
func (o *pubOptions) scanner(in io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(in)
	s.Buffer(make([]byte, 256<<10), wire.MaxValueLen+wire.MaxKeyLen+64)
	if o.size > 0 {
		s.Split(chunks(o.size))
	} else {
		s.Split(lines)
	}
	return s
}

// pubAll publishes the whole input, of which the first message is scanned. A
// message that fails ends it: the lines behind it would arrive without it.
func pubAll(ctx context.Context, o *pubOptions, s *bufio.Scanner, p *client.Producer, n *pubCounts) error {
	begin := time.Now()
	for more := true; more; more = s.Scan() {
		m := client.Message{Key: []byte(o.key), Value: s.Bytes()}
		if o.separator != "" {
			key, value, ok := bytes.Cut(m.Value, []byte(o.separator))
			if !ok {
				return fmt.Errorf("line %d has no key separator %q", n.sent.Load()+1, o.separator)
			}
			m.Key, m.Value = key, value
		}
		if o.rate > 0 {
			due := begin.Add(time.Duration(float64(n.sent.Load()) / o.rate * float64(time.Second)))
			if err := sleepUntil(ctx, due); err != nil {
				return err
			}
		}
		if err := p.PublishAsync(ctx, m, n.done); err != nil {
			return fmt.Errorf("message %d: %w", n.sent.Load()+1, err)
		}
		n.sent.Add(1)
		if n.failed.Load() > 0 {
			return nil
		}
	}
	return inputError(s, n)
}

// inputError is why the input ended, nil for its end.
func inputError(s *bufio.Scanner, n *pubCounts) error {
	if err := s.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("line %d is longer than a message may be (%d bytes)", n.sent.Load()+1, wire.MaxValueLen)
	} else if err != nil {
		return fmt.Errorf("reading the input: %w", err)
	}
	return nil
}

func sleepUntil(ctx context.Context, due time.Time) error {
	d := time.Until(due)
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// lines splits at newlines and keeps everything else, a carriage return too, so
// that what sub prints is what was read.
func lines(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// chunks splits into pieces of size bytes; the last may be shorter.
func chunks(size int) bufio.SplitFunc {
	return func(data []byte, atEOF bool) (int, []byte, error) {
		if len(data) >= size {
			return size, data[:size], nil
		}
		if atEOF && len(data) > 0 {
			return len(data), data, nil
		}
		return 0, nil, nil
	}
}

// progress shows counts once a second while stderr is a terminal, until the
// function it returns is called.
func (c *call) progress(n *pubCounts) func() {
	if !terminal.Is(c.Stderr) {
		return func() {}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		last := uint64(0)
		for {
			select {
			case <-stop:
				fmt.Fprint(c.Stderr, "\r\x1b[K")
				return
			case <-tick.C:
				acked := n.acknowledged.Load()
				fmt.Fprintf(c.Stderr, "\r\x1b[Ksent %d, acknowledged %d, %d/s", n.sent.Load(), acked, acked-last)
				last = acked
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

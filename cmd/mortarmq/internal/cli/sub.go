package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"sync"

	"github.com/spf13/pflag"

	"github.com/mortarmq/mortarmq/client"
)

type subOptions struct {
	group  string
	count  uint64
	from   string
	exec   string
	format string
}

func subFlags(f *pflag.FlagSet, c *call) {
	o := &subOptions{}
	c.values = o
	f.StringVar(&o.group, "group", "", "consumer group; created if it does not exist")
	f.Uint64Var(&o.count, "count", 0, "end after so many messages; 0 is no limit")
	f.StringVar(&o.from, "from", "", "earliest (the default) or latest: where a new group starts; one that exists goes on where it is")
	f.StringVar(&o.exec, "exec", "", "run this shell command for each message, its value on standard input, instead of printing it; exit status 0 acknowledges, any other asks for it again")
	f.StringVar(&o.format, "format", "plain", "plain, tsv or json")
}

// subscriber handles the messages of one sub.
type subscriber struct {
	c       *call
	o       *subOptions
	stop    context.CancelFunc
	mu      sync.Mutex // around out, taken and failed
	out     *printer
	taken   uint64
	settled uint64
	failed  error
}

var errEnough = errors.New("the count is reached")

// sub consumes until the count is reached or it is interrupted. A message is
// acknowledged once it was written whole.
func sub(ctx context.Context, c *call) error {
	o := c.values.(*subOptions)
	if o.group == "" {
		return usagef("--group is missing")
	}
	if o.from != "" && o.from != "earliest" && o.from != "latest" {
		return usagef("--from: earliest or latest, not %q", o.from)
	}
	out, err := newPrinter(c, o.format)
	if err != nil {
		return err
	}
	cl, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	run, stop := context.WithCancel(ctx)
	defer stop()
	s := &subscriber{c: c, o: o, stop: stop, out: out}
	if err := c.declare(run, cl); err != nil {
		return err
	}
	consumer, err := c.join(run, cl, o)
	if err != nil {
		return err
	}
	err = consumer.Run(run, s.handle)
	switch {
	case s.failed != nil:
		return s.failed
	case errors.Is(err, context.Canceled):
		return nil // enough, or interrupted: both are how a sub ends
	}
	return err
}

// join joins the group. With --from it tries first whether the group exists,
// because then the flag means nothing, and says so.
func (c *call) join(ctx context.Context, cl *client.Client, o *subOptions) (*client.Consumer, error) {
	trouble := func(err error) {
		fmt.Fprintf(c.Stderr, "mortarmq: %s; waiting until it can be read again\n", plain(err))
	}
	if o.from != "" {
		consumer, err := cl.Consumer(ctx, c.args[0], o.group, client.ConsumerOptions{GroupMustExist: true, OnTrouble: trouble})
		if err == nil {
			fmt.Fprintf(c.Stderr, "mortarmq: group %s exists and goes on where it is; --from is ignored\n", o.group)
			return consumer, nil
		}
		if !errors.Is(err, client.ErrNotFound) {
			return nil, err
		}
	}
	return cl.Consumer(ctx, c.args[0], o.group, client.ConsumerOptions{Latest: o.from == "latest", OnTrouble: trouble})
}

func (s *subscriber) handle(ctx context.Context, d *client.Delivery) error {
	if !s.take() {
		return client.Release(errEnough)
	}
	var err error
	if s.o.exec != "" {
		err = s.execute(ctx, d)
	} else {
		err = s.write(d)
	}
	s.settle(err == nil)
	return err
}

// take reserves one of the count's messages.
func (s *subscriber) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil || s.o.count > 0 && s.taken == s.o.count {
		return false
	}
	s.taken++
	return true
}

// settle counts what is done, and gives the place of what is not back.
func (s *subscriber) settle(done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !done {
		s.taken--
		return
	}
	if s.settled++; s.settled == s.o.count {
		s.stop()
	}
}

// write prints the message. When that fails nothing more can be printed: the sub
// ends and the message goes back.
func (s *subscriber) write(d *client.Delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.out.print(&message{
		Partition: d.Partition, Sequence: d.Sequence, Attempt: uint16(d.Attempt),
		ProducerID: d.ProducerID, ProducerSeq: d.ProducerSeq, Key: string(d.Key), Value: string(d.Value),
	})
	if err == nil {
		err = s.out.out.Flush()
	}
	if err != nil {
		s.failed = fmt.Errorf("writing message %d of partition %d: %w", d.Sequence, d.Partition, err)
		s.stop()
		return client.Release(err)
	}
	return nil
}

// execute runs the command for the message.
func (s *subscriber) execute(ctx context.Context, d *client.Delivery) error {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", s.o.exec)
	cmd.Stdin = bytes.NewReader(d.Value)
	cmd.Stdout, cmd.Stderr = s.c.Stdout, s.c.Stderr
	cmd.Env = append(cmd.Environ(),
		"MORTARMQ_KEY="+string(bytes.ReplaceAll(d.Key, []byte{0}, nil)),
		"MORTARMQ_PARTITION="+strconv.Itoa(int(d.Partition)),
		"MORTARMQ_SEQUENCE="+strconv.FormatUint(d.Sequence, 10),
		"MORTARMQ_ATTEMPT="+strconv.Itoa(d.Attempt))
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(s.c.Stderr, "mortarmq: message %d of partition %d, attempt %d: %v\n", d.Sequence, d.Partition, d.Attempt, err)
		return err
	}
	return nil
}

package cli

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mortarmq/mortarmq/node/admin"
)

type dlqOptions struct {
	state     string
	partition int
	sequence  uint64
}

func (o *dlqOptions) stateFlag(f *pflag.FlagSet, fallback string) {
	f.StringVar(&o.state, "state", fallback, "live, redriven, purged or all")
}

func dlqListFlags(f *pflag.FlagSet, c *call) {
	o := &dlqOptions{partition: -1}
	c.values = o
	o.stateFlag(f, "live")
}

func dlqShowFlags(f *pflag.FlagSet, c *call) {
	o := &dlqOptions{}
	c.values = o
	o.stateFlag(f, "all")
	f.IntVar(&o.partition, "partition", -1, "with --sequence: only this dead letter")
	f.Uint64Var(&o.sequence, "sequence", 0, "with --partition: only this dead letter")
}

func dlqPath(topic, what string) string { return "/v1/dlq/" + escaped(topic) + "/" + what }

// eachDeadLetter goes through the pages of a list.
func (c *call) eachDeadLetter(ctx context.Context, query url.Values, f func(*admin.DeadLetter), page func() error) error {
	for {
		var body admin.DeadLetters
		if err := c.get(ctx, "/v1/dlq", query, &body); err != nil {
			return err
		}
		for i := range body.Items {
			f(&body.Items[i])
		}
		if err := page(); err != nil || body.Done {
			return err
		}
		query.Set("from", numbers(body.Next))
	}
}

// numbers writes a list as the admin port takes it.
func numbers(list []uint64) string {
	texts := make([]string, len(list))
	for i, n := range list {
		texts[i] = strconv.FormatUint(n, 10)
	}
	return strings.Join(texts, ",")
}

func dlqList(ctx context.Context, c *call) error {
	o := c.values.(*dlqOptions)
	t := c.table()
	query := url.Values{"topic": {c.args[0]}, "max": {"1000"}, "state": {o.state}}
	err := c.eachDeadLetter(ctx, query, func(d *admin.DeadLetter) {
		t.row(d.Partition, d.Sequence, d.SourcePartition, d.SourceSequence, d.Group, d.Attempts, d.Reason, d.Time)
	}, t.stream)
	if err != nil {
		return err
	}
	return t.print()
}

// dlqShow prints what list prints, and state, producer, key and value.
func dlqShow(ctx context.Context, c *call) error {
	o := c.values.(*dlqOptions)
	one := o.partition >= 0
	if one != (o.sequence > 0) || o.partition > math.MaxUint16 {
		return usagef("--partition and --sequence go together: they name one dead letter")
	}
	t := c.table()
	row := func(d *admin.DeadLetter) {
		t.row(d.Partition, d.Sequence, d.SourcePartition, d.SourceSequence, d.Group, d.Attempts, d.Reason, d.Time, d.State, d.ProducerID, d.ProducerSeq, string(d.Key), string(d.Value))
	}
	query := url.Values{"topic": {c.args[0]}, "max": {"1000"}, "state": {o.state}, "values": {"true"}}
	if !one {
		if err := c.eachDeadLetter(ctx, query, row, t.stream); err != nil {
			return err
		}
		return t.print()
	}
	// The partitions before it begin behind their end.
	from := make([]uint64, o.partition+1)
	for p := range from {
		from[p] = math.MaxInt64
	}
	from[o.partition] = o.sequence
	query.Set("from", numbers(from))
	query.Set("max", "1")
	var body admin.DeadLetters
	if err := c.get(ctx, "/v1/dlq", query, &body); err != nil {
		return err
	}
	for i := range body.Items {
		if d := &body.Items[i]; int(d.Partition) == o.partition && d.Sequence == o.sequence {
			row(d)
		}
	}
	if len(t.rows) == 0 {
		return fmt.Errorf("%s has no such dead letter: partition %d, sequence %d, state %s", c.args[0], o.partition, o.sequence, o.state)
	}
	return t.print()
}

// dlqRedrive waits as long as it takes: the broker goes on from one dead letter
// to the next, and a redrive that is broken off can be begun again.
func dlqRedrive(ctx context.Context, c *call) error {
	var r admin.Redriven
	if err := c.request(ctx, http.MethodPost, dlqPath(c.args[0], "redrive"), nil, &r); err != nil {
		return err
	}
	t := c.table()
	t.row(r.Redriven, r.Skipped)
	return t.print()
}

func dlqPurge(ctx context.Context, c *call) error {
	var p admin.Purged
	if err := c.change(ctx, http.MethodPost, dlqPath(c.args[0], "purge"), nil, &p); err != nil {
		return err
	}
	t := c.table()
	t.row(p.Purged)
	return t.print()
}

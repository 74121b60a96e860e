package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/mortarmq/mortarmq/node/admin"
)

type tailOptions struct {
	from   string
	count  uint64
	follow bool
	format string
}

func tailFlags(f *pflag.FlagSet, c *call) {
	o := &tailOptions{}
	c.values = o
	f.StringVar(&o.from, "from", "latest", "earliest, latest, or how many records before each partition's end")
	f.Uint64Var(&o.count, "count", 0, "end after so many messages; 0 is no limit")
	f.BoolVar(&o.follow, "follow", true, "wait for more at the end")
	f.StringVar(&o.format, "format", "plain", "plain, tsv or json")
}

// tailPause is how long a follower waits before it looks again.
const tailPause = 200 * time.Millisecond

// tail looks at a topic through the admin port. It settles nothing and needs no
// group.
func tail(ctx context.Context, c *call) error {
	o := c.values.(*tailOptions)
	w, err := newPrinter(c, o.format)
	if err != nil {
		return err
	}
	query := url.Values{"topic": {c.args[0]}, "max": {"1000"}}
	switch o.from {
	case "latest":
		query.Set("back", "0")
	case "earliest":
		query.Set("back", strconv.FormatUint(1<<62, 10))
	default:
		if _, err := strconv.ParseUint(o.from, 10, 62); err != nil {
			return usagef("--from: earliest, latest or a number of records, not %q", o.from)
		}
		query.Set("back", o.from)
	}
	for left := o.count; ; {
		var page admin.Tail
		if err := c.get(ctx, "/v1/tail", query, &page); err != nil {
			if ctx.Err() != nil {
				return nil // interrupted: that is how following ends
			}
			return err
		}
		for i := range page.Items {
			if err := w.record(&page.Items[i]); err != nil {
				return err
			}
			if left--; left == 0 {
				return w.out.Flush()
			}
		}
		if err := w.out.Flush(); err != nil {
			return err
		}
		query.Set("from", numbers(page.Next))
		if len(page.Items) > 0 {
			continue
		}
		if !o.follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(tailPause):
		}
	}
}

// printer writes messages in one of the formats of sub and tail.
type printer struct {
	out    *bufio.Writer
	format string
	line   []byte
}

func newPrinter(c *call, format string) (*printer, error) {
	if c.json {
		format = "json"
	}
	switch format {
	case "plain", "tsv", "json":
		return &printer{out: bufio.NewWriterSize(c.Stdout, 256<<10), format: format}, nil
	}
	return nil, usagef("--format: plain, tsv or json, not %q", format)
}

// message is one message as sub and tail print it.
type message struct {
	Partition   uint16 `json:"partition"`
	Sequence    uint64 `json:"sequence"`
	Attempt     uint16 `json:"attempt,omitempty"` // sub only
	Time        string `json:"time,omitempty"`    // tail only
	ProducerID  uint64 `json:"producer_id"`
	ProducerSeq uint64 `json:"producer_seq"`
	Key         string `json:"key"`
	Value       string `json:"value"`
}

func (p *printer) record(r *admin.Record) error {
	return p.print(&message{r.Partition, r.Sequence, 0, r.Time, r.ProducerID, r.ProducerSeq, string(r.Key), string(r.Value)})
}

func (p *printer) print(m *message) error {
	switch p.format {
	case "tsv":
		_, err := fmt.Fprintln(p.out, tsv([]any{m.Partition, m.Sequence, m.Attempt, m.Time, m.ProducerID, m.ProducerSeq, m.Key, m.Value}))
		return err
	case "json":
		data, err := json.Marshal(m)
		if err != nil {
			return err
		}
		_, err = p.out.Write(append(data, '\n'))
		return err
	}
	p.line = append(append(p.line[:0], m.Value...), '\n')
	_, err := p.out.Write(p.line)
	return err
}

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/mortarmq/mortarmq/net/msgtrans"
)

// client is what call and send have in common.
type client struct {
	fs       *pflag.FlagSet
	payload  *string
	size     *int
	ext      *string
	biz      *uint8
	compress *string
	urgent   *bool
	count    *int
	timeout  *time.Duration
	insecure *bool
}

func newClient(name string) *client {
	fs := flags(name)
	return &client{
		fs:       fs,
		payload:  fs.String("payload", "hello", "payload of each message"),
		size:     fs.Int("size", 0, "send so many zero bytes instead"),
		ext:      fs.String("ext", "", "ext header"),
		biz:      fs.Uint8("biz", 0, "biz_type"),
		compress: fs.String("compress", "none", "none, zstd or zlib"),
		urgent:   fs.Bool("high-priority", false, "set HIGH_PRIORITY"),
		count:    fs.Int("count", 1, "how many"),
		timeout:  fs.Duration("timeout", 10*time.Second, "bounds the connect and each request"),
		insecure: fs.Bool("insecure", false, "do not check the server's certificate"),
	}
}

// dial parses args, connects and returns the message to send.
func (c *client) dial(ctx context.Context, args []string) (*msgtrans.Client, msgtrans.Message, error) {
	var m msgtrans.Message
	if err := c.fs.Parse(args); err != nil {
		return nil, m, err
	}
	if c.fs.NArg() != 1 {
		return nil, m, errors.New("give the address of a server, like tcp://127.0.0.1:9000")
	}
	m = msgtrans.Message{Biz: *c.biz, Ext: []byte(*c.ext), Payload: []byte(*c.payload)}
	if *c.size > 0 {
		m.Payload = make([]byte, *c.size)
	}
	if *c.urgent {
		m.Flags |= msgtrans.HighPriority
	}
	var ok bool
	if m.Compression, ok = map[string]msgtrans.Compression{"none": msgtrans.None, "zstd": msgtrans.Zstd, "zlib": msgtrans.Zlib}[*c.compress]; !ok {
		return nil, m, fmt.Errorf("--compress %q is none of none, zstd, zlib", *c.compress)
	}
	conn, err := msgtrans.Dial(ctx, c.fs.Arg(0), msgtrans.ClientOptions{
		Options: msgtrans.Options{
			TLS:              &tls.Config{InsecureSkipVerify: *c.insecure},
			HandshakeTimeout: *c.timeout,
			RequestTimeout:   *c.timeout,
		},
		Reconnect: msgtrans.Backoff{Disabled: true},
	})
	return conn, m, err
}

// call sends requests one after the other and prints the responses.
func call(ctx context.Context, args []string, out io.Writer) error {
	c := newClient("call")
	conn, m, err := c.dial(ctx, args)
	if err != nil {
		return err
	}
	for range *c.count {
		start := time.Now()
		r, err := conn.Request(ctx, m)
		if err != nil {
			return errors.Join(err, conn.Close())
		}
		fmt.Fprintf(out, "response %d in %v: biz %d, flags %#04x, %s, ext %q, %d bytes %.80q\n",
			r.ID, time.Since(start).Round(time.Microsecond), r.Biz, uint16(r.Flags), r.Compression, r.Ext, len(r.Payload), r.Payload)
	}
	return conn.Shutdown(ctx)
}

// send sends one-way messages; it has ended when the server has taken them all.
func send(ctx context.Context, args []string, out io.Writer) error {
	c := newClient("send")
	conn, m, err := c.dial(ctx, args)
	if err != nil {
		return err
	}
	for range *c.count {
		if err := conn.Send(ctx, m); err != nil {
			return errors.Join(err, conn.Close())
		}
	}
	if err := conn.Shutdown(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d messages of %d bytes\n", *c.count, len(m.Payload))
	return nil
}

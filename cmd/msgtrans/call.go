package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mortarmq/mortarmq/net/msgtrans"
	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// client is what call and send have in common.
type client struct {
	fs       flagSet
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
	if err := c.fs.parse(args, 1, "give the address of one server, like tcp://127.0.0.1:9000"); err != nil {
		return nil, m, err
	}
	addr := c.fs.Arg(0)
	switch {
	case !strings.Contains(addr, "://"):
		return nil, m, wrong("the address %q names no transport: tcp://%s, or tcps, ws, wss or quic", addr, addr)
	case *c.size < 0 || int64(*c.size) > wire.PacketBytesCeiling:
		return nil, m, wrong("--size %d is outside 0..%d", *c.size, wire.PacketBytesCeiling)
	case *c.count < 1:
		return nil, m, wrong("--count %d is less than 1", *c.count)
	case *c.timeout <= 0:
		return nil, m, wrong("--timeout %v is no time", *c.timeout)
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
		return nil, m, wrong("--compress %q is none of none, zstd, zlib", *c.compress)
	}
	conn, err := msgtrans.Dial(ctx, addr, msgtrans.ClientOptions{
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

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/mortarmq/mortarmq/net/msgtrans"
)

// serve runs an echo server until ctx ends: Requests are answered with themselves,
// one-way messages are sent back if --reflect is given.
func serve(ctx context.Context, args []string, out io.Writer) error {
	fs := flags("serve")
	listen := fs.StringSlice("listen", []string{"tcp://127.0.0.1:9000", "ws://127.0.0.1:9001/msgtrans", "quic://127.0.0.1:9002"},
		"addresses: tcp://, tcps://, ws://, wss:// or quic://")
	certFile := fs.String("cert", "", "certificate for tcps, wss and quic; without one a self-signed one is made")
	keyFile := fs.String("key", "", "its key")
	origins := fs.StringSlice("origin", nil, "hosts whose pages may connect by WebSocket, * for all")
	reflect := fs.Bool("reflect", false, "send one-way messages back")
	verbose := fs.Bool("verbose", false, "print what happens to connections")
	drain := fs.Duration("drain", 10*time.Second, "how long the end waits for what is under way")
	if err := fs.parse(args, 0, "addresses follow --listen"); err != nil {
		return err
	}
	if len(*listen) == 0 || slices.Contains(*listen, "") {
		return wrong("--listen needs an address, like tcp://127.0.0.1:9000")
	}
	conf, err := serverTLS(*certFile, *keyFile)
	if err != nil {
		return err
	}
	o := msgtrans.ServerOptions{Origins: *origins, Options: msgtrans.Options{
		TLS: conf,
		OnRequest: func(ctx context.Context, r msgtrans.Request) {
			_ = r.Reply(ctx, r.Message) // the peer is gone, or runs into its timeout
		},
		OnMessage: func(ctx context.Context, c *msgtrans.Conn, m msgtrans.Message) {
			if *reflect {
				_ = c.Send(ctx, m)
			}
		},
	}}
	if *verbose {
		var mu sync.Mutex
		o.OnEvent = func(e msgtrans.Event) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(out, "%s %v over %s", e.Kind, e.Peer.Remote, e.Peer.Transport)
			if e.Err != nil {
				fmt.Fprintf(out, ": %v", e.Err)
			}
			fmt.Fprintln(out)
		}
	}
	s, err := msgtrans.Listen(o, *listen...)
	if err != nil {
		return err
	}
	for _, a := range s.Addrs() {
		fmt.Fprintln(out, "listening on", a)
	}
	<-ctx.Done()
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), *drain)
	defer cancel()
	err = s.Shutdown(patience)
	st := s.Stats()
	fmt.Fprintf(out, "%d connections, %d refused, %d packets in, %d out\n", st.Accepted, st.Refused, st.PacketsIn, st.PacketsOut)
	return err
}

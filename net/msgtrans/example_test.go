package msgtrans_test

import (
	"context"
	"fmt"
	"time"

	"github.com/mortarmq/mortarmq/net/msgtrans"
)

// An echo server on TCP and WebSocket at once, and a request to each.
func Example() {
	server, err := msgtrans.Listen(msgtrans.ServerOptions{Options: msgtrans.Options{
		OnRequest: func(ctx context.Context, r msgtrans.Request) {
			_ = r.Reply(ctx, msgtrans.Message{Payload: r.Payload})
		},
	}}, "tcp://127.0.0.1:0", "ws://127.0.0.1:0/msgtrans")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, addr := range server.Addrs() {
		client, err := msgtrans.Dial(context.Background(), addr, msgtrans.ClientOptions{})
		if err != nil {
			fmt.Println(err)
			return
		}
		reply, err := client.Request(context.Background(), msgtrans.Message{Payload: []byte("ping")})
		fmt.Printf("%s, %v\n", reply.Payload, err)
		_ = client.Shutdown(context.Background())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	fmt.Println(server.Shutdown(ctx))
	// Output:
	// ping, <nil>
	// ping, <nil>
	// <nil>
}

// A server asks its client, as either end may.
func ExampleConn_Request() {
	answered := make(chan string)
	server, err := msgtrans.Listen(msgtrans.ServerOptions{Options: msgtrans.Options{
		OnEvent: func(e msgtrans.Event) {
			if e.Kind != msgtrans.EventOpened {
				return
			}
			go func() { // an event must not block
				reply, err := e.Conn.Request(context.Background(), msgtrans.Message{Biz: 7, Payload: []byte("who are you?")})
				answered <- fmt.Sprintf("%s, %v", reply.Payload, err)
			}()
		},
	}}, "tcp://127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := msgtrans.Dial(context.Background(), server.Addrs()[0], msgtrans.ClientOptions{Options: msgtrans.Options{
		OnRequest: func(ctx context.Context, r msgtrans.Request) {
			_ = r.Reply(ctx, msgtrans.Message{Biz: r.Biz, Payload: []byte("a client")})
		},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-answered)
	_ = client.Close()
	_ = server.Close()
	// Output: a client, <nil>
}

// A compressed message; the other end gets it decompressed, and is told what it was.
func ExampleClient_Send() {
	got := make(chan string)
	server, err := msgtrans.Listen(msgtrans.ServerOptions{Options: msgtrans.Options{
		OnMessage: func(_ context.Context, _ *msgtrans.Conn, m msgtrans.Message) {
			got <- fmt.Sprintf("%s: %d bytes, route %s", m.Compression, len(m.Payload), m.Ext)
		},
	}}, "tcp://127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := msgtrans.Dial(context.Background(), server.Addrs()[0], msgtrans.ClientOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = client.Send(context.Background(), msgtrans.Message{
		Flags:       msgtrans.HasRouteTag,
		Ext:         []byte("eu-west"),
		Compression: msgtrans.Zstd,
		Payload:     make([]byte, 100_000),
	})
	fmt.Println(<-got, err)
	_ = client.Close()
	_ = server.Close()
	// Output: zstd: 100000 bytes, route eu-west <nil>
}

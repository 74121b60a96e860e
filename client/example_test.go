package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/mortarmq/mortarmq/client"
	"github.com/mortarmq/mortarmq/client/internal/fakebroker"
)

// broker stands for `go run ./cmd/mortarmqd`.
func broker() (addr string, stop func()) {
	s, err := fakebroker.Serve(fakebroker.New(), "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	return s.Addr, s.Close
}

// Publish one message and wait until a majority has it on disk.
func ExampleProducer_Publish() {
	addr, stop := broker()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	c, err := client.Dial(ctx, client.Options{Addrs: []string{addr}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	p, err := c.Producer(ctx, "orders", client.ProducerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	res, err := p.Publish(ctx, client.Message{Key: []byte("customer-7"), Value: []byte("two bricks")})
	switch {
	case errors.Is(err, client.ErrOutcomeUnknown):
		fmt.Println("perhaps published:", err)
	case err != nil:
		fmt.Println("not published:", err)
	default:
		fmt.Println("published at sequence", res.Sequence)
	}
	// Output: published at sequence 1
}

// Publish many messages without waiting for each; a full buffer blocks, Close flushes.
func ExampleProducer_PublishAsync() {
	addr, stop := broker()
	defer stop()
	ctx := context.Background()

	c, err := client.Dial(ctx, client.Options{Addrs: []string{addr}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	p, err := c.Producer(ctx, "orders", client.ProducerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	published := 0 // callbacks come one at a time
	for i := range 1000 {
		m := client.Message{Value: fmt.Appendf(nil, "brick %d", i)}
		err := p.PublishAsync(ctx, m, func(_ client.Result, err error) {
			if err == nil {
				published++
			}
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := p.Close(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(published, "published")
	// Output: 1000 published
}

// Consume as a member of a group until told to stop.
func ExampleConsumer_Run() {
	addr, stop := broker()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	c, err := client.Dial(ctx, client.Options{Addrs: []string{addr}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	p, err := c.Producer(ctx, "orders", client.ProducerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := p.Publish(ctx, client.Message{Value: []byte("two bricks")}); err != nil {
		log.Fatal(err)
	}

	cons, err := c.Consumer(ctx, "orders", "billing", client.ConsumerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	err = cons.Run(ctx, func(ctx context.Context, d *client.Delivery) error {
		if len(d.Value) == 0 {
			return client.Reject(errors.New("an order must say something"))
		}
		fmt.Printf("order: %s\n", d.Value)
		cancel() // a service would go on
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
	// Output: order: two bricks
}

// Make sure that a topic has the partitions it should have.
func ExampleClient_Declare() {
	addr, stop := broker()
	defer stop()
	ctx := context.Background()

	c, err := client.Dial(ctx, client.Options{Addrs: []string{addr}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	t, err := c.Declare(ctx, "orders", 12)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.Partitions, t.Created)
	// Output: 12 true
}

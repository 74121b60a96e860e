// Package client is the MortarMQ client library: what an application embeds to publish and to consume.
//
//	c, err := client.Dial(ctx, client.Options{Addrs: []string{"127.0.0.1:7188"}})
//	p, err := c.Producer(ctx, "orders", client.ProducerOptions{})
//	res, err := p.Publish(ctx, client.Message{Key: key, Value: value})
//	cons, err := c.Consumer(ctx, "orders", "billing", client.ConsumerOptions{})
//	err = cons.Run(ctx, func(ctx context.Context, d *client.Delivery) error { ... })
//
// The zero value of every options struct works. A Client has one connection, to the node that leads, and finds it again
// by itself. Everything on one Client shares that connection and its order of answers: an application that publishes
// and consumes much takes a Client for each.
//
// # The life of a publish
//
// Publish and PublishAsync copy key and value into the producer's buffer and wait, until the context ends, when it is
// full. What is published while the loop is busy leaves in one write; there is no timer. An OK of the broker means that a
// majority has the record on disk. Producers are idempotent: refusals that pass, lost connections and new leaders are
// dealt with by repeating in order with the same sequences, and the broker drops what it has. So a publish ends in one
// of three ways: a Result; an error that says that the message certainly is not in the log; or an error that is
// ErrOutcomeUnknown, when the context or a Close ended the repeating (or the producer is Plain, or the broker itself cannot
// tell).
//
// # The life of a delivery
//
// Run calls the handler for each message, for each partition one at a time and in order of delivery, for different
// partitions at once. nil acknowledges; an error gives the message back: Retry after the broker's backoff by default, or as Reject,
// Release and RetryAfter say; a panic is a retry. The broker redelivers what was not acknowledged within its lease.
// Delivery.Progress renews that of the message in hand, and what waits its turn is renewed by the client. A message may be
// handled more than once, so handlers are idempotent by a key of the application's own, never by the delivery id.
//
// When a partition moves to another member, the handler that is at work on it finishes, what waits behind it is dropped here
// and delivered there, OnRevoked is called, and only then is the move confirmed. When the connection is lost, the handler's
// context is cancelled, since its message is delivered again elsewhere.
//
// # Invariants
//
//  1. Every publish that was accepted ends exactly once.
//  2. No goroutine of the package outlives Close, but for callbacks and handlers of the application that have not returned.
//  3. At most one handler of a Consumer is at work on a partition, unless PartitionHandlers says otherwise.
//  4. All decisions are client/core's. This package holds none: it moves bytes, wakes waiters and calls handlers.
//
// # What it does not do
//
// It does not batch by time, compress, encrypt, or spread one Client over several connections. It does not keep messages over
// a restart of the process: what was not answered then is unknown.
package client

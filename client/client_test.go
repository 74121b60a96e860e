package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/client/internal/fakebroker"
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// serve starts a fake broker, which ends with the test.
func serve(t testing.TB) *fakebroker.Server {
	t.Helper()
	b := fakebroker.New()
	b.RetryBackoff = clock.Millisecond
	s, err := fakebroker.Serve(b, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if len(s.Broker.Broken) > 0 {
			t.Errorf("the client broke the protocol: %v", s.Broker.Broken)
		}
	})
	return s
}

func dial(t testing.TB, s *fakebroker.Server, opt Options) *Client {
	t.Helper()
	opt.Addrs = []string{s.Addr}
	c, err := Dial(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func producer(t testing.TB, c *Client, topic string, opt ProducerOptions) *Producer {
	t.Helper()
	p, err := c.Producer(t.Context(), topic, opt)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Goal: publishes, sync and async, are in the log when their outcome comes, and Close flushes.
func TestPublish(t *testing.T) {
	s := serve(t)
	c := dial(t, s, Options{})
	p := producer(t, c, "orders", ProducerOptions{})
	res, err := p.Publish(t.Context(), Message{Key: []byte("k"), Value: []byte("v"), Partition: InPartition(2)})
	if err != nil || res.Partition != 2 || res.Sequence != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	var done atomic.Int64
	value := make([]byte, 100)
	for i := range 10_000 {
		copy(value, fmt.Sprintf("%08d", i)) // the buffer is ours again at once
		err := p.PublishAsync(t.Context(), Message{Value: value, Partition: InPartition(0)}, func(r Result, err error) {
			if err != nil || r.Sequence != uint64(i)+1 {
				t.Errorf("%d: %+v, %v", i, r, err)
			}
			done.Add(1)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if done.Load() != 10_000 {
		t.Fatalf("%d callbacks before Close returned", done.Load())
	}
	s.Lock()
	defer s.Unlock()
	for i, r := range s.Broker.Topic("orders").Partitions[0].Log {
		if r.Value[:8] != fmt.Sprintf("%08d", i) {
			t.Fatalf("%d: %q", i, r.Value[:8])
		}
	}
	if _, err := p.Publish(t.Context(), Message{}); !errors.Is(err, ErrClosed) || errors.Is(err, ErrOutcomeUnknown) {
		t.Fatal(err)
	}
}

// Goal: cut connections lose and double nothing.
func TestPublishCut(t *testing.T) {
	s := serve(t)
	c := dial(t, s, Options{BackoffBase: time.Millisecond})
	p := producer(t, c, "orders", ProducerOptions{})
	const n = 20_000
	for i := range n {
		if i%2000 == 1999 {
			s.Cut()
		}
		err := p.PublishAsync(t.Context(), Message{Value: fmt.Appendf(nil, "%d", i), Partition: InPartition(0)}, func(_ Result, err error) {
			if err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Lock()
	defer s.Unlock()
	log := s.Broker.Topic("orders").Partitions[0].Log
	if len(log) != n {
		t.Fatalf("%d in the log, want %d", len(log), n)
	}
	for i, r := range log {
		if r.Value != fmt.Sprint(i) {
			t.Fatalf("%d: %s", i, r.Value)
		}
	}
}

// Goal: many goroutines share a small buffer; all get through, and a full buffer blocks until the context ends.
func TestFullBuffer(t *testing.T) {
	s := serve(t)
	c := dial(t, s, Options{})
	p := producer(t, c, "orders", ProducerOptions{MaxBufferedMessages: 2, MaxBufferedBytes: 1 << 20})
	var wg sync.WaitGroup
	for g := range 20 {
		wg.Go(func() {
			for range 100 {
				if _, err := p.Publish(t.Context(), Message{Key: fmt.Append(nil, g), Value: make([]byte, 40_000*(g%2))}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s.Lock()
	s.Broker.Refuse = func(op wire.Op) (wire.Code, string) {
		if op == wire.OpPub {
			return wire.CodeStorageHighWatermark, "free some space"
		}
		return wire.CodeOK, ""
	}
	s.Unlock()
	var outcomes atomic.Int64
	for range 2 {
		if err := p.PublishAsync(t.Context(), Message{}, func(Result, error) { outcomes.Add(1) }); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	time.AfterFunc(10*time.Millisecond, func() { cancel(enough) })
	if err := p.PublishAsync(ctx, Message{}, nil); !errors.Is(err, enough) {
		t.Fatal(err)
	}
	// The refused ones end with Close; nobody knows whether a repeat of them is under way.
	if err := p.Close(ctx); !errors.Is(err, enough) {
		t.Fatal(err)
	}
	if outcomes.Load() != 2 {
		t.Fatalf("%d outcomes", outcomes.Load())
	}
}

// Goal: a context that ends gives the code that stood in the way where the message certainly is not in the log, and
// ErrOutcomeUnknown where it may be.
func TestPublishContext(t *testing.T) {
	s := serve(t)
	c := dial(t, s, Options{BackoffBase: time.Hour, BackoffMax: time.Hour})
	p := producer(t, c, "orders", ProducerOptions{})
	for _, code := range []wire.Code{wire.CodeRateLimited, wire.CodeQuorumLost} {
		refused := make(chan struct{})
		s.Lock()
		s.Broker.Refuse = func(op wire.Op) (wire.Code, string) {
			if op != wire.OpPub {
				return wire.CodeOK, ""
			}
			s.Broker.Refuse = nil
			close(refused)
			return code, ""
		}
		s.Unlock()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-refused
			cancel()
		}()
		_, err := p.Publish(ctx, Message{Partition: InPartition(uint16(code & 3))})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%v: %v", code, err)
		}
		if got, _ := CodeOf(err); got != code && !errors.Is(err, ErrOutcomeUnknown) {
			// The cancel may overtake the refusal; then nobody knows.
			t.Fatalf("%v: %v", code, err)
		}
	}
}

// Goal: whatever is under way, Close returns and everybody who waits is told.
func TestClose(t *testing.T) {
	s := serve(t)
	c := dial(t, s, Options{})
	p := producer(t, c, "orders", ProducerOptions{MaxBufferedMessages: 4})
	s.Lock() // the broker answers nothing
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if _, err := p.Publish(t.Context(), Message{}); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if _, err := c.Declare(t.Context(), "other", 0); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		})
	}
	c.Close()
	wg.Wait()
	s.Unlock()
	c.Close()
	if _, err := c.Producer(t.Context(), "orders", ProducerOptions{}); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

// Goal: Dial says why there is no connection, once and in words that help.
func TestDialFails(t *testing.T) {
	s := serve(t)
	s.Lock()
	s.Broker.Token = "right"
	s.Unlock()
	gone, err := fakebroker.Serve(fakebroker.New(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	for _, c := range []struct {
		opt  Options
		is   error
		text string
	}{
		{Options{Addrs: []string{s.Addr}, Token: "wrong"}, ErrUnauthorized, "mortarmq: CONNECT: AUTH_FAILED: "},
		{Options{Addrs: []string{s.Addr}}, ErrUnauthorized, "no token was given"},
		{Options{Addrs: []string{gone.Addr}}, ErrNoBroker, ": nobody answers there"},
		{Options{Addrs: []string{web.Listener.Addr().String()}}, ErrNoBroker, "an HTTP server answers there"},
		{Options{Addrs: []string{""}}, nil, "not HOST:PORT"},
		{Options{Addrs: []string{"localhost"}}, nil, `"localhost" is not HOST:PORT`},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		c.opt.OnConnection = func(_ string, err error) {
			if err != nil {
				cancel() // one attempt is enough
			}
		}
		_, err := Dial(ctx, c.opt)
		cancel()
		if err == nil || !strings.Contains(err.Error(), c.text) || strings.Count(err.Error(), "mortarmq:") != 1 {
			t.Errorf("%v: %v", c.opt.Addrs, err)
		}
		for _, kind := range []error{ErrUnauthorized, ErrNoBroker} {
			if errors.Is(err, kind) != (kind == c.is) {
				t.Errorf("%v: %v: Is(%v) is wrong", c.opt.Addrs, err, kind)
			}
		}
	}
	c := dial(t, s, Options{Token: "right"})
	_, err = c.Declare(t.Context(), "no good*", 0)
	if !errors.Is(err, &Error{Code: wire.CodeInvalidTopic}) || strings.Count(err.Error(), "INVALID_TOPIC") != 1 {
		t.Fatal(err)
	}
}

// Goal: topics are declared, found and deleted.
func TestTopics(t *testing.T) {
	s := serve(t)
	c := dial(t, s, Options{})
	for _, want := range []Topic{{ID: 1, Partitions: 3, Created: true}, {ID: 1, Partitions: 3}} {
		if got, err := c.Declare(t.Context(), "orders", 3); err != nil || got != want {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	_, err := c.Declare(t.Context(), "orders", 4)
	if code, _ := CodeOf(err); code != wire.CodeTopicExistsMismatch || !errors.Is(err, ErrMetadata) {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if got, err := c.DeleteTopic(t.Context(), "orders"); err != nil || got != want {
			t.Fatalf("%v, %v", got, err)
		}
	}
	if _, err := c.Producer(t.Context(), "orders", ProducerOptions{MustExist: true}); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
}

package client

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/client/internal/fakebroker"
	"github.com/mortarmq/mortarmq/wire"
)

// run starts a consumer and gives what its Run returned, once it has.
func run(t *testing.T, c *Client, opt ConsumerOptions, h Handler) (*Consumer, <-chan error) {
	t.Helper()
	s, err := c.Consumer(t.Context(), "orders", "g", opt)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(context.Background(), h) }()
	return s, done
}

func feed(t testing.TB, s *fakebroker.Server, partition, n int) {
	s.Lock()
	defer s.Unlock()
	topic, _ := s.Broker.Declare("orders", 0)
	for i := range n {
		s.Broker.Publish(&wire.Pub{TopicID: topic.ID, Partition: uint16(partition), Value: fmt.Appendf(nil, "%d/%d", partition, i)})
	}
	s.Broker.Tick()
	s.Kick()
}

func unsettled(s *fakebroker.Server) int {
	s.Lock()
	defer s.Unlock()
	if g := s.Broker.Group("g"); g != nil {
		return g.Unsettled()
	}
	return -1
}

// await waits for what other goroutines bring about, looking again and again.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for t.Context().Err() == nil {
		if done() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("never came: " + what)
}

// Goal: every message is handled, in order per partition, one handler at a time, and a stop leaves the group.
func TestConsume(t *testing.T) {
	s := serve(t)
	for p := range 4 {
		feed(t, s, p, 500)
	}
	c := dial(t, s, Options{})
	var busy [4]atomic.Int32
	var next [4]int
	var n atomic.Int32
	cons, done := run(t, c, ConsumerOptions{}, func(ctx context.Context, d *Delivery) error {
		if busy[d.Partition].Add(1) != 1 {
			t.Errorf("two handlers on partition %d", d.Partition)
		}
		defer busy[d.Partition].Add(-1)
		if want := fmt.Sprintf("%d/%d", d.Partition, next[d.Partition]); string(d.Value) != want {
			t.Errorf("%q, want %q", d.Value, want)
		}
		next[d.Partition]++
		n.Add(1)
		return nil
	})
	await(t, "all settled", func() bool { return unsettled(s) == 0 })
	if n.Load() != 2000 || len(cons.Assigned()) != 4 {
		t.Fatalf("%d handled, %v", n.Load(), cons.Assigned())
	}
	if err := cons.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s.Lock()
	defer s.Unlock()
	if s.Broker.Group("g").Members() != 0 {
		t.Fatal("it did not leave")
	}
	if err := cons.Run(t.Context(), nil); !errors.Is(err, ErrRunning) {
		t.Fatal(err)
	}
}

// Goal: each result of a handler, panics and Goexit included, is the settlement that it says, and the partition goes on.
func TestVerdicts(t *testing.T) {
	s := serve(t)
	feed(t, s, 0, 8)
	c := dial(t, s, Options{})
	var mu sync.Mutex
	var errs []error
	cons, done := run(t, c, ConsumerOptions{OnError: func(_ *Delivery, err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	}}, func(_ context.Context, d *Delivery) error {
		d.Progress()
		if d.Attempt > 1 {
			if !d.Redelivered {
				t.Errorf("%+v", d)
			}
			return nil
		}
		switch d.Sequence {
		case 1:
			return Reject(errors.New("poison"))
		case 2:
			return fmt.Errorf("wrapped: %w", Release(nil))
		case 3:
			return RetryAfter(time.Millisecond, errors.New("soon"))
		case 4:
			panic("oh")
		case 5:
			runtime.Goexit()
		case 6:
			return ReleaseAfter(time.Millisecond, nil)
		case 7:
			return errors.New("plain")
		}
		return nil
	})
	await(t, "all settled", func() bool { return unsettled(s) == 0 })
	if err := cons.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
	s.Lock()
	defer s.Unlock()
	g := s.Broker.Group("g")
	for seq := uint64(1); seq <= 8; seq++ {
		how, times := fakebroker.Acked, 2
		if seq == 1 {
			how, times = wire.NackReject, 1
		}
		if seq == 8 {
			times = 1
		}
		if g.Settled[0][seq] != how || g.Delivered[0][seq] != times {
			t.Errorf("message %d: settled %d, delivered %d times", seq, g.Settled[0][seq], g.Delivered[0][seq])
		}
	}
	var p *PanicError
	if len(errs) != 7 || !slices.ContainsFunc(errs, func(err error) bool { return errors.As(err, &p) && p.Value == "oh" }) {
		t.Errorf("OnError: %v", errs)
	}
}

// Goal: members share the partitions; callbacks come in order, and a partition moves only behind OnRevoked.
func TestRebalance(t *testing.T) {
	s := serve(t)
	c := dial(t, s, Options{})
	for p := range 4 {
		feed(t, s, p, 100)
	}
	var mu sync.Mutex
	owner := map[uint16]int{} // by partition: who says that it is his
	options := func(who int) ConsumerOptions {
		return ConsumerOptions{
			OnAssigned: func(p uint16) {
				mu.Lock()
				defer mu.Unlock()
				if owner[p] != 0 {
					t.Errorf("%d gets partition %d, which is still with %d", who, p, owner[p])
				}
				owner[p] = who
			},
			OnRevoked: func(p uint16) {
				mu.Lock()
				defer mu.Unlock()
				if owner[p] != who {
					t.Errorf("%d loses partition %d, which is with %d", who, p, owner[p])
				}
				owner[p] = 0
			},
			OnLost: func(p uint16) { t.Errorf("%d has lost partition %d", who, p) },
		}
	}
	handler := func(who int) Handler {
		return func(_ context.Context, d *Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			if owner[d.Partition] != who {
				t.Errorf("%d handles partition %d of %d", who, d.Partition, owner[d.Partition])
			}
			return nil
		}
	}
	first, done1 := run(t, c, options(1), handler(1))
	await(t, "all with the first", func() bool { return len(first.Assigned()) == 4 })
	second, done2 := run(t, dial(t, s, Options{}), options(2), handler(2))
	await(t, "half each", func() bool { return len(first.Assigned()) == 2 && len(second.Assigned()) == 2 })
	await(t, "all settled", func() bool { return unsettled(s) == 0 })
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "all with the second", func() bool { return len(second.Assigned()) == 4 })
	if err := second.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-done1, <-done2); err != nil {
		t.Fatal(err)
	}
	for p, who := range owner {
		if who != 0 {
			t.Errorf("partition %d is still with %d", p, who)
		}
	}
}

// Goal: a stop waits for the handler at work and settles what it returned; its grace ends the handler's context.
func TestStopDrains(t *testing.T) {
	s := serve(t)
	feed(t, s, 0, 10)
	c := dial(t, s, Options{})
	for _, grace := range []time.Duration{time.Hour, time.Millisecond} {
		begun := make(chan struct{})
		release := make(chan struct{})
		cons, err := c.Consumer(t.Context(), "orders", "g", ConsumerOptions{StopGrace: grace})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		var n atomic.Int32
		go func() {
			done <- cons.Run(ctx, func(ctx context.Context, _ *Delivery) error {
				n.Add(1)
				close(begun)
				select {
				case <-release:
				case <-ctx.Done():
				}
				return nil
			})
		}()
		<-begun
		cancel()
		await(t, "the stop", func() bool {
			cons.mu.Lock()
			defer cons.mu.Unlock()
			return cons.stopping
		})
		if grace == time.Hour {
			close(release)
		}
		if err := <-done; !errors.Is(err, context.Canceled) || n.Load() != 1 {
			t.Fatalf("%v after %d handlers", err, n.Load())
		}
	}
	if n := unsettled(s); n != 8 {
		t.Fatalf("%d unsettled", n)
	}
}

// Goal: while paused no handler starts; afterwards everything is handled, in order.
func TestPause(t *testing.T) {
	s := serve(t)
	feed(t, s, 0, 200)
	c := dial(t, s, Options{})
	var paused atomic.Bool
	var last atomic.Int64
	var cons *Consumer
	begun := make(chan struct{})
	cons, done := run(t, c, ConsumerOptions{}, func(_ context.Context, d *Delivery) error {
		<-begun
		if paused.Load() {
			t.Error("a handler starts while paused")
		}
		if int64(d.Sequence) != last.Add(1) {
			t.Errorf("message %d behind %d", d.Sequence, last.Load()-1)
		}
		if d.Sequence == 20 {
			cons.Pause()
			paused.Store(true)
			go func() {
				// Once everything is back at the broker.
				await(t, "credit", func() bool {
					s.Lock()
					defer s.Unlock()
					return s.Broker.Group("g").Out() == 0
				})
				paused.Store(false)
				cons.Resume()
			}()
		}
		return nil
	})
	close(begun)
	await(t, "all settled", func() bool { return unsettled(s) == 0 })
	if err := cons.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
}

// Goal: cut connections lose nothing, and end the contexts of handlers.
func TestConsumeCut(t *testing.T) {
	s := serve(t)
	feed(t, s, 0, 1)
	c := dial(t, s, Options{BackoffBase: time.Millisecond})
	begun := make(chan struct{}, 1)
	cons, done := run(t, c, ConsumerOptions{}, func(ctx context.Context, d *Delivery) error {
		if d.Attempt == 1 && d.Sequence == 1 && d.Partition == 0 {
			begun <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})
	<-begun
	s.Cut()
	for p := range 4 {
		feed(t, s, p, 300)
		s.Cut()
	}
	await(t, "all settled", func() bool { return unsettled(s) == 0 })
	if err := cons.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// Goal: Close ends a Run at once, whatever its handlers do, and a refusal for good ends it with the code.
func TestRunEnds(t *testing.T) {
	s := serve(t)
	feed(t, s, 0, 5)
	c := dial(t, s, Options{})
	begun, release := make(chan struct{}), make(chan struct{})
	_, done := run(t, c, ConsumerOptions{}, func(context.Context, *Delivery) error {
		close(begun)
		<-release
		return nil
	})
	<-begun
	c.Close()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	close(release)
	c = dial(t, s, Options{})
	_, done = run(t, c, ConsumerOptions{}, func(context.Context, *Delivery) error { return nil })
	s.Lock()
	s.Broker.Refuse = func(op wire.Op) (wire.Code, string) {
		if op == wire.OpPull {
			return wire.CodeMessageExceedsCredit, ""
		}
		return wire.CodeOK, ""
	}
	s.Unlock()
	if err := <-done; !errors.Is(err, ErrQuota) {
		t.Fatal(err)
	}
	if _, err := c.Consumer(t.Context(), "orders", "no group", ConsumerOptions{GroupMustExist: true}); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
}

// Goal: PartitionHandlers handlers are at work on a partition whenever there are
// as many messages, also when these come one after the other, and never more.
func TestPartitionHandlers(t *testing.T) {
	s := serve(t)
	c := dial(t, s, Options{})
	var busy, most atomic.Int32
	release := make(chan struct{})
	cons, done := run(t, c, ConsumerOptions{PartitionHandlers: 8}, func(context.Context, *Delivery) error {
		n := busy.Add(1)
		defer busy.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-release
		return nil
	})
	for i := range 8 {
		feed(t, s, 0, 1)
		await(t, fmt.Sprintf("handler %d", i+1), func() bool { return busy.Load() == int32(i+1) })
	}
	feed(t, s, 0, 50)
	close(release)
	await(t, "the end", func() bool { return unsettled(s) == 0 })
	if most.Load() != 8 {
		t.Fatalf("%d handlers at once", most.Load())
	}
	if err := cons.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// Goal: OnTrouble is called once with what the broker cannot give, Run goes on, and what comes afterwards is handled.
func TestOnTrouble(t *testing.T) {
	s := serve(t)
	feed(t, s, 0, 3)
	var healed atomic.Bool
	s.Lock()
	s.Broker.Refuse = func(op wire.Op) (wire.Code, string) {
		if op == wire.OpPull && !healed.Load() {
			return wire.CodeInternal, "partition 0 is damaged"
		}
		return wire.CodeOK, ""
	}
	s.Unlock()
	c := dial(t, s, Options{})
	var told atomic.Int32
	cons, done := run(t, c, ConsumerOptions{OnTrouble: func(err error) {
		if code, _ := CodeOf(err); code != wire.CodeInternal {
			t.Errorf("%v", err)
		}
		told.Add(1)
	}}, func(context.Context, *Delivery) error { return nil })
	pulls := func() int {
		s.Lock()
		defer s.Unlock()
		return int(s.Broker.Requests[wire.OpPull])
	}
	await(t, "several refusals", func() bool { return pulls() > 5 && told.Load() > 0 })
	healed.Store(true)
	await(t, "all settled", func() bool { return unsettled(s) == 0 })
	if err := cons.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || told.Load() != 1 {
		t.Fatalf("%v, told %d times", err, told.Load())
	}
}

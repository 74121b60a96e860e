package msgtrans

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// Goal: 100 000 requests, 256 of them in flight: every one gets its own answer, on
// every transport.
func TestEveryResponseIsMatched(t *testing.T) {
	total := uint64(100_000)
	if poison {
		total = 10_000 // the race detector is slow
	}
	for _, tr := range allTransports {
		t.Run(string(tr), func(t *testing.T) {
			noLeaks(t)
			_, addr := serve(t, tr, ServerOptions{Options: Options{OnRequest: echo}})
			c := dial(t, addr, ClientOptions{})
			var next atomic.Uint64
			var callers sync.WaitGroup
			for range 256 {
				callers.Go(func() {
					for {
						n := next.Add(1)
						if n > total {
							return
						}
						want := binary.BigEndian.AppendUint64(make([]byte, n%100), n)
						got, err := c.Request(t.Context(), Message{Biz: uint8(n), Payload: want})
						if err != nil || !bytes.Equal(got.Payload, want) || got.Biz != uint8(n) {
							t.Errorf("request %d: %x, %v", n, got.Payload, err)
							return
						}
					}
				})
			}
			callers.Wait()
			if err := c.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			s := c.Stats()
			if s.Requests != total || s.Responses != total || s.Unmatched != 0 || s.PacketsOut != total || s.PacketsIn != total {
				t.Fatalf("%+v", s)
			}
		})
	}
}

// Goal: the same through callbacks, without a goroutine per request.
func TestRequestFunc(t *testing.T) {
	noLeaks(t)
	_, addr := serve(t, TCP, ServerOptions{Options: Options{OnRequest: echo}})
	c := dial(t, addr, ClientOptions{})
	const total, window = 10_000, 256
	var begun, ended atomic.Int64
	done := make(chan struct{})
	var begin func()
	begin = func() {
		n := begun.Add(1)
		if n > total {
			return
		}
		want := fmt.Sprint("request ", n)
		err := c.RequestFunc(t.Context(), Message{Payload: []byte(want)}, func(m Message, err error) {
			if err != nil || string(m.Payload) != want {
				t.Errorf("%q: %q, %v", want, m.Payload, err)
			}
			if ended.Add(1) == total {
				close(done)
			}
			begin()
		})
		if err != nil {
			t.Error(err)
		}
	}
	for range window {
		begin()
	}
	wait(t, done, "the last response")
}

// Goal: everything of a message arrives, either way, with every compression, and
// the application sees it decompressed.
func TestEverythingOfAMessageArrives(t *testing.T) {
	for _, tr := range allTransports {
		t.Run(string(tr), func(t *testing.T) {
			noLeaks(t)
			fromServer := make(chan Message, 1)
			opened := make(chan *Conn, 1)
			s, addr := serve(t, tr, ServerOptions{Options: Options{OnRequest: echo, OnEvent: func(e Event) {
				if e.Kind == EventOpened {
					opened <- e.Conn
				}
			}}})
			c := dial(t, addr, ClientOptions{Options: Options{OnRequest: echo, OnMessage: func(_ context.Context, _ *Conn, m Message) {
				m.Ext, m.Payload = bytes.Clone(m.Ext), bytes.Clone(m.Payload)
				fromServer <- m
			}}})
			for _, compression := range []Compression{None, Zstd, Zlib} {
				want := Message{
					Biz: 200, Flags: HighPriority | HasRouteTag, Compression: compression,
					Ext: []byte("route:abc"), Payload: bytes.Repeat([]byte("payload "), 10_000),
				}
				got, err := c.Request(t.Context(), want)
				requireMessage(t, got, want, err)
				// A QUIC server knows its client from its first packet on.
				if len(opened) > 0 || compression == None {
					server := wait(t, opened, "the server's connection")
					opened <- server
					got, err = server.Request(t.Context(), want)
					requireMessage(t, got, want, err)
					if err := server.Send(t.Context(), want); err != nil {
						t.Fatal(err)
					}
					requireMessage(t, wait(t, fromServer, "the message"), want, nil)
				}
			}
			if st := s.Stats(); st.Accepted != 1 || st.Open != 1 || st.Responses != 3 || st.PacketsIn != 6 {
				t.Fatalf("%+v", st)
			}
		})
	}
}

func requireMessage(t *testing.T, got, want Message, err error) {
	t.Helper()
	if err != nil || got.Biz != want.Biz || got.Flags != want.Flags || got.Compression != want.Compression ||
		!bytes.Equal(got.Ext, want.Ext) || !bytes.Equal(got.Payload, want.Payload) || got.ID == 0 {
		t.Fatalf("got biz %d flags %d %v ext %q and %d bytes, %v", got.Biz, got.Flags, got.Compression, got.Ext, len(got.Payload), err)
	}
}

// Goal: one-way messages are handled in the order in which they were sent, one at a
// time, though Requests run beside them.
func TestMessagesStayInOrder(t *testing.T) {
	for _, tr := range transports {
		t.Run(string(tr), func(t *testing.T) {
			noLeaks(t)
			const total = 5000
			var got, inside atomic.Int64
			done := make(chan struct{})
			_, addr := serve(t, tr, ServerOptions{Options: Options{OnRequest: echo, OnMessage: func(_ context.Context, _ *Conn, m Message) {
				if inside.Add(1) != 1 {
					t.Error("two messages are handled at the same time")
				}
				if n := int64(binary.BigEndian.Uint32(m.Payload)); n != got.Load() {
					t.Errorf("message %d came in place of %d", n, got.Load())
				}
				inside.Add(-1)
				if got.Add(1) == total {
					close(done)
				}
			}}})
			c := dial(t, addr, ClientOptions{})
			for n := range total {
				if err := c.Send(t.Context(), Message{Payload: binary.BigEndian.AppendUint32(nil, uint32(n))}); err != nil {
					t.Fatal(err)
				}
				if n%100 == 0 {
					if _, err := c.Request(t.Context(), Message{}); err != nil {
						t.Fatal(err)
					}
				}
			}
			wait(t, done, "the last message")
		})
	}
}

// Goal: handlers that block do not block each other, up to HandlersMax, and then
// the rest wait; with Serial they run one after the other.
func TestHandlersRunBesideEachOther(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want int
	}{
		{"8 at a time", Options{HandlersMax: 8}, 8},
		{"serial", Options{Serial: true}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			noLeaks(t)
			entered := make(chan struct{}, 100)
			release := make(chan struct{})
			c.o.OnRequest = func(ctx context.Context, r Request) {
				entered <- struct{}{}
				<-release
				echo(ctx, r)
			}
			_, addr := serve(t, TCP, ServerOptions{Options: c.o})
			client := dial(t, addr, ClientOptions{})
			var callers sync.WaitGroup
			for range 20 {
				callers.Go(func() {
					if _, err := client.Request(t.Context(), Message{}); err != nil {
						t.Error(err)
					}
				})
			}
			for range c.want {
				wait(t, entered, "a handler")
			}
			// Each that leaves lets exactly one in.
			for range 20 - c.want {
				if len(entered) != 0 {
					t.Fatalf("more than %d handlers at the same time", c.want)
				}
				release <- struct{}{}
				wait(t, entered, "the next handler")
			}
			close(release)
			callers.Wait()
		})
	}
}

// Goal: a request is answered once, whoever tries; a handle that is past does
// nothing to the request that has its place now.
func TestAnsweredOnce(t *testing.T) {
	noLeaks(t)
	var stale Request
	var mu sync.Mutex
	_, addr := serve(t, TCP, ServerOptions{Options: Options{Serial: true, OnRequest: func(ctx context.Context, r Request) {
		mu.Lock()
		defer mu.Unlock()
		if stale.in != nil {
			if err := stale.Reply(ctx, Message{Payload: []byte("stale")}); err == nil {
				t.Error("a handle that is past has answered")
			}
			stale.Release()
			stale.Hold()
		}
		stale = r
		if r.Biz == 1 {
			return // unanswered
		}
		if err := r.Reply(ctx, Message{Payload: []byte("first")}); err != nil {
			t.Error(err)
		}
		if string(r.Payload) != "question" {
			t.Errorf("after the reply the payload is %q", r.Payload)
		}
		if err := r.Reply(ctx, Message{Payload: []byte("second")}); !errors.Is(err, ErrInvalid) {
			t.Errorf("answered twice: %v", err)
		}
	}}})
	c := dial(t, addr, ClientOptions{})
	for n := range 100 {
		if n == 50 {
			ctx, cancel := context.WithCancel(t.Context())
			if err := c.RequestFunc(ctx, Message{Biz: 1}, func(Message, error) {}); err != nil {
				t.Fatal(err)
			}
			cancel()
		}
		got, err := c.Request(t.Context(), Message{Payload: []byte("question")})
		if err != nil || string(got.Payload) != "first" {
			t.Fatalf("%q, %v", got.Payload, err)
		}
	}
}

// Goal: a held request can be answered after its handler has returned, from any
// goroutine, with its payload still there.
func TestHeldRequests(t *testing.T) {
	noLeaks(t)
	held := make(chan Request, 100)
	s, addr := serve(t, TCP, ServerOptions{Options: Options{OnRequest: func(_ context.Context, r Request) {
		r.Hold()
		held <- r
	}}})
	c := dial(t, addr, ClientOptions{})
	var callers sync.WaitGroup
	for n := range 100 {
		callers.Go(func() {
			want := fmt.Sprint("payload ", n)
			got, err := c.Request(t.Context(), Message{Payload: []byte(want)})
			if err != nil || string(got.Payload) != want {
				t.Errorf("%q: %q, %v", want, got.Payload, err)
			}
		})
	}
	var all []Request
	for range 100 {
		all = append(all, wait(t, held, "a request"))
	}
	for _, r := range all {
		if err := r.Reply(t.Context(), Message{Payload: r.Payload}); err != nil {
			t.Error(err)
		}
	}
	callers.Wait()
	if st := s.Stats(); st.Unanswered != 0 {
		t.Fatalf("%+v", st)
	}
}

// Goal: a request costs the memory of its answer and nothing else: one allocation.
func TestRequestAllocatesItsAnswerAlone(t *testing.T) {
	if poison {
		t.Skip("SKIPPED: the race detector allocates by itself")
	}
	noLeaks(t)
	_, addr := serve(t, TCP, ServerOptions{Options: Options{OnRequest: echo}})
	c := dial(t, addr, ClientOptions{})
	payload := make([]byte, 100)
	ask := func() {
		if _, err := c.Request(context.Background(), Message{Payload: payload}); err != nil {
			t.Error(err)
		}
	}
	for range 100 {
		ask()
	}
	// Both ends are counted, and a worker's start now and then.
	if n := testing.AllocsPerRun(2000, ask); n > 2 {
		t.Fatalf("%v allocations", n)
	}
}

// Goal: an answer that cannot be sent leaves this end's own request of the same id
// alone, and the one that it was for open.
func TestAnswerThatCannotBeSent(t *testing.T) {
	for _, bad := range []Message{{Ext: make([]byte, 65536)}, {Flags: 8}, {Compression: 9}, {Payload: make([]byte, 2<<20)}} {
		noLeaks(t)
		asked, ended, held := make(chan struct{}), make(chan error, 1), make(chan Request, 1)
		_, addr := serve(t, WS, ServerOptions{Options: Options{OnRequest: func(ctx context.Context, r Request) {
			go func() {
				_, err := r.Conn().Request(ctx, Message{}) // id 1, like r
				ended <- err
			}()
			<-asked
			if err := r.Reply(ctx, bad); err == nil {
				t.Error("it was sent")
			}
			if err := r.Reply(ctx, Message{}); err != nil {
				t.Errorf("after what was not sent: %v", err)
			}
		}}})
		c := dial(t, addr, ClientOptions{Options: Options{OnRequest: func(_ context.Context, r Request) { r.Hold(); held <- r }}})
		answered := make(chan error, 1)
		if err := c.RequestFunc(t.Context(), Message{}, func(_ Message, err error) { answered <- err }); err != nil {
			t.Fatal(err)
		}
		r := wait(t, held, "the server's request")
		close(asked)
		if err := wait(t, answered, "the answer"); err != nil {
			t.Error(err)
		}
		if err := r.Reply(t.Context(), Message{}); err != nil {
			t.Fatal(err)
		}
		if err := wait(t, ended, "the end of the server's request"); err != nil {
			t.Errorf("the server's request: %v", err)
		}
	}
}

// Goal: a request knows its connection also when it is over and its buffer serves
// another connection's.
func TestConnOfPastRequest(t *testing.T) {
	noLeaks(t)
	requests := make(chan Request, 100)
	_, addr := serve(t, TCP, ServerOptions{Options: Options{OnRequest: func(ctx context.Context, r Request) {
		r.Hold()
		requests <- r
	}}})
	a, b := dial(t, addr, ClientOptions{}), dial(t, addr, ClientOptions{})
	ask := func(c *Client) Request {
		if err := c.RequestFunc(t.Context(), Message{}, func(Message, error) {}); err != nil {
			t.Fatal(err)
		}
		return wait(t, requests, "a request")
	}
	for range 50 {
		past := ask(a)
		conn := past.Conn()
		if err := past.Reply(t.Context(), Message{}); err != nil {
			t.Fatal(err)
		}
		next := ask(b)
		if past.Conn() != conn || next.Conn() == conn {
			t.Fatalf("a request of %v says that it is of %v, one of another that it is of %v", conn, past.Conn(), next.Conn())
		}
		next.Release()
	}
}

// Goal: an error says whose fault it is: a message that the format cannot carry is the
// caller's, one over a limit the limit's, and a cancellation keeps its cause.
func TestErrorsOfTheCaller(t *testing.T) {
	noLeaks(t)
	_, addr := serve(t, TCP, ServerOptions{Options: Options{OnRequest: echo}})
	c := dial(t, addr, ClientOptions{Options: Options{Limits: Limits{ExtBytes: 1000}}})
	for _, b := range []struct {
		m    Message
		kind error
	}{
		{Message{Compression: 9}, ErrInvalid},
		{Message{Flags: 8}, ErrInvalid},
		{Message{Flags: 1}, ErrInvalid},
		{Message{Ext: make([]byte, 1001)}, ErrLimit},
		{Message{Payload: make([]byte, 17<<20)}, ErrLimit},
	} {
		_, asked := c.Request(t.Context(), b.m)
		for _, err := range []error{asked, c.Send(t.Context(), b.m), c.RequestFunc(t.Context(), b.m, nil)} {
			for _, kind := range []error{ErrTimeout, ErrClosed, ErrRefused, ErrRemote, ErrLimit, ErrInvalid} {
				if errors.Is(err, kind) != (kind == b.kind) {
					t.Errorf("%v: is %v: %v", err, kind, errors.Is(err, kind))
				}
			}
		}
	}
	mine := errors.New("mine")
	for _, late := range []bool{false, true} {
		ctx, cancel := context.WithCancelCause(t.Context())
		want := context.Canceled
		if late {
			var stop context.CancelFunc
			ctx, stop = context.WithDeadlineCause(t.Context(), time.Now(), mine)
			defer stop()
			want = context.DeadlineExceeded
		}
		cancel(mine)
		err := c.Send(ctx, Message{})
		if !errors.Is(err, want) || !errors.Is(err, mine) || errors.Is(err, ErrTimeout) != late {
			t.Errorf("late %v: %v", late, err)
		}
	}
	if m, err := c.Request(t.Context(), Message{Ext: make([]byte, 1000)}); err != nil || m.ID != 1 {
		t.Errorf("what was refused took an id: %d, %v", m.ID, err)
	}
}

// Goal: an error has the prefix of its package once, however deep its cause lies.
func TestErrorText(t *testing.T) {
	inner := &Error{Op: "read", Kind: ErrRemote, Cause: wire.ErrVersion}
	err := &Error{Op: "request", Kind: ErrRemote, Cause: unsent(inner)}
	if got, want := err.Error(), "msgtrans: request: broken by the peer: not sent: read: broken by the peer: unsupported version"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

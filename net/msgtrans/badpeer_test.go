package msgtrans

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"testing"
	"time"

	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// Goal: a peer that answers late, twice, never or with a foreign id harms nobody
// but the request that it owes an answer; what nobody waits for is counted.
func TestPeerThatAnswersWrongly(t *testing.T) {
	for _, tr := range transports {
		t.Run(string(tr), func(t *testing.T) {
			noLeaks(t)
			giveUp := make(chan struct{})
			addr := rawPeer(t, tr, func(l link) {
				var p puller
				answer := func(id MessageID, payload string) {
					sendRaw(t, l, one(t, tr, &Packet{Type: TypeResponse, ID: id, Payload: []byte(payload)}))
				}
				var late MessageID
				for {
					q, err := p.next(l)
					if err != nil {
						return
					}
					switch string(q.Payload) {
					case "late":
						late = q.ID
						<-giveUp
						answer(late, "too late")
					case "twice":
						answer(q.ID, "once")
						answer(q.ID, "twice")
					case "never":
					case "foreign":
						answer(q.ID+1000, "not asked for")
						answer(q.ID, "asked for")
					default:
						answer(q.ID, string(q.Payload))
					}
				}
			})
			c := dial(t, addr, ClientOptions{Options: Options{RequestTimeout: patience}})
			ask := func(ctx context.Context, text string) (string, error) {
				m, err := c.Request(ctx, Message{Payload: []byte(text)})
				return string(m.Payload), err
			}
			ctx, cancel := context.WithCancel(t.Context())
			go cancel()
			_, err := ask(ctx, "late")
			close(giveUp)
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("late: %v", err)
			}
			if got, err := ask(t.Context(), "twice"); got != "once" || err != nil {
				t.Fatalf("twice: %q, %v", got, err)
			}
			if got, err := ask(t.Context(), "foreign"); got != "asked for" || err != nil {
				t.Fatalf("foreign: %q, %v", got, err)
			}
			ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, err = ask(ctx, "never")
			wantKind(t, err, ErrTimeout)
			wantKind(t, err, context.DeadlineExceeded)
			if got, err := ask(t.Context(), "still here"); got != "still here" || err != nil {
				t.Fatalf("afterwards: %q, %v", got, err)
			}
			// Late, twice and foreign: one each, unless "late" was given up before it was sent.
			if s := c.Stats(); s.Unmatched != s.Requests-2 || s.Requests < 4 {
				t.Fatalf("%+v", s)
			}
		})
	}
}

// breakage is something that ends a connection at once.
type breakage struct {
	name string
	kind error // of the connection's end
	// bytes is what the peer sends before it waits for the end; with hangUp it ends
	// the transport instead.
	bytes  func(t *testing.T, tr Transport) []byte
	hangUp bool
	only   Transport
}

func header(change func(b []byte)) func(*testing.T, Transport) []byte {
	return func(t *testing.T, tr Transport) []byte {
		b := one(t, tr, &Packet{ID: 1, Payload: []byte("payload")})
		change(b[len(b)-7-wire.HeaderBytes:])
		return b
	}
}

var breakages = []breakage{
	{name: "version", kind: ErrRemote, bytes: header(func(b []byte) { b[0] = 2 })},
	{name: "compression", kind: ErrRemote, bytes: header(func(b []byte) { b[1] = 9 })},
	{name: "packet_type", kind: ErrRemote, bytes: header(func(b []byte) { b[2] = 3 })},
	{name: "fragmented", kind: ErrRemote, bytes: header(func(b []byte) { b[15] = 1 })},
	{name: "1 GiB claimed", kind: ErrLimit, bytes: header(func(b []byte) { binary.BigEndian.PutUint32(b[10:], 1<<30) })},
	{name: "prefix and header disagree", kind: ErrRemote, only: QUIC, bytes: func(t *testing.T, tr Transport) []byte {
		b := one(t, tr, &Packet{ID: 1, Payload: []byte("payload")})
		binary.BigEndian.PutUint32(b, uint32(len(b)))
		return b
	}},
	{name: "prefix over 16 MiB", kind: ErrLimit, only: QUIC, bytes: func(*testing.T, Transport) []byte { return []byte{1, 0, 0, 1} }},
	{name: "another protocol", kind: ErrRemote, only: TCP, bytes: func(*testing.T, Transport) []byte { return []byte("GET / HTTP/1.1\r\n\r\n") }},
	{name: "dies in mid-packet", kind: ErrRemote, only: TCP, hangUp: true, bytes: midPacket},
	{name: "ends its stream in mid-packet", kind: ErrRemote, only: QUIC, hangUp: true, bytes: midPacket},
	{name: "a message that is too short", kind: ErrRemote, only: WS, bytes: midPacket},
	{name: "not zlib", kind: ErrRemote, bytes: header(func(b []byte) { b[1] = byte(Zlib) })},
	{name: "a bomb", kind: ErrLimit, bytes: func(t *testing.T, tr Transport) []byte {
		return one(t, tr, &Packet{ID: 1, Compression: Zstd, Payload: bomb()})
	}},
}

func midPacket(t *testing.T, tr Transport) []byte {
	b := one(t, tr, &Packet{ID: 1, Payload: []byte("payload")})
	return b[:len(b)-3]
}

// bomb is 1 KiB that claims to be 1 GiB of zstd.
func bomb() []byte {
	b := []byte{0x28, 0xB5, 0x2F, 0xFD, 0xE0}
	b = binary.LittleEndian.AppendUint64(b, 1<<30)
	for len(b)+4 <= 1024 {
		block := uint32(131072)<<3 | 1<<1
		b = append(b, byte(block), byte(block>>8), byte(block>>16), 'x')
	}
	return b
}

// Goal: a peer that breaks the protocol ends its connection, nothing is scanned for,
// what is pending fails at once with the reason, and the client comes back.
func TestPeerThatBreaksTheProtocol(t *testing.T) {
	for _, tr := range transports {
		for _, b := range breakages {
			if b.only != "" && b.only != tr {
				continue
			}
			t.Run(string(tr)+"/"+b.name, func(t *testing.T) {
				noLeaks(t)
				first := make(chan struct{}, 1)
				first <- struct{}{}
				addr := rawPeer(t, tr, func(l link) {
					var p puller
					q, err := p.next(l)
					if err != nil {
						return
					}
					select {
					case <-first:
						sendRaw(t, l, b.bytes(t, tr))
						// What follows would be a fine answer; nobody may find it.
						if !b.hangUp {
							answer := one(t, tr, &Packet{Type: TypeResponse, ID: q.ID})
							_ = l.write(answer, []int{len(answer)})
						} else {
							_ = l.finish()
						}
						_ = drainLink(l)
					default:
						sendRaw(t, l, one(t, tr, &Packet{Type: TypeResponse, ID: q.ID, Payload: []byte("back")}))
						_ = drainLink(l)
					}
				})
				closed := make(chan error, 2)
				c := dial(t, addr, ClientOptions{
					Options: Options{RequestTimeout: patience, OnMessage: func(_ context.Context, _ *Conn, m Message) {
						t.Errorf("%d bytes were delivered", len(m.Payload))
					}, OnEvent: func(e Event) {
						if e.Kind == EventClosed {
							closed <- e.Err
						}
					}},
					Reconnect: Backoff{Min: time.Millisecond},
				})
				_, err := c.Request(t.Context(), Message{})
				wantKind(t, err, b.kind)
				wantKind(t, wait(t, closed, "the end"), b.kind)
				m, err := c.Request(t.Context(), Message{})
				if err != nil || string(m.Payload) != "back" || m.ID != 1 {
					t.Fatalf("after coming back: %q, id %d, %v", m.Payload, m.ID, err)
				}
			})
		}
	}
}

// Goal: the same against a server: it survives, and its memory stays flat under a
// hundred bombs and huge claims.
func TestServerRefusesBombsWithFlatMemory(t *testing.T) {
	for _, tr := range transports {
		t.Run(string(tr), func(t *testing.T) {
			noLeaks(t)
			ended := make(chan error, 1000)
			s, addr := serve(t, tr, ServerOptions{Options: Options{OnMessage: func(context.Context, *Conn, Message) {
				t.Error("a bomb was delivered")
			}, OnRequest: echo, OnEvent: func(e Event) {
				if e.Kind == EventClosed {
					ended <- e.Err
				}
			}}})
			set := s.opts.settingsFor(tr)
			_, set.TLS = certificates()
			attack := func(b []byte) {
				l := rawDial(t, addr, set)
				sendRaw(t, l, b)
				_ = drainLink(l)
				l.abort(&Error{Op: "test", Kind: ErrClosed})
				wantKind(t, wait(t, ended, "the end of the connection"), ErrLimit)
			}
			packed := one(t, tr, &Packet{ID: 1, Compression: Zstd, Payload: bomb()})
			claim := header(func(b []byte) { binary.BigEndian.PutUint32(b[10:], 1<<30) })(t, tr)
			attack(packed) // once, so that the decoder's own tables are not counted
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for range 50 {
				attack(packed)
				attack(claim)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			t.Logf("100 connections: heap %d KiB before, %d KiB after, %d KiB allocated in between",
				before.HeapAlloc>>10, after.HeapAlloc>>10, (after.TotalAlloc-before.TotalAlloc)>>10)
			if after.HeapAlloc > before.HeapAlloc+8<<20 {
				t.Fatal("memory grew")
			}
			if each := (after.TotalAlloc - before.TotalAlloc) / 100; each > 1<<20 {
				t.Fatalf("%d bytes were allocated for each attack", each)
			}
			c := dial(t, addr, ClientOptions{})
			if _, err := c.Request(t.Context(), Message{}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// rawDial makes a link to a server, to misbehave on.
func rawDial(t *testing.T, addr string, set *settings) link {
	t.Helper()
	a, err := parseAddress(addr)
	if err != nil {
		t.Fatal(err)
	}
	dial := map[Transport]func(context.Context, address, *settings) (link, Peer, error){TCP: dialTCP, WS: dialWS, QUIC: dialQUIC}[a.transport]
	l, _, err := dial(t.Context(), a, set)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Goal: a text message on WebSocket is ignored and counted, and is no reason to close.
func TestTextMessagesAreIgnored(t *testing.T) {
	noLeaks(t)
	addr := rawPeer(t, WS, func(l link) {
		q, err := pull(l)
		if err != nil {
			return
		}
		if err := l.(*wsLink).conn.WriteText("not msgtrans"); err != nil {
			t.Error(err)
		}
		sendRaw(t, l, one(t, WS, &Packet{Type: TypeResponse, ID: q.ID}))
		_ = drainLink(l)
	})
	c := dial(t, addr, ClientOptions{})
	if _, err := c.Request(t.Context(), Message{}); err != nil {
		t.Fatal(err)
	}
	if s := c.Stats(); s.Texts != 1 {
		t.Fatalf("%+v", s)
	}
}

// Goal: the end of a byte stream between packets is a regular one.
func TestEndBetweenPacketsIsRegular(t *testing.T) {
	for _, tr := range transports {
		t.Run(string(tr), func(t *testing.T) {
			noLeaks(t)
			addr := rawPeer(t, tr, func(l link) {
				if _, err := pull(l); err != nil {
					return
				}
				_ = l.finish()
				if err := drainLink(l); err != nil && !errors.Is(err, io.EOF) {
					t.Logf("raw peer: %v", err)
				}
			})
			c := dial(t, addr, ClientOptions{Options: Options{RequestTimeout: patience}, Reconnect: Backoff{Disabled: true}})
			_, err := c.Request(t.Context(), Message{})
			wantKind(t, err, ErrClosed)
			wait(t, c.Done(), "the client's end")
			wantKind(t, c.Err(), ErrClosed)
			_, err = c.Request(t.Context(), Message{})
			wantKind(t, err, ErrClosed)
		})
	}
}

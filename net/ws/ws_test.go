package ws

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// counter counts writes.
type counter struct {
	bytes.Buffer
	writes int
}

func (c *counter) Write(p []byte) (int, error) {
	c.writes++
	return c.Buffer.Write(p)
}

// Goal: what is written while the cork is held leaves in one write, and in order
// with what is too long to be held; outside it nothing is kept back.
func TestCork(t *testing.T) {
	var out counter
	c := cork{w: &out}
	var want bytes.Buffer
	write := func(n int) {
		p := bytes.Repeat([]byte{byte(want.Len())}, n)
		want.Write(p)
		if m, err := c.Write(p); m != n || err != nil {
			t.Fatal(m, err)
		}
	}
	write(10)
	if out.writes != 1 {
		t.Fatalf("%d writes outside", out.writes)
	}
	c.hold()
	for range 100 {
		write(100)
	}
	if out.writes != 1 {
		t.Fatalf("%d writes while held", out.writes)
	}
	if err := c.release(); err != nil || out.writes != 2 {
		t.Fatalf("%d writes after the release, %v", out.writes, err)
	}
	c.hold()
	write(corkBytes - 1)
	write(2 * corkBytes)
	write(3)
	if err := c.release(); err != nil {
		t.Fatal(err)
	}
	if out.writes != 5 || !bytes.Equal(out.Bytes(), want.Bytes()) {
		t.Fatalf("%d writes, %d of %d bytes", out.writes, out.Len(), want.Len())
	}
}

// Goal: a large message is counted while it is under way; what the library writes by
// itself, which is not held, is not counted at all.
func TestCorkCountsWhatMoves(t *testing.T) {
	for _, held := range []bool{false, true} {
		r, w := io.Pipe()
		c := cork{w: w}
		if held {
			c.hold()
		}
		const size = 8 * pieceBytes
		done := make(chan error, 1)
		go func() {
			_, err := c.Write(make([]byte, size))
			done <- errors.Join(err, c.release())
		}()
		if _, err := io.ReadFull(r, make([]byte, size/2+1)); err != nil {
			t.Fatal(err)
		}
		counted := func(n uint64) uint64 {
			if held {
				return n
			}
			return 0
		}
		if n := c.written.Load(); n != counted(size/2) {
			t.Errorf("held %v: %d bytes of %d are counted", held, n, size/2+1)
		}
		if _, err := io.ReadFull(r, make([]byte, size/2-1)); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil || c.written.Load() != counted(size) {
			t.Errorf("held %v: %d bytes, %v", held, c.written.Load(), err)
		}
	}
}

// Goal: a failed write is not forgotten, or a frame would be missing.
func TestCorkKeepsItsFailure(t *testing.T) {
	r, w := io.Pipe()
	_ = r.Close()
	c := cork{w: w}
	c.hold()
	if _, err := c.Write([]byte("frame")); err != nil {
		t.Fatal(err)
	}
	if err := c.release(); !errors.Is(err, io.ErrClosedPipe) {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("the next frame")); !errors.Is(err, io.ErrClosedPipe) {
		t.Fatal(err)
	}
}

// Goal: messages keep their bounds both ways, one over the limit is refused as that,
// and the end is io.EOF.
func TestMessages(t *testing.T) {
	const limit = 200_000
	ended := make(chan error, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := Accept(w, r, AcceptOptions{Subprotocols: []string{"a", "b"}, MessageBytesMax: limit})
		if err != nil {
			ended <- err
			return
		}
		defer c.Abort()
		for {
			b, err := c.Next()
			if err != nil {
				ended <- err
				return
			}
			if err := c.Write(append(b, b...), []int{len(b), 2 * len(b)}); err != nil {
				ended <- err
				return
			}
		}
	}))
	defer s.Close()
	url := "ws" + strings.TrimPrefix(s.URL, "http")
	dial := func() *Conn {
		c, peer, err := Dial(context.Background(), url, DialOptions{Subprotocols: []string{"b"}, MessageBytesMax: limit})
		if err != nil {
			t.Fatal(err)
		}
		if c.Subprotocol() != "b" || peer.Remote == nil {
			t.Fatalf("%q, %+v", c.Subprotocol(), peer)
		}
		return c
	}
	c := dial()
	for _, n := range []int{0, 1, 4096, 4097, limit} {
		want := bytes.Repeat([]byte{byte(n)}, n)
		if err := c.WriteText("ignored"); err != nil {
			t.Fatal(err)
		}
		if err := c.Write(want, []int{n}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got, err := c.Next(); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes for %d, %v", len(got), n, err)
			}
		}
	}
	if err := c.Finish(StatusNormal); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Fatalf("the regular end is %v", err)
	}
	c = dial()
	defer c.Abort()
	if err := c.Write(make([]byte, limit+1), []int{limit + 1}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, ErrTooBig) {
		t.Fatalf("over the limit: %v", err)
	}
	if _, err := c.Next(); CloseStatus(err) != StatusTooBig {
		t.Fatalf("the peer was told %v", err)
	}
}

// pair is the two ends of a connection.
func pair(t *testing.T) (server, client *Conn) {
	accepted, done := make(chan *Conn, 1), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := Accept(w, r, AcceptOptions{MessageBytesMax: 1 << 20})
		if err != nil {
			t.Error(err)
		}
		accepted <- c
		<-done
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(done) })
	client, _, err := Dial(context.Background(), "ws"+strings.TrimPrefix(s.URL, "http"), DialOptions{MessageBytesMax: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	server = <-accepted
	t.Cleanup(server.Abort)
	t.Cleanup(client.Abort)
	return server, client
}

// Goal: a peer that is at fault is told so by the status code, whichever end it is.
func TestFail(t *testing.T) {
	for _, fromServer := range []bool{true, false} {
		a, b := pair(t)
		if !fromServer {
			a, b = b, a
		}
		told := make(chan error, 1)
		go func() {
			_, err := b.Next()
			told <- err
		}()
		a.Fail(StatusProtocolError)
		if err := <-told; CloseStatus(err) != StatusProtocolError {
			t.Errorf("from the server %v: the peer was told %v", fromServer, err)
		}
		if _, err := a.Next(); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("after Fail: %v", err)
		}
	}
}

// Goal: Fail ends although the peer takes nothing and a Write waits for it.
func TestFailWhileWriting(t *testing.T) {
	a, _ := pair(t)
	wrote := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		b := make([]byte, 1<<20)
		close(begun)
		for {
			if err := a.Write(b, []int{len(b)}); err != nil {
				wrote <- err
				return
			}
		}
	}()
	<-begun
	a.Fail(StatusProtocolError)
	<-wrote
}

package msgtrans

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/net/ws"
)

// The biz_types by which js/testdata/test.js asks the server for something.
const (
	browserEcho = 1 + iota
	browserAskBack
	browserCloseMe
	browserNever
	browserBomb
	browserSayBack
	browserText
	browserIDBack
	browserTwice
	browserFlood
)

// findChromium returns the browser's command, or skips t.
func findChromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("SKIPPED: no Chromium is installed, so the browser client is not tested (on Debian: apt-get install chromium)")
	return ""
}

// browserRequest is the server's half of the cases.
func browserRequest(ctx context.Context, r Request) {
	switch r.Biz {
	case browserNever:
		return
	case browserAskBack:
		m, err := r.Conn().Request(ctx, Message{Payload: r.Payload})
		if err != nil {
			return // the browser has left
		}
		_ = r.Reply(ctx, Message{Payload: fmt.Appendf(nil, "%d: %s", m.Biz, m.Payload)})
	case browserBomb:
		_ = r.Reply(ctx, Message{Compression: Zlib, Payload: make([]byte, 16<<20)})
	case browserText:
		if err := r.Conn().link.(*wsLink).conn.WriteText("not msgtrans"); err == nil {
			_ = r.Reply(ctx, Message{})
		}
	case browserIDBack:
		_ = r.Reply(ctx, Message{Payload: fmt.Append(nil, r.ID)})
	case browserTwice:
		p := Packet{Type: TypeResponse, ID: r.ID}
		for range 2 {
			if err := r.Conn().send(ctx, "reply", &p, None, nil); err != nil {
				return
			}
		}
	default:
		echo(ctx, r)
	}
}

func browserMessage(ctx context.Context, c *Conn, m Message) {
	switch m.Biz {
	case browserCloseMe:
		_ = c.Close()
	case browserSayBack:
		_ = c.Send(ctx, m)
	case browserFlood:
		for range 20 {
			_ = c.Send(ctx, Message{Compression: Zlib, Payload: make([]byte, 12<<20)})
		}
		go func() { _ = c.Shutdown(context.Background()) }() // which waits for this handler
	}
}

// Goal: the ES module works in a real browser against the Go server. The cases are
// in js/testdata/test.js.
func TestBrowser(t *testing.T) {
	chromium := findChromium(t)
	noLeaks(t)
	s, err := Listen(ServerOptions{Options: Options{OnRequest: browserRequest, OnMessage: browserMessage, Limits: Limits{PayloadBytes: 32 << 20}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })

	posted := make(chan []byte, 1)
	mux := http.NewServeMux()
	mux.Handle("/msgtrans", s)
	mux.Handle("/", http.FileServer(http.Dir("js")))
	mux.HandleFunc("/fixtures/", browserFixtures)
	mux.HandleFunc("/hang-up", func(w http.ResponseWriter, r *http.Request) {
		if c, err := ws.Accept(w, r, ws.AcceptOptions{Subprotocols: []string{Subprotocol}}); err == nil {
			_ = c.Finish(ws.StatusNormal)
			_, _ = c.Next() // the browser's end
			c.Abort()
		}
	})
	mux.HandleFunc("POST /result", func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		posted <- b
	})
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)

	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, chromium,
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-port=0", web.URL+"/testdata/index.html")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = 10 * time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is interrupted
		close(exited)
	}()
	defer func() { cancel(); <-exited }()

	select {
	case b := <-posted:
		reportBrowser(t, b)
	case <-exited:
		t.Fatalf("the browser ended without a result:\n%s", stderr.Bytes())
	}
}

func reportBrowser(t *testing.T, b []byte) {
	t.Helper()
	var report struct {
		Agent   string
		Results []struct {
			Name, Error string
			Millis      int
		}
	}
	if err := json.Unmarshal(b, &report); err != nil {
		t.Fatal(err)
	}
	t.Log(report.Agent)
	for _, r := range report.Results {
		if r.Error != "" {
			t.Errorf("FAIL %s (%d ms)\n%s", r.Name, r.Millis, r.Error)
			continue
		}
		t.Logf("ok   %s (%d ms)", r.Name, r.Millis)
	}
	if len(report.Results) != 24 {
		t.Errorf("%d cases, want 24", len(report.Results))
	}
}

// browserFixtures serves the fixtures of wire/msgtrans, and the list of their names.
func browserFixtures(w http.ResponseWriter, r *http.Request) {
	const dir = "../../wire/msgtrans/testdata"
	name := strings.TrimPrefix(r.URL.Path, "/fixtures/")
	if name != "" {
		http.ServeFile(w, r, filepath.Join(dir, filepath.Base(name)))
		return
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.bin"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	for i, n := range names {
		names[i] = strings.TrimSuffix(filepath.Base(n), ".bin")
	}
	_ = json.NewEncoder(w).Encode(names)
}

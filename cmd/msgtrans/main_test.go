package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// lines is a writer whose output a test can wait for.
type lines struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// waitFor returns the submatches of the first n matches of re.
func (l *lines) waitFor(t *testing.T, re string, n int) [][]string {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		if found := regexp.MustCompile(re).FindAllStringSubmatch(l.String(), n); len(found) == n {
			return found
		}
		select {
		case <-l.changed:
		case <-timeout:
			t.Fatalf("no %d of %q in:\n%s", n, re, l)
		}
	}
}

func runOK(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatalf("msgtrans %s: %v\n%s", strings.Join(args, " "), err, out.Bytes())
	}
	return out.String()
}

// Goal: an echo server on all transports at once, and a client for each of them.
func TestServeCallSend(t *testing.T) {
	os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &lines{changed: make(chan struct{}, 1)}
	served := make(chan error, 1)
	go func() {
		served <- run(ctx, []string{"serve", "--verbose", "--listen",
			"tcp://127.0.0.1:0,tcps://127.0.0.1:0,ws://127.0.0.1:0/x,wss://127.0.0.1:0/x,quic://127.0.0.1:0"}, out)
	}()
	for _, m := range out.waitFor(t, `listening on (\S+)\n`, 5) {
		got := runOK(t, "call", m[1], "--insecure", "--payload", "ping", "--ext", "e", "--biz", "5", "--compress", "zstd", "--high-priority", "--count", "3")
		if strings.Count(got, `biz 5, flags 0x0002, zstd, ext "e", 4 bytes "ping"`) != 3 || !strings.HasPrefix(got, "response 1 in ") {
			t.Errorf("%s: %s", m[1], got)
		}
		if got := runOK(t, "send", m[1], "--insecure", "--size", "1000", "--count", "50"); got != "50 messages of 1000 bytes\n" {
			t.Errorf("%s: %s", m[1], got)
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	// 5 transports with 3 requests and 50 messages each.
	if want := "10 connections, 0 refused, 265 packets in, 15 out\n"; !strings.HasSuffix(out.String(), want) {
		t.Fatalf("got\n%s\nwant %s", out, want)
	}
}

// Goal: the benchmark measures every subject on every transport.
func TestBench(t *testing.T) {
	got := runOK(t, "bench", "--each", "20ms", "--rounds", "1", "--in-flight", "1,8", "--size", "100")
	for re, want := range map[string]int{
		`(?m)^ +(tcp|ws|quic) +(1|8) +100 +msgtrans +[1-9]`:        6,
		`(?m)^ +(tcp|ws|quic) +(1|8) +100 +bare +[1-9]`:            6,
		`(?m)^ +(tcp|quic) +(1|8) +100 +bare, one loop +[1-9]`:     4,
		`(?m)^ +(tcp|ws|quic) +(1|8) +100 +bare +.* 100 % *(\S|$)`: 6,
	} {
		if n := len(regexp.MustCompile(re).FindAllString(got, -1)); n != want {
			t.Errorf("%d rows match %s, want %d:\n%s", n, re, want, got)
		}
	}
}

// Goal: the fixtures that are committed are those that the generator writes.
func TestFixturesAreCurrent(t *testing.T) {
	dir := t.TempDir()
	runOK(t, "fixtures", "--dir", dir)
	made, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(made) != 20 {
		t.Fatalf("%d files, %v", len(made), err)
	}
	for _, path := range made {
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join("../../wire/msgtrans/testdata", filepath.Base(path)))
		if err != nil {
			t.Fatal(err)
		}
		// A library's version may compress differently; 09 and 10 are checked by what they
		// decompress to, in wire/msgtrans.
		if name := filepath.Base(path); name != "09_compressed_zlib.bin" && name != "10_compressed_zstd.bin" && !bytes.Equal(got, want) {
			t.Errorf("%s has changed", name)
		}
	}
}

// Goal: a wrong command line is an error that says what is wrong.
func TestWrongCommandLines(t *testing.T) {
	for _, c := range []struct {
		args, want string
		usage      bool
	}{
		{"listen", `no command "listen"`, true},
		{"call", "address", true},
		{"call 127.0.0.1:9000", "tcp://127.0.0.1:9000", true},
		{"call tcp://127.0.0.1:1 tcp://127.0.0.1:2", "one server", true},
		{"call tcp://127.0.0.1:1 --compress lz4", "lz4", true},
		{"call tcp://127.0.0.1:1 --size -1", "--size", true},
		{"call tcp://127.0.0.1:1 --size 9000000000000000000", "--size", true},
		{"call tcp://127.0.0.1:1 --timeout 0s", "--timeout", true},
		{"call tcp://127.0.0.1:1 --colour", "colour", true},
		{"send tcp://127.0.0.1:1 --count -1", "--count", true},
		{"send tcp://127.0.0.1:1", "refused", false},
		{"serve --listen udp://127.0.0.1:1", "udp", false},
		{"serve --cert nowhere --key nowhere", "nowhere", false},
		{"serve tcp://127.0.0.1:0", "--listen", true},
		{"serve --listen=", "--listen", true},
		{"bench --transport smoke", "smoke", true},
		{"bench --rounds 0", "--rounds", true},
		{"bench --rounds -1", "--rounds", true},
		{"bench --size -1", "--size", true},
		{"bench --in-flight -1", "--in-flight", true},
		{"bench --in-flight 0", "--in-flight", true},
		{"bench --each 0s", "--each", true},
		{"bench tcp", "tcp", true},
		{"fixtures here", "--dir", true},
	} {
		err := run(t.Context(), strings.Fields(c.args), io.Discard)
		if err == nil || !strings.Contains(explain(err), c.want) || errors.Is(err, errUsage) != c.usage {
			t.Errorf("msgtrans %s: %v, want something about %s, a mistake of usage %v", c.args, err, c.want, c.usage)
		}
	}
	if got := runOK(t); !strings.Contains(got, "msgtrans serve") {
		t.Errorf("without a command: %s", got)
	}
}

// Goal: what fails says what to do next, and the name of the package once at most.
func TestFailuresAreExplained(t *testing.T) {
	os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
	ctx, stop := context.WithCancel(t.Context())
	out := &lines{changed: make(chan struct{}, 1)}
	served := make(chan error, 1)
	go func() {
		served <- run(ctx, []string{"serve", "--listen", "tcps://127.0.0.1:0,wss://127.0.0.1:0/msgtrans,quic://127.0.0.1:0,ws://127.0.0.1:0/msgtrans"}, out)
	}()
	for n, m := range out.waitFor(t, `listening on (\S+)\n`, 4) {
		addr, want := m[1], "--insecure"
		if n == 3 {
			addr, want = strings.TrimSuffix(addr, "/msgtrans"), "/msgtrans"
		}
		err := run(t.Context(), []string{"call", addr}, io.Discard)
		if err == nil || !strings.Contains(explain(err), want) || strings.Contains(explain(err), "msgtrans: ") {
			t.Errorf("%s: %v", addr, err)
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
}

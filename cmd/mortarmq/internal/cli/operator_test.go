package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/client"
	"github.com/mortarmq/mortarmq/node"
	"github.com/mortarmq/mortarmq/node/admin"
	"github.com/mortarmq/mortarmq/node/host"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/session"
	"github.com/mortarmq/mortarmq/node/store"
)

var update = flag.Bool("update", false, "write testdata anew")

// broker is a real one in this process, and the command line before it.
type broker struct {
	t     *testing.T
	addr  string
	admin string
	env   map[string]string
}

func newBroker(t *testing.T, digests [][32]byte) *broker {
	t.Helper()
	h, err := host.Open(host.Options{
		DataDir: t.TempDir(), ListenClient: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
		Node: node.Config{
			NewClusterID: [16]byte{1}, Version: "test", Session: session.Config{TokenDigests: digests},
			Settings: op.Settings{DeliveryMaxAttempts: 2, RetryBackoffBaseMs: 100, PartitionDefaultCount: 2},
			Store:    store.Options{NodeID: 1, JournalFileBytes: 4 << 20, ReservePercent: -1, ReserveBytes: -1},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	port, err := admin.Bind("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := admin.Serve(port, "127.0.0.1:0", h, admin.Options{TokenDigests: digests})
	ended := make(chan error, 1)
	go func() { ended <- h.Run(context.Background()) }()
	t.Cleanup(func() {
		h.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		a.Close()
		h.Close()
	})
	b := &broker{t: t, addr: h.ClientAddr(), admin: a.Addr()}
	b.env = map[string]string{"MORTARMQ_ADDR": b.addr, "MORTARMQ_ADMIN": b.admin}
	deadline := time.Now().Add(30 * time.Second)
	for code := -1; code != 0; _, code = b.run("topics list") {
		if time.Now().After(deadline) {
			t.Fatal("the broker does not serve")
		}
	}
	return b
}

// run is one command; what it wrote to stderr comes behind its output.
func (b *broker) run(line string) (string, int) {
	var out, errs bytes.Buffer
	e := Env{Args: strings.Fields(line), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: func(k string) string { return b.env[k] }}
	code := e.Run(context.Background())
	return out.String() + errs.String(), code
}

// reject publishes values to a topic and makes each a dead letter of a group.
func (b *broker) reject(topic, group string, values ...string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	token := ""
	if b.env["MORTARMQ_TOKEN_FILE"] != "" {
		token = "secret"
	}
	c, err := client.Dial(ctx, client.Options{Addrs: []string{b.addr}, Token: token})
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	p, err := c.Producer(ctx, topic, client.ProducerOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, v := range values {
		if _, err := p.Publish(ctx, client.Message{Key: []byte("k"), Value: []byte(v)}); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := p.Close(ctx); err != nil {
		b.t.Fatal(err)
	}
	cons, err := c.Consumer(ctx, topic, group, client.ConsumerOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	left := len(values)
	done := make(chan struct{})
	go func() {
		<-done
		cons.Stop(ctx)
	}()
	err = cons.Run(ctx, func(context.Context, *client.Delivery) error {
		if left--; left == 0 { // one key, one partition, one handler
			close(done)
		}
		return client.Reject(errors.New("bad"))
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// masks are what differs from run to run.
var masks = []struct{ pattern, text string }{
	{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`, "TIME"},
	{`127\.0\.0\.1:\d+`, "HOST:PORT"},
	{`producer_id": \d+`, `producer_id": ID`},
	{`(live|redriven|purged)\t\d+\t`, "$1\tID\t"},
}

// script runs the commands of a file, one behind each "$ ", and holds what they
// print and their exit code against what stands there.
func (b *broker) script(name string, hooks map[string]func()) {
	b.t.Helper()
	path := filepath.Join("testdata", name)
	want, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	var got strings.Builder
	for line := range strings.Lines(string(want)) {
		if strings.HasPrefix(line, "#") {
			got.WriteString(line)
			if hook := hooks[strings.TrimSpace(line[1:])]; hook != nil {
				hook()
			}
			continue
		}
		command, ok := strings.CutPrefix(line, "$ mortarmq ")
		if !ok {
			continue
		}
		out, code := b.run(strings.TrimSpace(command))
		for _, m := range masks {
			out = regexp.MustCompile(m.pattern).ReplaceAllString(out, m.text)
		}
		fmt.Fprintf(&got, "%s%s", line, out)
		if code != 0 {
			fmt.Fprintf(&got, "exit %d\n", code)
		}
		got.WriteByte('\n')
	}
	if *update {
		if err := os.WriteFile(path, []byte(got.String()), 0o600); err != nil {
			b.t.Fatal(err)
		}
		return
	}
	if got.String() != string(want) {
		b.t.Errorf("%s: got\n%s", path, got.String())
	}
}

// Goal: each name that a group or a topic may have can be operated on, also one that
// means something in a path.
func TestOddNames(t *testing.T) {
	b := newBroker(t, nil)
	for i, name := range []string{".", "..", "/", "//", "a/../b", "./b", "b/.", "/b", "b/", "b/reset", "%2F", "%00", "?", "a#b", "b"} {
		topic := fmt.Sprintf("t%d", i)
		b.reject(topic, name, "v")
		out, code := b.run("groups describe " + name)
		if code != 0 || strings.Count(out, "\n") != 2 {
			t.Errorf("describe %s: %d %s", name, code, out)
		}
		if out, code := b.run("groups reset --to 1 " + name); code != 0 || out != "0\t1\n1\t1\n" {
			t.Errorf("reset %s: %d %s", name, code, out)
		}
		before, _ := b.run("groups list")
		if out, code := b.run("groups delete " + name); code != 0 {
			t.Errorf("delete %s: %d %s", name, code, out)
		}
		after, _ := b.run("groups list")
		if strings.Count(before, "\n") != 1 || !strings.HasPrefix(before, name+"\t") || after != "" {
			t.Errorf("delete %s: %q before, %q after", name, before, after)
		}
	}
	for _, topic := range []string{"/", "//", "b/redrive", "%2F"} {
		b.reject(topic, "g", "v")
		if out, code := b.run("dlq redrive " + topic); code != 0 || out != "1\t0\n" {
			t.Errorf("redrive %s: %d %s", topic, code, out)
		}
		if out, code := b.run("dlq purge " + topic); code != 0 || out != "0\n" {
			t.Errorf("purge %s: %d %s", topic, code, out)
		}
		b.run("groups delete g")
	}
}

// Goal: the operator's commands print the documented columns, refuse with the
// documented exit codes, and do what they say.
func TestOperator(t *testing.T) {
	b := newBroker(t, nil)
	b.script("operator.txt", map[string]func(){
		"three messages of orders die": func() { b.reject("orders", "billing", "a", "tab\tand\nline", "c") },
	})
}

// Goal: where tokens are configured, changes need one, and reads do not.
func TestOperatorToken(t *testing.T) {
	b := newBroker(t, [][32]byte{sha256.Sum256([]byte("secret"))})
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.env["MORTARMQ_TOKEN_FILE"] = file
	b.reject("orders", "g", "a")
	b.env["MORTARMQ_TOKEN_FILE"] = ""
	for _, line := range []string{"topics create other", "dlq purge orders", "pub other --file " + file} {
		if out, code := b.run(line); code != exitRefused || out != "mortarmq: AUTH_FAILED: no token was given: --token-file FILE or MORTARMQ_TOKEN_FILE\n" {
			t.Errorf("%s without a token: %d %s", line, code, out)
		}
	}
	for _, line := range []string{"dlq redrive orders", "dlq purge orders", "groups reset g --to latest", "groups delete g"} {
		if out, code := b.run(line); code != exitRefused || !strings.Contains(out, "AUTH_FAILED") {
			t.Errorf("%s: %d %s", line, code, out)
		}
		if out, code := b.run("--token-file " + file + " " + line); code != exitOK {
			t.Errorf("%s with its token: %d %s", line, code, out)
		}
	}
	if out, code := b.run("dlq list orders --state redriven"); code != exitOK || !strings.HasSuffix(strings.TrimSpace(out), "Z") {
		t.Errorf("%d %s", code, out)
	}
}

// Goal: nobody on the admin port is exit code 3.
func TestNoAdmin(t *testing.T) {
	b := newBroker(t, nil)
	for _, line := range []string{"groups list", "leader get", "dlq purge orders", "explain orders 0"} {
		if out, code := b.run(line + " --admin 127.0.0.1:1"); code != exitNoBroker {
			t.Errorf("%s: %d %s", line, code, out)
		}
	}
}

package cli

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/disk/osdisk"
)

// Goal: what a newcomer mistypes is answered with what to type, once and with the
// documented exit code.
func TestTexts(t *testing.T) {
	b := newBroker(t, nil)
	dir := t.TempDir()
	d, err := osdisk.Open(dir, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, c := range []struct {
		line string
		code int
		want string
	}{
		{"topics creat x", exitUsage, `no command "topics creat": did you mean "topics create"?`},
		{"topic list", exitUsage, `did you mean "topics list"?`},
		{"topics", exitUsage, "topics what? topics create, topics delete, topics list"},
		{"topics frobnicate", exitUsage, `no command "topics frobnicate": there are topics create`},
		{"frobnicate", exitUsage, `no command "frobnicate"; mortarmq --help lists them`},
		{"topics --help", exitOK, "topics create NAME"},
		{"--help", exitOK, "Exit codes: 0 done"},
		{"--version", exitOK, "mortarmq "},
		{"--frobnicate topics list", exitUsage, "unknown flag: --frobnicate; mortarmq --help lists commands and flags"},
		{"--json topics list", exitOK, `"items"`},
		{"--addr 127.0.0.1:1 topics create x --addr " + b.addr, exitOK, "created"},
		{"topics list --admin localhost", exitUsage, `--admin: "localhost" is not HOST:PORT`},
		{"--addr localhost topics create x", exitUsage, `--addr: "localhost" is not HOST:PORT`},
		{"--addr , topics create x", exitUsage, "--addr is empty"},
		{"topics create a..b", exitRefused, "mortarmq: DECLARE: INVALID_TOPIC: a topic name must not"},
		{"topics list --admin 127.0.0.1:1", exitNoBroker, "is mortarmqd running? --admin chooses another address"},
		{"topics list --admin " + b.addr, exitNoBroker, "speaks no HTTP, such as a broker's client port"},
		{"verify " + dir, exitUsage, "a broker runs on it"},
	} {
		out, code := b.run(c.line)
		if code != c.code || !strings.Contains(out, c.want) || strings.Contains(out, "mortarmq: mortarmq:") {
			t.Errorf("%s: exit %d: %s", c.line, code, out)
		}
	}
	for _, c := range commands() {
		out, code := b.run(c.name + " --help")
		if code != exitOK || !strings.Contains(out, "mortarmq "+c.name) || !strings.Contains(out, strings.Join(c.columns, ", ")) {
			t.Errorf("%s --help: exit %d: %s", c.name, code, out)
		}
		if strings.Contains(out, "--addr") == c.offline {
			t.Errorf("%s --help: offers --addr: %v", c.name, !c.offline)
		}
		if strings.Contains(out, "--json") != (c.columns != nil) {
			t.Errorf("%s --help: offers --json: %v", c.name, c.columns == nil)
		}
	}
}

// Goal: docs/operations.md has each command with its columns.
func TestDocs(t *testing.T) {
	data, err := os.ReadFile("../../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range commands() {
		if row := docRow(&c); !strings.Contains(string(data), row+"\n") {
			t.Errorf("docs/operations.md lacks\n%s", row)
		}
	}
	if columns := strings.Join(consumeColumns, ", "); !strings.Contains(string(data), columns) {
		t.Errorf("docs/operations.md lacks %s", columns)
	}
}

func docRow(c *command) string {
	columns := "-"
	if c.columns != nil {
		columns = strings.Join(c.columns, ", ")
	}
	if c.when != "" {
		columns += " (`" + c.when + "`)"
	}
	return "| `" + strings.ReplaceAll(strings.TrimSpace(c.name+" "+c.args), "|", "\\|") + "` | " + columns + " | " + c.about + " |"
}

// Goal: where no broker is reached, the text says what may be wrong, and that the
// admin port is not the client port.
func TestNoBroker(t *testing.T) {
	b := newBroker(t, nil)
	for _, c := range []struct{ addr, want string }{
		{"127.0.0.1:1", "nobody answers there: is mortarmqd running? --addr chooses another address"},
		{b.admin, "an HTTP server answers there, such as a broker's admin port"},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		var errs cancelingBuffer
		errs.cancel = cancel
		e := Env{Args: []string{"topics", "create", "x", "--addr", c.addr}, Stdout: &bytes.Buffer{}, Stderr: &errs, Getenv: func(string) string { return "" }}
		if code := e.Run(ctx); code != exitNoBroker || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: exit %d: %s", c.addr, code, errs.String())
		}
		cancel()
	}
}

// cancelingBuffer ends the command when it says for the first time that it has no
// connection.
type cancelingBuffer struct {
	bytes.Buffer
	cancel context.CancelFunc
}

func (b *cancelingBuffer) Write(p []byte) (int, error) {
	b.cancel()
	return b.Buffer.Write(p)
}

// Goal: a topic that a mistyped name makes is told, and nothing published makes
// none; figures are numbers in JSON, and what a message does not have is left out.
func TestPubSub(t *testing.T) {
	b := newBroker(t, nil)
	if out, code := b.run("pub ordrs"); code != exitOK || !strings.HasPrefix(out, "0\t0\t0\t0\t") {
		t.Errorf("%d %s", code, out)
	}
	if out, code := b.run("topics list"); code != exitOK || out != "" {
		t.Errorf("a pub of nothing made a topic: %d %s", code, out)
	}
	file := t.TempDir() + "/lines"
	if err := os.WriteFile(file, []byte("a b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ line, want, never string }{
		{"pub ordrs --json --file " + file, `"seconds": 0.`, "no topic"},
		{"pub ordrs --file " + file, "1\t1\t0\t0\t", "created"},
		{"sub ordrs --group g --count 1 --format json", `"attempt":1,"producer_id"`, `"time"`},
		{"tail ordrs --from earliest --follow=false --format json", `"time":"2`, `"attempt"`},
	} {
		out, code := b.run(c.line)
		if code != exitOK || !strings.Contains(out, c.want) || strings.Contains(out, c.never) {
			t.Errorf("%s: exit %d: %s", c.line, code, out)
		}
		if made := strings.Contains(out, "mortarmq: created topic ordrs with 2 partitions\n"); made != strings.Contains(c.line, "--json") {
			t.Errorf("%s: says that it made the topic: %v", c.line, made)
		}
	}
	e := Env{Args: strings.Fields("sub ordrs --group h --count 1 --exec"), Stderr: &bytes.Buffer{}, Getenv: func(k string) string { return b.env[k] }}
	e.Args = append(e.Args, "echo $MORTARMQ_PARTITION/$MORTARMQ_SEQUENCE/$MORTARMQ_ATTEMPT/$MORTARMQ_KEY/ $(cat)")
	var out bytes.Buffer
	e.Stdout = &out
	if code := e.Run(context.Background()); code != exitOK || !strings.HasSuffix(out.String(), "/1/1// a b\n") {
		t.Errorf("%d %q", code, out.String())
	}
	if out, code := b.run("sub misspelt --group g2 --count 0 --format tvs"); code != exitUsage || strings.Contains(out, "created") {
		t.Errorf("%d %s", code, out)
	}
}

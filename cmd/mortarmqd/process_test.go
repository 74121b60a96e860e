package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/mortarmq/mortarmq/node/admin"
)

// asDaemon makes the test binary run the program itself, so that a test can kill
// a real process without building another binary.
const asDaemon = "MORTARMQD_TEST_RUNS_DAEMON"

// tethered makes the test binary end when its standard input does: with the test
// that started it, whatever ended that one.
const tethered = "MORTARMQD_TEST_ENDS_WITH_INPUT"

// tether ties cmd to this process.
func tether(cmd *exec.Cmd) error {
	cmd.Env = append(cmd.Env, tethered+"=1")
	_, err := cmd.StdinPipe()
	return err
}

func TestMain(m *testing.M) {
	if os.Getenv(tethered) == "1" {
		go func() {
			io.Copy(io.Discard, os.Stdin)
			os.Exit(3)
		}()
	}
	if os.Getenv(asDaemon) == "1" {
		main()
	}
	signal.Reset(syscall.SIGTERM, syscall.SIGINT) // a test ends like any program
	if os.Getenv(asConsumer) == "1" {
		if err := runConsumer(os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// process is a broker in a process of its own.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	client string
	admin  string
	ended  chan error
}

// start runs a broker over dir and waits until its ports are open.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0], append([]string{"--log-format", "json"}, args...)...), ended: make(chan error, 1)}
	p.cmd.Env = append(os.Environ(), asDaemon+"=1")
	if err := tether(p.cmd); err != nil {
		t.Fatal(err)
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.cmd.Process.Kill() })
	lines := bufio.NewReader(stderr)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the broker ended before it listened: %q %v", line, p.cmd.Wait())
		}
		var l struct{ Msg, Client, Admin string }
		if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "listening" {
			p.client, p.admin = l.Client, l.Admin
			break
		}
	}
	go func() {
		io.Copy(io.Discard, lines)
		p.ended <- p.cmd.Wait()
	}()
	return p
}

// serving waits until the broker serves.
func (p *process) serving() {
	p.t.Helper()
	for {
		resp, err := http.Get("http://" + p.admin + "/healthz")
		if err != nil {
			p.t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
}

// kill ends the process as a power cut of the program alone would.
func (p *process) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	<-p.ended
}

// term asks for a drain and gives the exit code.
func (p *process) term() int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	<-p.ended
	return p.cmd.ProcessState.ExitCode()
}

// log reads every record of topic by the admin port, per partition in order. It
// waits for the broker to serve.
func (p *process) log(topic string) [][]admin.Record {
	p.t.Helper()
	var log [][]admin.Record
	from := ""
	for {
		resp, err := http.Get(fmt.Sprintf("http://%s/v1/tail?topic=%s&back=%d&max=1000&from=%s", p.admin, topic, uint64(1)<<62, from))
		if err != nil {
			p.t.Fatal(err)
		}
		var page admin.Tail
		err = json.NewDecoder(resp.Body).Decode(&page)
		resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable {
			continue
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			p.t.Fatalf("%s %v", resp.Status, err)
		}
		for len(log) < len(page.Next) {
			log = append(log, nil)
		}
		for _, r := range page.Items {
			log[r.Partition] = append(log[r.Partition], r)
		}
		if len(page.Items) == 0 {
			return log
		}
		from = strings.Trim(strings.ReplaceAll(fmt.Sprint(page.Next), " ", ","), "[]")
	}
}

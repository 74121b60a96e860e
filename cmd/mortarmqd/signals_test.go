package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/wire"
)

// Goal: signals are caught before anything but the runtime and what it takes to
// catch them is initialized: a SIGTERM to a broker that has just been started drains
// it. The runtime tells the order.
func TestSignalsFirst(t *testing.T) {
	cmd := exec.Command(os.Args[0], "--help")
	cmd.Env = append(os.Environ(), asDaemon+"=1", "GODEBUG=inittrace=1")
	var out strings.Builder
	cmd.Stderr = &out
	if err := cmd.Run(); err != nil {
		t.Fatal(err, out.String())
	}
	for line := range strings.Lines(out.String()) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "init" {
			switch name := f[1]; {
			case strings.HasSuffix(name, "/internal/signals"):
				return
			case strings.Contains(name, ".") || name == "net/http":
				t.Fatalf("%s is initialized before signals are caught", name)
			}
		}
	}
	t.Fatalf("signals are caught nowhere: %s", out.String())
}

// Goal: the main thread, which the system gives signals to, does none of the
// broker's work: a disk that stalls does not keep a SIGTERM from being seen.
func TestMainThreadWaits(t *testing.T) {
	p := start(t, "--data-dir", t.TempDir(), "--listen-client", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0")
	p.serving()
	c := connected(t, p, 1)[0]
	ask := (&wire.Declare{Topic: []byte("t"), PartitionCount: 1}).Append(nil)
	answer := (&wire.DeclareResult{}).AppendOK(nil)
	before := ""
	for i := range 400 {
		exchange(t, c, ask, answer)
		if i == 0 {
			before = p.mainThread()
			ask = (&wire.Pub{TopicID: 1, Value: []byte("m")}).Append(nil)
			answer = (&wire.PubResult{}).AppendOK(nil)
		}
	}
	if after := p.mainThread(); after != before {
		t.Errorf("the main thread made calls:\n%s\nthen\n%s", before, after)
	}
}

// mainThread tells what the process's main thread has read and written.
func (p *process) mainThread() string {
	p.t.Helper()
	pid := p.cmd.Process.Pid
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/io", pid, pid))
	if err != nil {
		p.t.Skip("the system does not tell what a thread reads and writes:", err)
	}
	return string(data)
}

// Goal: who waits for what does not end stops waiting.
func TestWithin(t *testing.T) {
	held := make(chan struct{})
	defer close(held)
	if within(time.Millisecond, func() { <-held }) {
		t.Error("it ended")
	}
	if !within(time.Hour, func() {}) {
		t.Error("it did not end")
	}
}

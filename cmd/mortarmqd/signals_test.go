package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
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

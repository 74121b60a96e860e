// Command mortarmqd is the broker. Without a file or a flag it serves one node
// from ./data on 127.0.0.1:7188, with the admin port on 127.0.0.1:7190.
package main

import (
	"os"

	"github.com/mortarmq/mortarmq/cmd/mortarmqd/internal/signals"
)

func main() {
	os.Exit(Main{Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr, Signals: signals.Stop}.Run())
}

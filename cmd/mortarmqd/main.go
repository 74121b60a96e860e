// Command mortarmqd is the broker. Without a file or a flag it serves one node
// from ./data on 127.0.0.1:7188, with the admin port on 127.0.0.1:7190.
package main

import (
	"os"
	"runtime"

	"github.com/mortarmq/mortarmq/cmd/mortarmqd/internal/signals"
)

// The system gives a signal to the main thread if it can. One that waits for a disk
// that stalls cannot take it, so that thread never touches the disk: it belongs to
// main's goroutine, which only waits.
func init() { runtime.LockOSThread() }

func main() {
	os.Exit(Main{Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr, Signals: signals.Stop}.Run())
}

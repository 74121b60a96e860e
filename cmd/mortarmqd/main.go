// Command mortarmqd is the broker. Without a file or a flag it serves one node
// from ./data on 127.0.0.1:7188, with the admin port on 127.0.0.1:7190.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	os.Exit(Main{Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr, Signals: signals}.Run())
}

// Package signals catches the signals that stop the broker from the first moment
// at which a program can: while packages are initialized, before main. A SIGTERM
// that a supervisor sends to a broker it has just started drains it, and ends it
// with 0, as at any other time.
//
// It imports next to nothing: packages are initialized in the order of what they
// need, and this one must not wait for the others.
package signals

import (
	"os"
	"os/signal"
	"syscall"
)

// Stop gets what asks the broker to stop: the first to drain, the second to end at
// once.
var Stop = catch()

func catch() <-chan os.Signal {
	c := make(chan os.Signal, 2)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT)
	return c
}

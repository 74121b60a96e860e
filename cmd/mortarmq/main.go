// Command mortarmq is the command line of the broker: topics, publishing,
// consuming, looking, checking and measuring.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/mortarmq/mortarmq/cmd/mortarmq/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends what does not end by itself
	env := &cli.Env{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}
	code := env.Run(ctx)
	stop()
	os.Exit(code)
}

// Command msgtrans is for trying msgtrans by hand: an echo server on all three
// transports at once, a client, a benchmark against a bare echo, and the
// generator of the format's fixtures.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
)

const usage = `msgtrans: try the msgtrans packet format by hand

  msgtrans serve     echo server on TCP, WebSocket and QUIC at once
  msgtrans call      send requests and print the responses
  msgtrans send      send one-way messages
  msgtrans bench     requests per second against a bare echo
  msgtrans fixtures  write the format's fixtures

"msgtrans <command> --help" lists the options of a command.
`

// command is one of the above. Its output goes to out; it ends when ctx does.
type command func(ctx context.Context, args []string, out io.Writer) error

var commands = map[string]command{
	"serve":    serve,
	"call":     call,
	"send":     send,
	"bench":    bench,
	"fixtures": fixtures,
}

// errUsage says that the command line was wrong and has been explained.
var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	switch {
	case err == nil, errors.Is(err, pflag.ErrHelp):
	case errors.Is(err, errUsage):
		stop()
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "msgtrans:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 || args[0] == "-h" || args[0] == "--help" || args[0] == "help" {
		fmt.Fprint(out, usage)
		return nil
	}
	c, ok := commands[args[0]]
	if !ok {
		fmt.Fprintf(os.Stderr, "msgtrans: there is no command %q\n\n%s", args[0], usage)
		return errUsage
	}
	return c(ctx, args[1:], out)
}

// flags returns an empty flag set for the command name.
func flags(name string) *pflag.FlagSet {
	return pflag.NewFlagSet("msgtrans "+name, pflag.ContinueOnError)
}

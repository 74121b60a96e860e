// Command msgtrans is for trying msgtrans by hand: an echo server on all three
// transports at once, a client, a benchmark against a bare echo, and the
// generator of the format's fixtures.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/mortarmq/mortarmq/net/ws"
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

// errUsage says that the command line is wrong.
var errUsage = errors.New("usage")

// wrong returns an errUsage that says what is wrong.
func wrong(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// usageError has no words of its own.
type usageError struct{ error }

func (e *usageError) Is(target error) bool { return target == errUsage }
func (e *usageError) Unwrap() error        { return e.error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	switch {
	case err == nil, errors.Is(err, pflag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "msgtrans: "+explain(err)+"\nmsgtrans --help lists the commands, and msgtrans <command> --help the options of one")
		stop()
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "msgtrans: "+explain(err))
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
		return wrong("there is no command %q", args[0])
	}
	return c(ctx, args[1:], out)
}

// explain returns err in words for whoever typed the command: what to do next, and
// the name of the package only where it is that of the command.
func explain(err error) string {
	text := strings.TrimPrefix(err.Error(), "msgtrans: ")
	var status *ws.StatusError
	switch {
	case strings.Contains(text, "x509: "): // QUIC has it as text alone
		return text + "; --insecure takes any certificate"
	case errors.As(err, &status) && status.Code == http.StatusNotFound:
		return text + "; is the path right? msgtrans serve has /msgtrans"
	}
	return text
}

// flagSet is a command's options. Its mistakes are those of usage.
type flagSet struct{ *pflag.FlagSet }

// flags returns an empty flag set for the command name.
func flags(name string) flagSet {
	fs := pflag.NewFlagSet("msgtrans "+name, pflag.ContinueOnError)
	return flagSet{fs}
}

// parse reads args, of which the last operands are no options.
func (fs flagSet) parse(args []string, operands int, what string) error {
	switch err := fs.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return err
	case err != nil:
		return &usageError{err}
	case fs.NArg() != operands && operands == 0:
		return wrong("%q is no option; %s", fs.Arg(0), what)
	case fs.NArg() != operands:
		return wrong("%s", what)
	}
	return nil
}

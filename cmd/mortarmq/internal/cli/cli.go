// Package cli is what `mortarmq` does: a command per file.
//
// Exit codes: 0 done, 2 wrong usage, 3 no broker reached, 4 the broker refused,
// 130 interrupted.
// Results go to stdout, as tab-separated fields without a header when piped,
// aligned with a header on a terminal, as JSON with --json; everything else goes
// to stderr (operations.md, "Command line").
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	stdnet "net"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mortarmq/mortarmq/client"
)

// Exit codes.
const (
	exitOK       = 0
	exitUsage    = 2
	exitNoBroker = 3
	exitRefused  = 4

	exitInterrupted = 130 // as a shell says it of SIGINT
)

// Env is the world of one command.
type Env struct {
	Args   []string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) string
}

// call is one use of a command: what was asked for and where to say it.
type call struct {
	*Env
	columns   []string // the command's
	args      []string
	addrs     string
	admin     string
	tokenFile string
	json      bool
	values    any // the command's own flags
}

// usageError is wrong usage: exit code 2.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// errInterrupted is the error of what a signal ended.
var errInterrupted = errors.New("interrupted")

// noBrokerError says that nobody was reached: exit code 3.
type noBrokerError struct{ err error }

func (e noBrokerError) Error() string { return e.err.Error() }
func (e noBrokerError) Unwrap() error { return e.err }

// Run carries the command out and gives the exit code.
func (e *Env) Run(ctx context.Context) int {
	err := e.run(ctx)
	if err == nil || errors.Is(err, errTold) {
		return exitOK
	}
	fmt.Fprintln(e.Stderr, "mortarmq: "+strings.ReplaceAll(plain(err), "\n", "\nmortarmq: "))
	var usage usageError
	var nobody noBrokerError
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &nobody), errors.Is(err, client.ErrNoBroker):
		return exitNoBroker
	case ctx.Err() != nil:
		return exitInterrupted
	}
	return exitRefused
}

// plain is the text of an error without the name that the client library puts
// before each of its own.
func plain(err error) string {
	text := strings.TrimPrefix(err.Error(), "mortarmq: ")
	return strings.NewReplacer(": mortarmq: ", ": ", "\nmortarmq: ", "\n").Replace(text)
}

func (e *Env) run(ctx context.Context) error {
	use := &call{Env: e}
	c, rest, err := use.find(commands())
	if err != nil {
		return err
	}
	use.columns = c.columns
	flags := pflag.NewFlagSet("mortarmq "+c.name, pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.SortFlags = false
	if c.flags != nil {
		c.flags(flags, use)
	}
	use.commonFlags(flags)
	if c.offline {
		for _, name := range []string{"addr", "admin", "token-file"} {
			_ = flags.MarkHidden(name) // they are taken by every command and mean nothing here
		}
		if c.columns == nil {
			_ = flags.MarkHidden("json")
		}
	}
	if err := flags.Parse(rest); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			fmt.Fprint(e.Stdout, c.help(), flags.FlagUsages())
			return nil
		}
		return usagef("%v; see mortarmq %s --help", err, c.name)
	}
	use.args = flags.Args()
	if len(use.args) != c.wanted() {
		return usagef("%s", strings.TrimSpace("usage: mortarmq "+c.name+" "+c.args))
	}
	return c.run(ctx, use)
}

// commonFlags are the flags that stand before a command or behind it; what stands
// behind it wins, and both win over the environment.
func (c *call) commonFlags(f *pflag.FlagSet) {
	value := func(now, name, fallback string) string {
		if v := c.Getenv(name); now == "" && v != "" {
			return v
		}
		return cmp.Or(now, fallback)
	}
	f.StringVar(&c.addrs, "addr", value(c.addrs, "MORTARMQ_ADDR", "127.0.0.1:7188"), "client address of the broker, several separated by commas")
	f.StringVar(&c.admin, "admin", value(c.admin, "MORTARMQ_ADMIN", "127.0.0.1:7190"), "admin address of the broker")
	f.StringVar(&c.tokenFile, "token-file", value(c.tokenFile, "MORTARMQ_TOKEN_FILE", ""), "file that holds the client token")
	f.BoolVar(&c.json, "json", c.json, "print JSON")
}

// token reads the client token, without the newline that ends its file.
func (c *call) token() (string, error) {
	if c.tokenFile == "" {
		return "", nil
	}
	data, err := os.ReadFile(c.tokenFile)
	if err != nil {
		return "", usagef("--token-file: %v", err)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

// addrList gives the addresses of --addr.
func (c *call) addrList() ([]string, error) {
	var list []string
	for _, a := range strings.Split(c.addrs, ",") {
		if a = strings.TrimSpace(a); a == "" {
			continue
		}
		if err := checkAddr("--addr", a); err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	if len(list) == 0 {
		return nil, usagef("--addr is empty")
	}
	return list, nil
}

// checkAddr holds an address against HOST:PORT.
func checkAddr(flag, addr string) error {
	if _, port, err := stdnet.SplitHostPort(addr); err != nil || port == "" {
		return usagef("%s: %q is not HOST:PORT", flag, addr)
	}
	return nil
}

// errNoToken says that the broker wants a token and got none.
var errNoToken = errors.New("AUTH_FAILED: no token was given: --token-file FILE or MORTARMQ_TOKEN_FILE")

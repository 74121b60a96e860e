// Package cli is what `mortarmq` does: a command per file.
//
// Exit codes: 0 done, 2 wrong usage, 3 no broker reached, 4 the broker refused.
// Results go to stdout, as tab-separated fields without a header when piped,
// aligned with a header on a terminal, as JSON with --json; everything else goes
// to stderr (operations.md, "Command line").
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
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
)

// Env is the world of one command.
type Env struct {
	Args   []string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) string
}

// command is a row of the table of commands.
type command struct {
	name  string // one or two words
	args  string
	about string
	run   func(context.Context, *call) error
	flags func(*pflag.FlagSet, *call)
}

// call is one use of a command: what was asked for and where to say it.
type call struct {
	*Env
	args      []string
	addrs     string
	admin     string
	tokenFile string
	json      bool
	values    any // the command's own flags
}

func commands() []command {
	return []command{
		{"topics create", "NAME", "declare a topic", topicsCreate, topicsCreateFlags},
		{"topics delete", "NAME", "delete a topic, its dead letters and its groups", topicsDelete, nil},
		{"topics list", "", "list topics", topicsList, nil},
		{"groups list", "[--topic T]", "list consumer groups", groupsList, groupsListFlags},
		{"groups describe", "G", "show who owns each partition of a group, and its lag", groupsDescribe, nil},
		{"groups reset", "G --to earliest|latest|SEQ|TIME", "move a group without members", groupsReset, groupsResetFlags},
		{"groups delete", "G", "delete a group without members", groupsDelete, nil},
		{"explain", "TOPIC PARTITION [--group G]", "say what holds a partition up", explain, explainFlags},
		{"dlq list", "TOPIC", "list dead letters with reason and origin", dlqList, dlqListFlags},
		{"dlq show", "TOPIC", "show dead letters with key and value", dlqShow, dlqShowFlags},
		{"dlq redrive", "TOPIC", "publish the dead letters back, once each", dlqRedrive, nil},
		{"dlq purge", "TOPIC", "give the dead letters up", dlqPurge, nil},
		{"leader get", "", "show who leads", leaderGet, nil},
		{"broker status", "", "show the broker", brokerStatus, nil},
		{"pub", "TOPIC", "publish lines of standard input", pub, pubFlags},
		{"sub", "TOPIC --group G", "consume: print messages and acknowledge them", sub, subFlags},
		{"tail", "TOPIC", "look at a topic without a group", tail, tailFlags},
		{"verify", "DATA_DIR", "check every file of a stopped broker; changes nothing", verifyDir, nil},
		{"dump", "FILE", "print a file of the data directory as text", dumpFile, nil},
		{"hash-token", "", "make a digest line from a token on standard input", hashToken, nil},
		{"bench", "", "measure durable publishes against the device's own limit", bench, benchFlags},
	}
}

// usageError is wrong usage: exit code 2.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// noBrokerError says that nobody was reached: exit code 3.
type noBrokerError struct{ err error }

func (e noBrokerError) Error() string { return e.err.Error() }
func (e noBrokerError) Unwrap() error { return e.err }

// Run carries the command out and gives the exit code.
func (e *Env) Run(ctx context.Context) int {
	err := e.run(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(e.Stderr, "mortarmq: %v\n", err)
	var usage usageError
	var nobody noBrokerError
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &nobody), errors.Is(err, client.ErrNoBroker):
		return exitNoBroker
	}
	return exitRefused
}

func (e *Env) run(ctx context.Context) error {
	c, rest, err := e.find()
	if err != nil || c == nil {
		return err
	}
	use := &call{Env: e}
	flags := pflag.NewFlagSet("mortarmq "+c.name, pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.SortFlags = false
	if c.flags != nil {
		c.flags(flags, use)
	}
	use.commonFlags(flags)
	if err := flags.Parse(rest); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			fmt.Fprintf(e.Stdout, "mortarmq %s %s\n\n%s\n\n%s", c.name, c.args, c.about, flags.FlagUsages())
			return nil
		}
		return usagef("%v; see mortarmq %s --help", err, c.name)
	}
	use.args = flags.Args()
	if len(use.args) != c.wanted() {
		return usagef("usage: mortarmq %s %s", c.name, c.args)
	}
	return c.run(ctx, use)
}

// wanted is how many arguments the command takes: the words before its flags.
func (c *command) wanted() int {
	n := 0
	for _, word := range strings.Fields(c.args) {
		if strings.HasPrefix(strings.TrimPrefix(word, "["), "-") {
			break
		}
		n++
	}
	return n
}

// find picks the command that the first words name. With no words it prints the
// list.
func (e *Env) find() (*command, []string, error) {
	list := commands()
	if len(e.Args) == 0 || e.Args[0] == "--help" || e.Args[0] == "-h" || e.Args[0] == "help" {
		fmt.Fprint(e.Stdout, "mortarmq COMMAND [--help]\n\n")
		for _, c := range list {
			fmt.Fprintf(e.Stdout, "  %-46s %s\n", strings.TrimSpace(c.name+" "+c.args), c.about)
		}
		return nil, nil, nil
	}
	for i := range list {
		words := strings.Fields(list[i].name)
		if len(e.Args) >= len(words) && strings.Join(e.Args[:len(words)], " ") == list[i].name {
			return &list[i], e.Args[len(words):], nil
		}
	}
	var near []string
	for _, c := range list {
		if strings.HasPrefix(c.name, e.Args[0]+" ") {
			near = append(near, c.name)
		}
	}
	if len(near) > 0 {
		return nil, nil, usagef("%s what? %s", e.Args[0], strings.Join(near, ", "))
	}
	return nil, nil, usagef("no command %q; mortarmq --help lists them", e.Args[0])
}

func (c *call) commonFlags(f *pflag.FlagSet) {
	env := func(name, fallback string) string {
		if v := c.Getenv(name); v != "" {
			return v
		}
		return fallback
	}
	f.StringVar(&c.addrs, "addr", env("MORTARMQ_ADDR", "127.0.0.1:7188"), "client address of the broker, several separated by commas")
	f.StringVar(&c.admin, "admin", env("MORTARMQ_ADMIN", "127.0.0.1:7190"), "admin address of the broker")
	f.StringVar(&c.tokenFile, "token-file", env("MORTARMQ_TOKEN_FILE", ""), "file that holds the client token")
	f.BoolVar(&c.json, "json", false, "print JSON")
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

func (c *call) addrList() []string {
	var list []string
	for _, a := range strings.Split(c.addrs, ",") {
		if a = strings.TrimSpace(a); a != "" {
			list = append(list, a)
		}
	}
	return list
}

package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mortarmq/mortarmq/cmd/internal/version"
	"github.com/mortarmq/mortarmq/node/config"
)

// errTold is what find answers when what was asked for has been printed.
var errTold = errors.New("printed")

// find takes the flags that stand before the command and picks the command that
// the first words name; the rest is its own.
func (c *call) find(list []command) (*command, []string, error) {
	before := pflag.NewFlagSet("mortarmq", pflag.ContinueOnError)
	before.SetOutput(io.Discard)
	before.SetInterspersed(false)
	before.SortFlags = false
	c.commonFlags(before)
	tell := before.Bool("version", false, "print the version")
	err := before.Parse(c.Args)
	words := before.Args()
	switch {
	case errors.Is(err, pflag.ErrHelp), err == nil && len(words) == 0 && !*tell, err == nil && len(words) > 0 && words[0] == "help":
		c.printHelp(list, before)
		return nil, nil, errTold
	case err != nil:
		return nil, nil, usagef("%v; mortarmq --help lists commands and flags", err)
	case *tell:
		fmt.Fprintln(c.Stdout, "mortarmq", version.String())
		return nil, nil, errTold
	}
	for i := range list {
		n := len(strings.Fields(list[i].name))
		if len(words) >= n && strings.Join(words[:n], " ") == list[i].name {
			return &list[i], words[n:], nil
		}
	}
	return nil, nil, c.notFound(list, words)
}

// notFound prints the commands of a group whose help is asked for; else it says
// what is wrong with the words and what was probably meant.
func (c *call) notFound(list []command, words []string) error {
	group := slices.DeleteFunc(slices.Clone(list), func(one command) bool { return !strings.HasPrefix(one.name, words[0]+" ") })
	names := make([]string, len(group))
	for i, one := range group {
		names[i] = one.name
	}
	second := ""
	if len(words) > 1 {
		second = words[1]
	}
	switch {
	case len(group) > 0 && (second == "--help" || second == "-h" || second == "help"):
		printCommands(c.Stdout, group)
		return errTold
	case len(group) > 0 && (second == "" || strings.HasPrefix(second, "-")):
		return usagef("%s what? %s", words[0], strings.Join(names, ", "))
	}
	given := words[0]
	if len(group) > 0 {
		given += " " + second
	}
	if near := nearest(list, words); near != "" {
		return usagef("no command %q: did you mean %q?", given, near)
	}
	if len(group) > 0 {
		return usagef("no command %q: there are %s", given, strings.Join(names, ", "))
	}
	return usagef("no command %q; mortarmq --help lists them", given)
}

// nearest is the command that is at most two letters from the words, or "".
func nearest(list []command, words []string) string {
	best, least := "", 3
	for _, c := range list {
		n := min(len(strings.Fields(c.name)), len(words))
		if d := config.Distance(strings.Join(words[:n], " "), c.name); d < least && d < len(c.name)/2 {
			best, least = c.name, d
		}
	}
	return best
}

func printCommands(w io.Writer, list []command) {
	for _, c := range list {
		fmt.Fprintf(w, "  %-46s %s\n", strings.TrimSpace(c.name+" "+c.args), c.about)
	}
}

func (c *call) printHelp(list []command, flags *pflag.FlagSet) {
	fmt.Fprint(c.Stdout, "mortarmq [FLAGS] COMMAND [--help]\n\n")
	printCommands(c.Stdout, list)
	fmt.Fprintf(c.Stdout, "\nFlags of every command that asks the broker, before or behind its name:\n\n%s\n", flags.FlagUsages())
	fmt.Fprint(c.Stdout, "--addr, --admin and --token-file are also taken from MORTARMQ_ADDR, MORTARMQ_ADMIN and\nMORTARMQ_TOKEN_FILE. Exit codes: 0 done, 2 wrong usage, 3 no broker reached, 4 the broker refused,\n130 interrupted.\n")
}

package cli

import (
	"context"
	"strings"

	"github.com/spf13/pflag"
)

// command is a row of the table of commands.
type command struct {
	name    string // one or two words
	args    string
	about   string
	columns []string // of what it prints; the docs and --help have them from here
	when    string   // the flag that it takes to print them, "" for none
	more    string   // what else --help says
	offline bool     // asks no broker
	run     func(context.Context, *call) error
	flags   func(*pflag.FlagSet, *call)
}

// deadLetterColumns are those of dlq list.
var deadLetterColumns = []string{"partition", "sequence", "source_partition", "source_sequence", "group", "attempts", "reason", "time"}

// messageColumns are those of sub and tail with --format tsv.
var messageColumns = []string{"partition", "sequence", "attempt", "time", "producer_id", "producer_seq", "key", "value"}

func commands() []command {
	return []command{
		{name: "topics create", args: "NAME", about: "declare a topic", columns: []string{"result", "topic_id"},
			more: "result is created or existed.", run: topicsCreate, flags: topicsCreateFlags},
		{name: "topics delete", args: "NAME", about: "delete a topic, its dead letters and its groups", columns: []string{"result"},
			more: "result is deleted or not_found.", run: topicsDelete},
		{name: "topics list", about: "list topics", columns: []string{"name", "partitions", "state", "created_epoch"},
			more: "state is active, damaged or dlq_damaged.", run: topicsList},
		{name: "groups list", args: "[--topic T]", about: "list consumer groups", columns: []string{"group", "topic", "lag", "state"},
			more: "state is stable, rebalancing, empty or held.", run: groupsList, flags: groupsListFlags},
		{name: "groups describe", args: "G", about: "show who owns each partition of a group, and its lag", columns: []string{"member", "assignment_epoch", "ownership_epoch", "lag"},
			more: "A line per partition, from 0 on; member 0 is nobody.", run: groupsDescribe},
		{name: "groups reset", args: "G --to earliest|latest|SEQ|TIME", about: "move a group without members", columns: []string{"partition", "sequence"},
			more: "sequence is that of the next delivery.", run: groupsReset, flags: groupsResetFlags},
		{name: "groups delete", args: "G", about: "delete a group without members", columns: []string{"result"}, run: groupsDelete},
		{name: "explain", args: "TOPIC PARTITION [--group G]", about: "say what holds a partition up", columns: []string{"key", "value"},
			run: explain, flags: explainFlags},
		{name: "dlq list", args: "TOPIC", about: "list dead letters with reason and origin", columns: deadLetterColumns, run: dlqList, flags: dlqListFlags},
		{name: "dlq show", args: "TOPIC", about: "show dead letters with key and value",
			columns: append(deadLetterColumns[:len(deadLetterColumns):len(deadLetterColumns)], "state", "producer_id", "producer_seq", "key", "value"),
			run:     dlqShow, flags: dlqShowFlags},
		{name: "dlq redrive", args: "TOPIC", about: "publish the dead letters back, once each", columns: []string{"redriven", "skipped"}, run: dlqRedrive},
		{name: "dlq purge", args: "TOPIC", about: "give the dead letters up", columns: []string{"purged"}, run: dlqPurge},
		{name: "leader get", about: "show who leads", columns: []string{"leader_id", "leader_epoch", "quorum_state"}, run: leaderGet},
		{name: "broker status", about: "show the broker", columns: []string{"node_id", "uptime_s", "connections", "version"}, run: brokerStatus},
		{name: "pub", args: "TOPIC", about: "publish lines of standard input", columns: []string{"sent", "acknowledged", "deduplicated", "failed", "seconds"},
			more: "A topic that does not exist is created with the first message.", run: pub, flags: pubFlags},
		{name: "sub", args: "TOPIC --group G", about: "consume: print messages and acknowledge them", columns: messageColumns, when: "--format tsv",
			more: "time is empty: a delivery does not tell it. A topic that does not exist is created.\n" +
				"The command of --exec finds MORTARMQ_KEY, MORTARMQ_PARTITION, MORTARMQ_SEQUENCE and\nMORTARMQ_ATTEMPT in its environment.", run: sub, flags: subFlags},
		{name: "tail", args: "TOPIC", about: "look at a topic without a group", columns: messageColumns, when: "--format tsv",
			more: "attempt is 0: nothing is delivered.", run: tail, flags: tailFlags},
		{name: "verify", args: "DATA_DIR", about: "check every file of a stopped broker; changes nothing", columns: []string{"level", "path", "offset", "sequence", "what"},
			offline: true, run: verifyDir},
		{name: "dump", args: "FILE", about: "print a file of the data directory as text", offline: true, run: dumpFile},
		{name: "hash-token", about: "make a digest line from a token on standard input", offline: true, run: hashToken},
		{name: "bench", about: "measure durable publishes against the device's own limit",
			columns: []string{"connections", "in_flight", "per_second", "per_second_min", "per_second_max", "p50_us", "p99_us", "p999_us", "ratio", "ratio_min", "ratio_max"},
			more:    "With --consume: " + strings.Join(consumeColumns, ", ") + ".", run: bench, flags: benchFlags},
	}
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

// help is what --help prints above the flags.
func (c *command) help() string {
	text := strings.TrimSpace("mortarmq "+c.name+" "+c.args) + "\n\n" + c.about + "\n\n"
	if c.columns != nil {
		when := ""
		if c.when != "" {
			when = " with " + c.when
		}
		text += "Columns" + when + ": " + strings.Join(c.columns, ", ") + ".\n"
	}
	if c.more != "" {
		text += c.more + "\n"
	}
	return strings.TrimRight(text, "\n") + "\n\n"
}

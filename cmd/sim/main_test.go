package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/sim"
)

// command runs the command line and gives its exit code and what it printed.
func command(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(append(args, "--out", t.TempDir()), &out, &errs)
	return code, out.String() + errs.String()
}

// Goal: bad usage is told apart from a broken property, and says what to do.
func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "give one of"},
		{[]string{"--seeds", "9..3"}, "A <= B"},
		{[]string{"-seed", "1", "--seeds", "1..2"}, "give one of"},
		{[]string{"--sead", "1"}, "unknown flag"},
		{[]string{"-seed", "1", "more"}, "no flag"},
		{[]string{"--replay", "no such file"}, "no such file"},
		{[]string{"-seed", "1", "--planted", "no such bug"}, "--list-planted"},
	} {
		if code, out := command(t, c.args...); code != 2 || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit code %d: %s", c.args, code, out)
		}
	}
}

// Goal: -seed and --seed are one flag, a run prints its verdict and figures, and
// the plan that is printed replays to the same run.
func TestSeed(t *testing.T) {
	code, one := command(t, "-seed", "8")
	if code != 0 || !strings.HasPrefix(one, "held: seed 8: ") {
		t.Fatalf("exit code %d: %s", code, one)
	}
	_, plan := command(t, "--seed", "8", "--plan")
	file := filepath.Join(t.TempDir(), "plan.txt")
	if err := os.WriteFile(file, []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	code, again := command(t, "--replay", file)
	figures := func(s string) string { s, _, _ = strings.Cut(s, " simulated seconds"); return s }
	if code != 0 || figures(one) != figures(again) {
		t.Fatalf("exit code %d:\n%s\n%s", code, one, again)
	}
}

// Goal: a scenario that does not come by what it is about fails and says how to
// replay it; the smaller plan is written beside it, and it stays as it is.
func TestFailure(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "plan.txt")
	text := "mortarmq-plan 1\n# kept\nexpect held\nreach no.such_mark\nseed 1\nend 1s\ntopic t 1\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	code := run([]string{"--replay", file, "--shrink"}, &out, &out)
	small := filepath.Join(dir, "plan.min.txt")
	if code != 1 || !strings.Contains(out.String(), "replay: go run") || !strings.Contains(out.String(), "plan:   "+small+" (go run ") {
		t.Fatalf("exit code %d: %s", code, out.String())
	}
	if now, err := os.ReadFile(file); err != nil || string(now) != text {
		t.Errorf("the plan was changed: %v\n%s", err, now)
	}
	if code, out := command(t, "--replay", small); code != 1 {
		t.Errorf("the smaller plan: exit code %d: %s", code, out)
	}
}

// Goal: a run of many seeds may be as short as a fraction of a minute, and draws
// over no line where its output is kept.
func TestMinutes(t *testing.T) {
	if code, out := command(t, "--minutes", "0.001", "--from", "8"); code != 0 || !strings.Contains(out, " seeds in ") || strings.Contains(out, "\r") {
		t.Fatalf("exit code %d: %s", code, out)
	}
}

// Goal: the table of planted bugs in SIMULATION.md has those that there are.
func TestPlantedDocs(t *testing.T) {
	data, err := os.ReadFile("../../SIMULATION.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(data), "\n| bug | caught by |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z_]+) \|`).FindAllStringSubmatch(table, -1) {
		rows[row[1]] = true
	}
	for _, b := range sim.Planted() {
		if !rows[b.Name] {
			t.Errorf("SIMULATION.md lacks %s", b.Name)
		}
		delete(rows, b.Name)
	}
	for name := range rows {
		t.Errorf("SIMULATION.md has %s, which there is not", name)
	}
}

// Goal: a plain binary holds no planted bugs and prints the command that does.
func TestPlainRefusesPlanted(t *testing.T) {
	if fault.Enabled {
		t.Skip("this binary holds them")
	}
	if code, out := command(t, "-seed", "1", "--planted", "ack_before_sync"); code != 2 || !strings.Contains(out, "-tags faults") {
		t.Fatalf("exit code %d: %s", code, out)
	}
	if code, out := command(t, "--list-planted"); code != 0 || strings.Count(out, "\n") < 10 {
		t.Fatalf("exit code %d: %s", code, out)
	}
}

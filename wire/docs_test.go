package wire

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Goal: the table of codes in docs/protocol.md is the table of the code.
func TestDocs(t *testing.T) {
	data, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Codes() {
		if row := docRow(c); !strings.Contains(string(data), row+"\n") {
			t.Errorf("docs/protocol.md lacks\n%s", row)
		}
	}
}

func docRow(c CodeInfo) string {
	closes, effect := "", "none"
	if c.Close {
		closes = "yes"
	}
	if c.Outcome == OutcomeUnknown {
		effect = "unknown"
	}
	retry := map[Retry]string{
		RetryNever: "gives up", RetryBackoff: "backs off, repeats", RetryLeader: "finds the leader, repeats",
		RetryRejoin: "rejoins the group", RetryContinue: "goes on",
	}[c.Retry]
	return fmt.Sprintf("| %04X | %s | %s | %s | %s | %s |", uint16(c.Code), c.Name, closes, effect, retry, c.Advice)
}

package config

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Goal: the table of keys in docs/operations.md is the table of the code: names,
// defaults and ranges.
func TestDocs(t *testing.T) {
	data, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if row := docRow(k); !strings.Contains(string(data), row+"\n") {
			t.Errorf("docs/operations.md lacks\n%s", row)
		}
	}
}

func docRow(k key) string {
	fallback, bounds := k.fallback, "text"
	if fallback == "" {
		fallback = "-"
	}
	switch {
	case len(k.choices) > 0:
		bounds = strings.Join(k.choices, ", ")
	case k.kind == kindInt:
		bounds = fmt.Sprintf("%d to %d", k.min, k.max)
	case k.kind == kindBytes:
		bounds = fmt.Sprintf("%d to %d bytes", k.min, k.max)
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s |", k.name, fallback, bounds, k.usage)
}

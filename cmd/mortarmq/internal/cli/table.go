package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
)

// table prints rows: aligned with a header on a terminal, TSV without one when
// piped, a JSON list of objects with --json.
type table struct {
	c       *call
	columns []string
	rows    [][]any
}

func (c *call) table(columns ...string) *table { return &table{c: c, columns: columns} }

func (t *table) row(cells ...any) { t.rows = append(t.rows, cells) }

func (t *table) print() error {
	if t.c.json {
		return t.printJSON()
	}
	if !isTerminal(t.c.Stdout) {
		for _, r := range t.rows {
			if _, err := fmt.Fprintln(t.c.Stdout, tsv(r)); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(t.c.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, strings.ToUpper(strings.Join(t.columns, "\t")))
	for _, r := range t.rows {
		fmt.Fprintln(w, tsv(r))
	}
	return w.Flush()
}

// stream prints the rows so far where no later one can change how they look, so
// that a long list need not be held.
func (t *table) stream() error {
	if t.c.json || isTerminal(t.c.Stdout) {
		return nil
	}
	err := t.print()
	t.rows = t.rows[:0]
	return err
}

func (t *table) printJSON() error {
	items := make([]map[string]any, 0, len(t.rows))
	for _, r := range t.rows {
		item := map[string]any{}
		for i, name := range t.columns {
			item[name] = r[i]
		}
		items = append(items, item)
	}
	return t.c.printJSON(map[string]any{"items": items})
}

// printJSON prints one value.
func (c *call) printJSON(v any) error {
	enc := json.NewEncoder(c.Stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

var escaper = strings.NewReplacer(`\`, `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`)

func tsv(cells []any) string {
	var b strings.Builder
	for i, c := range cells {
		if i > 0 {
			b.WriteByte('\t')
		}
		b.WriteString(escaper.Replace(fmt.Sprint(c)))
	}
	return b.String()
}

// isTerminal says whether w is a terminal that a person reads.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull
}

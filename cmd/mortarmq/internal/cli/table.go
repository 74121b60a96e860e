package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/mortarmq/mortarmq/cmd/internal/terminal"
)

// table prints rows: aligned with a header on a terminal, TSV without one when
// piped, a JSON list of objects with --json.
type table struct {
	c       *call
	columns []string
	rows    [][]any
}

// table has the command's own columns.
func (c *call) table() *table { return c.tableOf(c.columns) }

func (c *call) tableOf(columns []string) *table { return &table{c: c, columns: columns} }

// number is a cell with so many decimals, a number in JSON too.
func number(x float64, decimals int) json.Number {
	return json.Number(strconv.FormatFloat(x, 'f', decimals, 64))
}

// absent is a cell where there is nothing: null in JSON.
type absent struct{}

func (absent) String() string               { return "-" }
func (absent) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// row adds a row; a number of cells that is not that of the columns is this
// program's own mistake.
func (t *table) row(cells ...any) {
	if len(cells) != len(t.columns) {
		panic(fmt.Sprintf("a row of %d cells under the columns %v", len(cells), t.columns))
	}
	t.rows = append(t.rows, cells)
}

func (t *table) print() error {
	if t.c.json {
		return t.printJSON()
	}
	if !terminal.Is(t.c.Stdout) {
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
	if t.c.json || terminal.Is(t.c.Stdout) {
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

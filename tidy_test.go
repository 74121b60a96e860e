// Package mortarmq holds no code: this file checks the shape of the whole tree,
// as ARCHITECTURE.md states it.
package mortarmq

import (
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

const module = "github.com/mortarmq/mortarmq"

// room is a row of the table in ARCHITECTURE.md: what a package and those below
// it may import of this module and of other people's.
type room struct {
	path string
	det  bool     // deterministic: obeys the rules of checkDeterminism
	may  []string // packages, or prefixes ending in "/..."; own subtree is free
}

// rooms is ordered: the longest path that fits a package is its room.
var rooms = []room{
	{path: "wire", det: true},
	{path: "wire/msgtrans", det: true, may: []string{"github.com/klauspost/compress/..."}},
	{path: "clock", det: true},
	{path: "clock/osclock", may: []string{"clock"}},
	{path: "disk", det: true},
	{path: "disk/osdisk", may: []string{"disk", "golang.org/x/sys/unix"}},
	{path: "disk/disktest", may: []string{"disk"}},
	{path: "net", det: true},
	{path: "net/tcp", may: []string{"net", "golang.org/x/sys/unix"}},
	{path: "net/nettest", may: []string{"net"}},
	{path: "net/ws", may: []string{"net", "github.com/coder/websocket"}},
	{path: "net/quic", may: []string{"net", "github.com/quic-go/quic-go"}},
	{path: "net/msgtrans", may: []string{"wire/msgtrans", "net/..."}},
	{path: "fault", det: true, may: []string{"github.com/pingcap/failpoint"}},
	{path: "node/op", det: true, may: []string{"wire"}},
	{path: "node/format", det: true, may: []string{"node/op"}},
	{path: "node/replica", det: true, may: []string{"node/op", "clock", "fault"}},
	{path: "node/store", det: true, may: []string{"node/op", "node/format", "disk", "clock", "fault"}},
	{path: "node/machine", det: true, may: []string{"node/op", "wire", "fault"}},
	{path: "node/session", det: true, may: []string{"node/op", "node/machine", "node/format", "wire", "clock", "net", "fault"}},
	{path: "node", det: true, may: []string{"node/op", "node/format", "node/replica", "node/store/...", "node/machine", "node/session", "wire", "clock", "disk", "net", "fault"}},
	{path: "node/config", may: []string{"wire", "node/...", "github.com/spf13/pflag"}},
	{path: "node/admin", may: []string{"wire", "clock", "node/...", "github.com/prometheus/client_golang/..."}},
	{path: "node/host", may: []string{"wire", "clock/...", "disk/...", "net/...", "node/..."}},
	{path: "client/core", det: true, may: []string{"wire", "clock", "net", "fault"}},
	{path: "client", may: []string{"client/core", "net", "net/tcp", "wire", "clock/..."}},
	{path: "sim", det: true, may: []string{"node/...", "client/core", "wire", "clock", "disk", "net", "fault", "checker"}},
	{path: "sim/simtrans", det: true, may: []string{"wire/msgtrans", "clock", "net", "sim/simnet", "sim/prng"}},
	{path: "checker", may: []string{"wire", "github.com/anishathalye/porcupine"}},
	{path: "scenarios", may: []string{"sim/..."}},
	{path: "cmd", may: []string{"..."}},
}

// detStd is what deterministic packages may import of the standard library.
var detStd = []string{
	"bytes", "cmp", "encoding/binary", "errors", "fmt", "hash/crc32", "crypto/sha256", "crypto/hmac", "crypto/subtle",
	"io", "iter", "math", "math/bits", "slices", "sort", "strconv", "strings", "unsafe", "unicode", "unicode/utf8",
}

// undet are files of deterministic rooms that drive workers or write reports
// (architecture.md: "in files of their own").
var undet = []string{"sim/workers.go", "sim/report.go", "sim/determinism.go"}

// Ratchets: the largest file and function of production code, in lines. They
// only ever go down; the exceptions name what is still above them.
const (
	fileLinesMax     = 400
	functionLinesMax = 90
)

var (
	longFiles     = map[string]int{}
	longFunctions = map[string]int{}
)

func roomOf(pkg string) (room, bool) {
	rel := strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")
	best, found := room{}, false
	for _, r := range rooms {
		if (rel == r.path || strings.HasPrefix(rel, r.path+"/")) && len(r.path) > len(best.path) {
			best, found = r, true
		}
	}
	return best, found
}

func matches(pattern, path string) bool {
	if pattern == "..." {
		return true
	}
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == base || strings.HasPrefix(path, base+"/")
	}
	return path == pattern
}

func (r room) allows(path string) bool {
	if rel, ok := strings.CutPrefix(path, module+"/"); ok {
		if rel == r.path || strings.HasPrefix(rel, r.path+"/") {
			return true
		}
		return slices.ContainsFunc(r.may, func(p string) bool { return matches(p, rel) })
	}
	if !strings.Contains(strings.SplitN(path, "/", 2)[0], ".") { // standard library
		return !r.det || slices.Contains(detStd, path)
	}
	return slices.ContainsFunc(r.may, func(p string) bool { return matches(p, path) })
}

func load(t *testing.T) []*packages.Package {
	t.Helper()
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports,
	}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pkgs {
		for _, e := range p.Errors {
			t.Fatal(e)
		}
	}
	return pkgs
}

// Goal: every package keeps to its room, deterministic ones to the rules, and
// files and functions stay short.
func TestTree(t *testing.T) {
	for _, p := range load(t) {
		if p.PkgPath == module {
			continue
		}
		r, ok := roomOf(p.PkgPath)
		if !ok {
			t.Errorf("%s: in no room of the table", p.PkgPath)
			continue
		}
		for i, f := range p.Syntax {
			name := relative(t, p.GoFiles[i])
			free := slices.Contains(undet, name)
			for _, im := range f.Imports {
				path := strings.Trim(im.Path.Value, `"`)
				if !r.allows(path) && !free {
					t.Errorf("%s: the room %s may not import %s", name, r.path, path)
				}
				if path == "net" && (im.Name == nil || im.Name.Name != "stdnet") {
					t.Errorf("%s: the standard library's net is imported as stdnet", name)
				}
			}
			if r.det && !free {
				checkDeterminism(t, p, f, name)
			}
			checkLengths(t, p.Fset, f, name)
		}
	}
}

func relative(t *testing.T, path string) string {
	t.Helper()
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(wd, path)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.ToSlash(rel)
}

// checkDeterminism reports what could make two runs of the same inputs differ.
// A map range is allowed where the line says "order-free" and why; a float
// where it says "float:" and what it is for.
func checkDeterminism(t *testing.T, p *packages.Package, f *ast.File, name string) {
	marked := map[string]map[int]bool{"order-free": {}, "float:": {}}
	for _, c := range f.Comments {
		for _, l := range c.List {
			for word, lines := range marked {
				if strings.Contains(l.Text, word) {
					line := p.Fset.Position(l.Pos()).Line
					lines[line], lines[line+1] = true, true
				}
			}
		}
	}
	bad := func(n ast.Node, what string) {
		t.Errorf("%s:%d: %s in a deterministic package", name, p.Fset.Position(n.Pos()).Line, what)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			bad(n, "go statement")
		case *ast.SelectStmt:
			bad(n, "select")
		case *ast.ChanType:
			bad(n, "channel")
		case *ast.RangeStmt:
			if _, ok := p.TypesInfo.TypeOf(n.X).Underlying().(*types.Map); ok && !marked["order-free"][p.Fset.Position(n.Pos()).Line] {
				bad(n, "unmarked map range")
			}
		case ast.Expr:
			if b, ok := p.TypesInfo.TypeOf(n).(*types.Basic); ok && b.Info()&types.IsFloat != 0 && !marked["float:"][p.Fset.Position(n.Pos()).Line] {
				bad(n, "float")
				return false
			}
		}
		return true
	})
}

func checkLengths(t *testing.T, fset *token.FileSet, f *ast.File, name string) {
	lines := func(n ast.Node) int { return fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1 }
	limit := fileLinesMax
	if l, ok := longFiles[name]; ok {
		limit = l
	}
	if n := fset.Position(f.FileEnd).Line; n > limit {
		t.Errorf("%s: %d lines, at most %d", name, n, limit)
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		limit := functionLinesMax
		if l, ok := longFunctions[name+":"+fn.Name.Name]; ok {
			limit = l
		}
		if n := lines(fn); n > limit {
			t.Errorf("%s: %s has %d lines, at most %d", name, fn.Name.Name, n, limit)
		}
	}
}

// Goal: the top level holds what ARCHITECTURE.md names, and nothing else but what
// programs leave there.
func TestTopLevel(t *testing.T) {
	allowed := strings.Fields("node sim wire disk net clock fault client checker cmd scenarios docs go.mod go.sum tidy_test.go README.md ARCHITECTURE.md SIMULATION.md CHANGELOG.md LICENSE .ci .git .gitignore staticcheck.conf")
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	ignore, err := os.ReadFile(".gitignore")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left := slices.ContainsFunc(strings.Fields(string(ignore)), func(pattern string) bool {
			ok, err := filepath.Match(strings.Trim(pattern, "/"), e.Name())
			return ok && err == nil
		})
		if !left && !slices.Contains(allowed, e.Name()) {
			t.Errorf("%s does not belong at the top level", e.Name())
		}
	}
}

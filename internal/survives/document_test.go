package survives

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/troupe-run/troupe/test/kit"
)

const root = "../../"

var (
	update = flag.Bool("update", false, "write the tables of the documents")
	hold   = flag.Bool("hold", false, "run the tests of all cells, and promise nothing of which one does not pass")
)

// TestDocuments compares the documents with the table.
func TestDocuments(t *testing.T) {
	passed := func(string) bool { return true } // the gate and the night run them
	if *hold {
		passed = runTests(t)
	}
	const heading, command = "What survives what", "go test ./internal/survives -update"
	kit.Tables(t, root+"docs/what-survives.md", map[string]string{heading: promises(passed)}, *update, command)
	kit.Tables(t, root+"README.md", map[string]string{heading: table(passed)}, *update, command)

	const source, before, after = root + "doc.go", "// # " + heading + "\n", "// # "
	old, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(old), before)
	_, tail, more := strings.Cut(rest, after)
	if !found || !more {
		t.Fatalf("%s lacks %q, or what follows it", source, before)
	}
	text := head + before + comment(passed) + after + tail
	if *update && text != string(old) {
		if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if text != string(old) {
		t.Errorf("%s differs from the table of the code; %s writes it", source, command)
	}
}

// TestTestsAreThere checks that each cell has a word, and that the tests it names are tests.
func TestTestsAreThere(t *testing.T) {
	all := make(map[string]bool) // "dir.Test"
	for _, dir := range slices.Sorted(maps.Keys(named())) {
		files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
					all[dir+"."+fn.Name.Name] = true
				}
			}
		}
	}
	for _, k := range Table {
		for i, c := range k.Cells {
			if c.Word == "" || (c.Word == NotPromised) != (len(c.Tests) == 0) || (c.Says == "") != (len(c.Tests) == 0) {
				t.Errorf("%s, %s: %q needs a word, a sentence and a test, or none but the word", k.Name, Breaks[i], c.Word)
			}
			for _, test := range c.Tests {
				if !all[test] {
					t.Errorf("%s, %s: there is no test %s", k.Name, Breaks[i], test)
				}
			}
		}
	}
}

// table is the table without sentences.
func table(passed func(test string) bool) string {
	var b strings.Builder
	b.WriteString("| |")
	for _, what := range Breaks {
		b.WriteString(" " + what + " |")
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(Breaks)+1) + "\n")
	for _, k := range Table {
		b.WriteString("| " + k.Name + " |")
		for _, c := range k.Cells {
			b.WriteString(" " + c.word(passed) + " |")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// comment is the table as go doc shows it.
func comment(passed func(test string) bool) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(cells []string) { _, _ = fmt.Fprintln(w, "\t"+strings.Join(cells, "\t")) } // a Builder takes everything
	row(append([]string{""}, Breaks[:]...))
	for _, k := range Table {
		cells := []string{k.Name}
		for _, c := range k.Cells {
			cells = append(cells, c.word(passed))
		}
		row(cells)
	}
	_ = w.Flush()
	lines := "//\n"
	for line := range strings.Lines(b.String()) {
		lines += "//\t" + strings.TrimRight(strings.TrimPrefix(line, "  "), " \n") + "\n"
	}
	return lines + "//\n// docs/what-survives.md has what the words mean, and the test that holds each cell.\n//\n"
}

// promises is the table of sentences and tests.
func promises(passed func(test string) bool) string {
	var b strings.Builder
	b.WriteString("| | | held by |\n|---|---|---|\n")
	for _, k := range Table {
		b.WriteString("| **" + k.Name + "** | | |\n")
		for i, c := range k.Cells {
			if c.word(passed) == NotPromised {
				fmt.Fprintf(&b, "| %s | %s | |\n", Breaks[i], NotPromised)
				continue
			}
			var tests []string
			for _, test := range c.Tests {
				_, name := split(test)
				tests = append(tests, "`"+name+"`")
			}
			fmt.Fprintf(&b, "| %s | **%s**: %s | %s |\n", Breaks[i], c.Word, c.Says, strings.Join(tests, ", "))
		}
	}
	return b.String()
}

func (c Cell) word(passed func(test string) bool) string {
	for _, test := range c.Tests {
		if !passed(test) {
			return NotPromised
		}
	}
	return c.Word
}

// named are the tests of all cells, by their directories.
func named() map[string][]string {
	tests := make(map[string][]string)
	for _, k := range Table {
		for _, c := range k.Cells {
			for _, test := range c.Tests {
				dir, name := split(test)
				if !slices.Contains(tests[dir], name) {
					tests[dir] = append(tests[dir], name)
				}
			}
		}
	}
	return tests
}

func split(test string) (dir, name string) {
	i := strings.LastIndexByte(test, '.')
	return test[:i], test[i+1:]
}

// runTests runs the tests of all cells at full length, and returns which of them have passed.
func runTests(t *testing.T) (passed func(test string) bool) {
	ok := make(map[string]bool)
	for dir, tests := range named() {
		cmd := exec.CommandContext(t.Context(), "go", "test", "-json", "-count=1", "-tags", "full", "-timeout", "60m", "-run", "^("+strings.Join(tests, "|")+")$", ".")
		cmd.Dir, cmd.Stderr = filepath.Join(root, dir), os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Logf("%s: %v", dir, err)
		}
		for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
			var e struct{ Action, Test string }
			if json.Unmarshal(lines.Bytes(), &e) == nil && slices.Contains(tests, e.Test) && e.Action == "pass" {
				ok[dir+"."+e.Test] = true
			}
		}
	}
	return func(test string) bool {
		if !ok[test] {
			t.Logf("%s has not passed", test)
		}
		return ok[test]
	}
}

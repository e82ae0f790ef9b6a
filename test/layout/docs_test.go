package layout

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// root is the repository, as the tests of this package see it.
const root = "../.."

// requirements is how many rows the tables of docs/conformance.md have, so that none goes unnoticed. A row has the requirements
// that the same tests show.
const requirements = 235

// TestConformanceTable requires that each requirement has a row that names a test, or says why there is none.
// TestDocsNameWhatExists checks that the tests exist.
func TestConformanceTable(t *testing.T) {
	t.Parallel()
	row := regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \|$`)
	test := regexp.MustCompile("`Test[A-Z]\\w+`")
	rows := map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(readText(t, "docs/conformance.md"), -1) {
		asked, shown := m[1], m[2]
		if asked == "what is asked" {
			continue
		}
		if !test.MatchString(shown) && !strings.HasPrefix(shown, "not yet: ") && !strings.HasPrefix(shown, "not ours: ") {
			t.Errorf("%q: %q names no test", asked, shown)
		}
		rows[m[0]] = true
	}
	if len(rows) != requirements {
		t.Errorf("%d rows, want %d", len(rows), requirements)
	}
}

// TestReadme compares the README with the programs that it prints, and keeps it short.
func TestReadme(t *testing.T) {
	t.Parallel()
	readme := readText(t, "README.md")
	lines := strings.Split(strings.TrimSuffix(readme, "\n"), "\n")
	if len(lines) > mostLines {
		t.Errorf("the README has %d lines, and may have %d: documents have the rest", len(lines), mostLines)
	}
	for i, line := range lines {
		if n := utf8.RuneCountInString(line); n > mostColumns {
			t.Errorf("line %d of the README has %d columns, and may have %d", i+1, n, mostColumns)
		}
	}
	goBlocks := blocks(readme, "go")
	if len(goBlocks) == 0 {
		t.Error("the README has no Go")
	}
	for _, block := range goBlocks {
		if !slices.ContainsFunc(printed, func(file string) bool { return hasLines(readText(t, file), block) }) {
			t.Errorf("no program of %v has the lines of\n%s", printed, block)
		}
	}
	_, install, _ := strings.Cut(readme, "\n## Install")
	if b := blocks(install, "sh"); len(b) < 2 || strings.Count(b[0], "\n") != 1 || strings.Count(b[1], "\n") != 1 {
		t.Errorf("the first blocks below \"Install\" are %q: want a command of .ci/clone in each of two", b)
	}
}

// The README is a first page: this long and this wide at most.
const (
	mostLines   = 160
	mostColumns = 100
)

// printed are the files that the README prints parts of. Tests run them.
var printed = []string{"examples/hello/main.go", "examples/mux/main.go", "example_test.go", "example_runtime_test.go", "troupetest/doc.go"}

// blocks are the blocks of code of a language in a document.
func blocks(document, language string) (all []string) {
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(document, -1) {
		all = append(all, m[1])
	}
	return all
}

// hasLines reports whether a file has the lines of a block in their order, whatever is between them, how they are indented, and whatever comment
// the block adds.
func hasLines(text, block string) bool {
	next := strings.Split(strings.TrimSpace(block), "\n")
	plain := func(line string) string { return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "//")) }
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(next[0], " // ")
		if plain(line) != plain(code) {
			continue
		}
		if next = next[1:]; len(next) == 0 {
			return true
		}
	}
	return false
}

// TestLinesAreFound breaks what TestReadme holds the README to.
func TestLinesAreFound(t *testing.T) {
	t.Parallel()
	const file = "package a\n\nfunc f() {\n\tone()\n\ttwo()\n}\n"
	for block, want := range map[string]bool{"one()\ntwo()\n": true, "\tone() // first\n}\n": true, "two()\none()\n": false, "three()\n": false} {
		if hasLines(file, block) != want {
			t.Errorf("%q: want %v", block, want)
		}
	}
}

// TestDocsNameWhatExists keeps the documents from naming files and tests that do not exist. A file has its path from the root, or from
// the document.
func TestDocsNameWhatExists(t *testing.T) {
	t.Parallel()
	repo, err := readRepository(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	file := regexp.MustCompile("`((?:[a-z0-9_-]+/)*[a-z0-9_-]+\\.(?:go|md))`")
	test := regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w+\b`)
	tests := testNames(t)
	seen := 0
	for _, document := range documentsOf(repo) {
		text := string(repo.texts[document])
		for _, m := range file.FindAllStringSubmatch(text, -1) {
			seen++
			if repo.texts[m[1]] == nil && repo.texts[path.Join(path.Dir(document), m[1])] == nil {
				t.Errorf("%s names %s, which is not there", document, m[1])
			}
		}
		for _, name := range test.FindAllString(text, -1) {
			seen++
			if !slices.Contains(tests, name) {
				t.Errorf("%s names %s, which no test file has", document, name)
			}
		}
	}
	if seen < 50 {
		t.Errorf("%d names found in the documents: the test looks at the wrong place", seen)
	}
}

// TestDocsAreNarrow keeps the prose of docs/, and of the documents beside it, as wide as the README. Tables, code, and a command that is a line of its own
// are as wide as they are.
func TestDocsAreNarrow(t *testing.T) {
	t.Parallel()
	repo, err := readRepository(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile("^ *(- )?`[^`]+`$")
	seen := 0
	for _, document := range documentsOf(repo) {
		if path.Dir(document) != "." && !strings.HasPrefix(document, "docs/") {
			continue
		}
		code := false
		for i, line := range strings.Split(string(repo.texts[document]), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			if code || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "    ") || command.MatchString(line) {
				continue
			}
			seen++
			if n := utf8.RuneCountInString(line); n > mostColumns {
				t.Errorf("%s:%d has %d columns, and may have %d", document, i+1, n, mostColumns)
			}
		}
	}
	if seen < 1000 {
		t.Errorf("%d lines of prose found: the test looks at the wrong place", seen)
	}
}

// testNames returns the tests, fuzz targets and benchmarks of the repository.
func testNames(t *testing.T) (names []string) {
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z]\w+)\(`)
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range function.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// readText reads a file of the repository.
func readText(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

package mutate

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mostRows is how many mutations there may be: all of them are made in a night, and read in an
// hour. Another one takes the place of the one that tells least.
const mostRows = 120

// TestTable checks that each mutation still has one place in the code, and tests. It makes no
// mutation.
func TestTable(t *testing.T) {
	t.Parallel()
	repository := &tree{root: "../.."}
	promises := map[string]bool{}
	for _, g := range groups {
		if len(g.rows) < 10 {
			t.Errorf("%s has %d mutations, want at least 10", g.name, len(g.rows))
		}
		for _, m := range g.rows {
			if promises[m.promise] {
				t.Errorf("%s: two mutations break it", m.promise)
			}
			promises[m.promise] = true
			if _, _, err := repository.applyMutation(&m); err != nil {
				t.Errorf("%s: %v", m.promise, err)
			}
			if !hasTest(t, filepath.Join("../..", filepath.FromSlash(m.testFolder())), m.run) {
				t.Errorf("%s: %s has no test %q", m.promise, m.testFolder(), m.run)
			}
		}
	}
	if len(promises) > mostRows {
		t.Errorf("%d mutations, want at most %d", len(promises), mostRows)
	}
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// hasTest reports whether each alternative of a pattern of go test -run names a test of a package.
func hasTest(t *testing.T, folder, pattern string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range testFunc.FindAllStringSubmatch(string(text), -1) {
			names = append(names, found[1])
		}
	}
	for one := range strings.SplitSeq(pattern, "|") {
		top, _, _ := strings.Cut(one, "/")
		if !slices.ContainsFunc(names, regexp.MustCompile(top).MatchString) {
			return false
		}
	}
	return true
}

package mutate

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// runner makes mutations.
type runner struct {
	tree  tree
	tmp   string
	sound map[string]error // by tests: what they came to without a mutation
}

// testsWithin bounds the tests of one mutation; one that makes them take longer is caught, too.
const testsWithin = 2 * time.Minute

// makeMutation makes a mutation and runs its tests. It fails if they all pass, and if the mutation
// shows nothing: its place is not there once, it does not compile, or the tests fail without it.
func (r *runner) makeMutation(t *testing.T, m *mutation) {
	file, text, err := r.tree.applyMutation(m)
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := r.writeOverlay(file, text)
	if err != nil {
		t.Fatal(err)
	}
	for _, length := range lengths {
		if err := r.passesWithout(t.Context(), m, length); err != nil {
			t.Fatalf("void: without it: %v", err)
		}
		switch out, err := r.runTests(t.Context(), m, length, "-overlay", overlay); {
		case err == nil:
		case notBuilt.MatchString(out):
			t.Fatalf("void: %s does not compile: %s", file, firstLine(out))
		default:
			t.Log("caught: " + failedTests(out))
			return
		}
	}
	t.Errorf("survived: %s is changed, and no test of %s fails", file, m.testFolder())
}

// lengths are the runs of tests that a mutation has to survive: what -short leaves out runs only if
// that finds nothing.
var lengths = []string{"-short=true", "-short=false"}

// passesWithout reports whether the tests of a mutation pass without it, which go test knows for
// most of them from the time before.
func (r *runner) passesWithout(ctx context.Context, m *mutation, length string) error {
	key := length + " " + m.testFolder() + " " + m.run
	err, known := r.sound[key]
	if !known {
		var out string
		if out, err = r.runTests(ctx, m, length); err != nil {
			err = fmt.Errorf("%w: %s", err, failedTests(out))
		} else if noTests.MatchString(out) {
			err = fmt.Errorf("no tests in %s match %q", m.testFolder(), m.run)
		}
		r.sound[key] = err
	}
	return err
}

// writeOverlay writes the mutated file, and the file that tells go of it.
func (r *runner) writeOverlay(file string, text []byte) (name string, err error) {
	changed := filepath.Join(r.tmp, filepath.Base(file))
	if err := os.WriteFile(changed, text, 0o600); err != nil {
		return "", err
	}
	of := map[string]map[string]string{"Replace": {filepath.Join(r.tree.root, filepath.FromSlash(file)): changed}}
	data, err := json.Marshal(of)
	if err != nil {
		return "", err
	}
	name = filepath.Join(r.tmp, "overlay.json")
	return name, os.WriteFile(name, data, 0o600)
}

// runTests runs the tests of a mutation and returns what they printed.
func (r *runner) runTests(ctx context.Context, m *mutation, length string, flags ...string) (out string, err error) {
	args := append([]string{"test", length, "-failfast", "-vet=off", "-timeout", testsWithin.String()}, flags...)
	if m.run != "" {
		args = append(args, "-run", m.run)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+m.testFolder())...)
	cmd.Dir = r.tree.root
	text, err := cmd.CombinedOutput()
	return string(text), err
}

var (
	notBuilt = regexp.MustCompile(`\[(build|setup) failed\]`)
	noTests  = regexp.MustCompile(`no tests? (to run|files)`)
	failure  = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	timedOut = regexp.MustCompile(`panic: test timed out`)
	hanging  = regexp.MustCompile(`(?m)^\t+(Test\w+) \(`)
)

// failedTests names the tests that failed, by what go test printed.
func failedTests(out string) string {
	named := failure
	if timedOut.MatchString(out) {
		named = hanging
	}
	var names []string
	for _, match := range named.FindAllStringSubmatch(out, -1) {
		if !slices.Contains(names, match[1]) {
			names = append(names, match[1])
		}
	}
	switch {
	case timedOut.MatchString(out):
		return "timeout of " + strings.Join(names, " ")
	case names == nil:
		return firstLine(out)
	}
	return strings.Join(names, " ")
}

// firstLine is the first line of what was printed that is no package's name.
func firstLine(out string) string {
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return ""
}

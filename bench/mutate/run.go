package main

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
	"time"
)

// outcome is what became of a mutation.
type outcome string

const (
	caught   outcome = "caught"
	survived outcome = "survived"
	void     outcome = "void"
)

// result is a mutation with its outcome, as it is printed and recorded.
type result struct {
	Promise string  `json:"promise"`
	Group   string  `json:"group"`
	In      string  `json:"in"`             // the folder of what is changed
	File    string  `json:"file,omitempty"` // the file; "" if the mutation has no place
	Tests   string  `json:"tests"`          // the folder of the package
	Outcome outcome `json:"outcome"`
	By      string  `json:"by,omitempty"` // tests that failed, or why the mutation is void
	Seconds float64 `json:"seconds"`
}

// runner makes mutations.
type runner struct {
	tree    tree
	tmp     string
	timeout time.Duration // of the tests of one mutation
	sound   map[string]error
}

// makeMutation makes a mutation and runs its tests.
func (r *runner) makeMutation(ctx context.Context, m *row) result {
	start := time.Now()
	res := result{Promise: m.promise, Group: m.group, In: m.in, Tests: m.testFolder()}
	file, text, err := r.tree.applyMutation(&m.mutation)
	if res.File = file; err != nil {
		res.Outcome, res.By = void, err.Error()
	} else {
		res.Outcome, res.By = r.judgeMutation(ctx, &m.mutation, file, text)
	}
	res.Seconds = float64(time.Since(start).Round(100*time.Millisecond)) / float64(time.Second)
	return res
}

// judgeMutation runs the tests of a mutation with a text in the place of a file's.
func (r *runner) judgeMutation(ctx context.Context, m *mutation, file string, text []byte) (outcome, string) {
	overlay, err := r.writeOverlay(file, text)
	if err != nil {
		return void, err.Error()
	}
	for _, length := range lengths {
		if err := r.passesWithout(ctx, m, length); err != nil {
			return void, "without it: " + err.Error()
		}
		switch out, err := r.runTests(ctx, m, length, "-overlay", overlay); {
		case err == nil:
		case ctx.Err() != nil:
			return void, "interrupted"
		case notBuilt.MatchString(out):
			return void, "it does not compile: " + firstLine(out)
		default:
			return caught, failedTests(out)
		}
	}
	return survived, ""
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
	args := append([]string{"test", length, "-failfast", "-vet=off", "-timeout", r.timeout.String()}, flags...)
	if m.run != "" {
		args = append(args, "-run", m.run)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+m.testFolder())...)
	cmd.Dir = r.tree.root
	// The command is interrupted so that it ends the test, too.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
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
